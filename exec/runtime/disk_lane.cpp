#include "exec/runtime/disk_lane.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {

DiskLane::DiskLane(BlockLoader& loader, DiskLaneOptions options)
    : loader_(&loader), options_(std::move(options)), due_(std::chrono::steady_clock::now()) {}

DiskLane::~DiskLane() { stop(); }

void DiskLane::reserve(const DiskProgram& program) {
  for (Step& step : steps_) {
    step.blocks.reserve(program.loads.size());
    step.times.reserve(program.loads.size());
    step.done.reserve(static_cast<std::size_t>(program.events));
    step.since.reserve(static_cast<std::size_t>(program.events));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

void DiskLane::set_up(std::int64_t number, const DiskProgram& program, bool follows) {
  Step& s = step(number);
  s.program = &program;
  s.follows = follows;
  s.count = static_cast<std::int32_t>(program.loads.size());
  s.loaded = 0;
  s.blocks.assign(program.loads.size(), {});
  s.times.assign(program.loads.size(), {});
  s.done.assign(static_cast<std::size_t>(program.events), 0);
  s.since.assign(static_cast<std::size_t>(program.events), {});
  announced_ = number;
}

// Finished loads stay. Nothing of the step has been done, so its events start anew.
void DiskLane::replace(Step& announced, const DiskProgram& now) {
  require(std::ranges::equal(announced.program->loads, now.loads,
                             [](const DiskLoad& a, const DiskLoad& b) {
                               return a.block == b.block && a.bytes == b.bytes &&
                                      a.earlier_events == b.earlier_events;
                             }),
          "DiskLane: the step that was announced, or one that loads the same");
  announced.program = &now;
  announced.done.assign(static_cast<std::size_t>(now.events), 0);
  announced.since.assign(static_cast<std::size_t>(now.events), {});
}

void DiskLane::begin(const DiskProgram& now, const DiskProgram* next) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) throw Error(reason_);
  ++present_;
  if (announced_ < present_) {
    set_up(present_, now, /*follows=*/false);
  } else if (step(present_).program != &now) {
    replace(step(present_), now);
  }
  if (next != nullptr) set_up(present_ + 1, *next, /*follows=*/true);
  changed_.notify_all();
}

void DiskLane::wait_for(std::unique_lock<std::mutex>& lock, std::int32_t loads) {
  changed_.wait(lock, [&] { return cancelled_ || step(present_).loaded >= loads; });
  if (cancelled_) throw Error(reason_);
}

const LoadedBlock& DiskLane::await(std::int32_t position) {
  std::unique_lock lock(mutex_);
  wait_for(lock, position + 1);
  return step(present_).blocks[static_cast<std::size_t>(position)];
}

const DiskLane::Times& DiskLane::times(std::int32_t position) const {
  const std::lock_guard lock(mutex_);
  return steps_[static_cast<std::size_t>(present_ % 3)].times[static_cast<std::size_t>(position)];
}

void DiskLane::done(std::int32_t event, TimePoint when) {
  const std::lock_guard lock(mutex_);
  Step& s = step(present_);
  s.done[static_cast<std::size_t>(event)] = 1;
  s.since[static_cast<std::size_t>(event)] = when;
  changed_.notify_all();
}

void DiskLane::finish() {
  std::unique_lock lock(mutex_);
  wait_for(lock, step(present_).count);
}

void DiskLane::available(TimePoint when) {
  const std::lock_guard lock(mutex_);
  due_ = std::max(due_, when);
}

double DiskLane::max_late_s() const {
  const std::lock_guard lock(mutex_);
  return max_late_s_;
}

void DiskLane::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    interrupt_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DiskLane::cancel(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
    reason_ = reason;
    cancelled_ = true;
    interrupt_ = true;
  } catch (...) {
    return;  // no memory for a short text: nothing is left to do
  }
  changed_.notify_all();
}

bool DiskLane::events_done(const Step& of, const std::vector<std::int32_t>& events,
                           TimePoint& since) const {
  for (const std::int32_t event : events) {
    if (of.done[static_cast<std::size_t>(event)] == 0) return false;
    since = std::max(since, of.since[static_cast<std::size_t>(event)]);
  }
  return true;
}

bool DiskLane::may_load(TimePoint& since) {
  if (present_ < 0) return false;
  // A step without loads, or with none left.
  while (loading_ <= announced_ && step(loading_).loaded >= step(loading_).count) ++loading_;
  if (loading_ > announced_) return false;
  const Step& s = step(loading_);
  const DiskLoad& next = s.program->loads[static_cast<std::size_t>(s.loaded)];
  if (!events_done(s, next.events, since)) return false;
  return !s.follows || events_done(step(loading_ - 1), next.earlier_events, since);
}

void DiskLane::work() {
  try {
    std::unique_lock lock(mutex_);
    while (true) {
      TimePoint since{};
      changed_.wait(lock, [&] {
        since = {};
        return stopping_ || cancelled_ || may_load(since);
      });
      if (stopping_ || cancelled_) return;
      due_ = std::max(due_, since);
      load(lock);
    }
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || cancelled_) return;  // interrupted
    }
    const std::string reason = model::describe(error);
    cancel(reason);
    if (options_.on_failure) options_.on_failure(reason);
  }
}

void DiskLane::load(std::unique_lock<std::mutex>& lock) {
  Step& s = step(loading_);
  const auto position = static_cast<std::size_t>(s.loaded);
  const std::size_t what = s.program->loads[position].block;
  const double bytes = s.program->loads[position].bytes;
  lock.unlock();
  Times times;
  times.start = std::chrono::steady_clock::now();
  const LoadedBlock block = loader_->load(what, interrupt_);
  times.end = std::chrono::steady_clock::now();
  lock.lock();
  if (options_.rate > 0.0) {
    const TimePoint real = times.end;
    times.start = due_;
    times.end = due_ + std::chrono::nanoseconds(std::llround(bytes / options_.rate * 1e9));
    due_ = times.end;
    max_late_s_ = std::max(max_late_s_, std::chrono::duration<double>(real - times.end).count());
  }
  s.blocks[position] = block;
  s.times[position] = times;
  ++s.loaded;
  changed_.notify_all();
}

}  // namespace tandem::exec
