#include "exec/runtime/lanes.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

// A bounded spin hides most wake-ups on a device that has a core to itself.
constexpr std::chrono::microseconds kSpin{60};

}  // namespace

ChannelLane::ChannelLane(Transport& transport, model::DeviceIndex peer, LaneOptions options)
    : transport_(&transport), peer_(peer), options_(std::move(options)) {}

ChannelLane::~ChannelLane() = default;

void ChannelLane::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ChannelLane::declare(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  if (size <= storage_.size()) return;
  require(!under_way_, "ChannelLane: room is declared while no step is under way");
  storage_ = std::vector<std::byte>(size);  // no more than that
}

void ChannelLane::reserve(const ChannelProgram& program) {
  require(program.peer == peer_, "ChannelLane: program of another channel");
  // Slots of different structures have different sizes: begin() sets those of its step. Another
  // step may be in flight here, whose payloads must not move.
  require(static_cast<std::size_t>(program.slots) * program.slot_bytes <= storage_.size(),
          "ChannelLane: messages take no more room than was declared");
  if (needs_thread(program)) start();
}

void ChannelLane::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

double ChannelLane::allocated_bytes() const { return static_cast<double>(storage_.capacity()); }

void ChannelLane::begin(std::int32_t step, const ChannelProgram& program, ChannelLane* before) {
  bool work = false;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) throw Error(reason_);
    before_ = before;
    if (before != nullptr) before_begun_ = before->begun_;  // which this thread alone changes
    program_ = &program;
    count_ = static_cast<std::int32_t>(program.messages.size());
    slot_bytes_ = program.slot_bytes;
    step_ = step;
    under_way_ = true;
    ++begun_;
    reset();
    work = has_work();
  }
  if (work) start();  // the transport may have found out only now that it has to wait
  changed_.notify_all();
}

void ChannelLane::finish() {
  std::unique_lock lock(mutex_);
  await(lock, [this] { return done(); });
  under_way_ = false;
}

void ChannelLane::cancel(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) reason_ = reason;
    cancelled_ = true;
  } catch (...) {
    // No memory for the reason: an empty one still ends every call.
    cancelled_ = true;
  }
  changed_.notify_all();
}

std::span<std::byte> ChannelLane::slot(const ChannelMessage& message) {
  if (message.gathered != nullptr) return {message.gathered, message.bytes};
  return {storage_.data() + static_cast<std::size_t>(message.slot) * slot_bytes_, message.bytes};
}

template <class Predicate>
void ChannelLane::await(std::unique_lock<std::mutex>& lock, Predicate predicate) {
  ++awaited_;
  changed_.wait(lock, [&] { return cancelled_ || predicate(); });
  --awaited_;
  if (cancelled_) throw Error(reason_);
}

template <class Predicate>
bool ChannelLane::await_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline,
                              Predicate predicate) {
  const auto over = [&] { return cancelled_ || predicate(); };
  bool is_over = true;
  ++awaited_;
  if (deadline == Clock::time_point::max()) {
    changed_.wait(lock, over);
  } else {
    is_over = changed_.wait_until(lock, deadline, over);
  }
  --awaited_;
  if (!is_over) return false;
  if (cancelled_) throw Error(reason_);
  return true;
}

bool ChannelLane::passed(std::int64_t begun) {
  const std::lock_guard lock(mutex_);
  return begun_ != begun || done();
}

Clock::time_point ChannelLane::await_passed(std::int64_t begun) {
  std::unique_lock lock(mutex_);
  await(lock, [&] { return begun_ != begun || done(); });
  return last_sent_;
}

bool ChannelLane::has_turn() { return before_ == nullptr || before_->passed(before_begun_); }

Clock::time_point ChannelLane::await_turn() {
  return before_ == nullptr ? Clock::time_point{} : before_->await_passed(before_begun_);
}

void ChannelLane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || (!cancelled_ && has_work()); });
    if (stopping_) return;
    lock.unlock();
    try {
      transfer();
    } catch (const std::exception& error) {
      const std::string reason = model::describe(error);
      cancel(reason);
      if (options_.on_failure) options_.on_failure(reason);
    }
    lock.lock();
  }
}

void OutgoingLane::begin(std::int32_t step, const ChannelProgram& program,
                         std::span<IncomingLane* const> arriving, ChannelLane* before) {
  arriving_ = arriving;
  ChannelLane::begin(step, program, before);
}

void OutgoingLane::reset() {
  ready_.assign(static_cast<std::size_t>(count()), 0);
  sending_ = false;
  sent_ = 0;
  times_.resize(static_cast<std::size_t>(count()));
}

std::span<const std::byte> OutgoingLane::payload(const ChannelMessage& message) {
  if (message.lies_at != nullptr) return {message.lies_at, message.bytes};
  if (!message.source.exists()) return slot(message);
  IncomingLane* const from = arriving_[static_cast<std::size_t>(message.source.channel)];
  return from->arrived(message.source.position);
}

std::span<std::byte> OutgoingLane::room(std::int32_t position) {
  const ChannelMessage& next = message(position);
  if (next.previous >= 0) {
    std::unique_lock lock(mutex());
    await(lock, [&] { return sent_ > next.previous; });
  }
  return slot(next);
}

void OutgoingLane::offer(std::int32_t position, Clock::time_point ready, bool relayed) {
  Times& times = times_[static_cast<std::size_t>(position)];
  times.start = ready;
  {
    const std::lock_guard lock(mutex());
    ready_[static_cast<std::size_t>(position)] = 1;
    if (sent_ != position || sending_) return;  // the thread that sends those before it will
    sending_ = true;
  }
  const ChannelMessage& next = message(position);
  std::optional<MessageTimes> done;
  if (has_turn()) done = transport().try_send(peer(), tag(next), payload(next));
  if (done) {
    // The computing thread's own work is its time, not the channel's.
    times = {.start = relayed ? ready : done->sent, .sent = done->sent};
    sent(position);
    return;
  }
  {
    const std::lock_guard lock(mutex());
    sending_ = false;
  }
  changed().notify_all();
}

// By the thread that was sending it.
void OutgoingLane::sent(std::int32_t position) {
  // Copied, as the step may be over when the lock is released.
  const MessageRef source = message(position).source;
  IncomingLane* const from =
      source.exists() ? arriving_[static_cast<std::size_t>(source.channel)] : nullptr;
  bool tell = false;
  {
    const std::lock_guard lock(mutex());
    sending_ = false;
    sent_ = position + 1;
    set_last_sent(times_[static_cast<std::size_t>(position)].sent);
    tell = awaited() || has_work();
  }
  if (tell) changed().notify_all();
  if (from != nullptr) from->passed_on(source.position);
}

void OutgoingLane::transfer() {
  {
    const std::lock_guard lock(mutex());
    if (!has_work()) return;  // another thread was faster
    sending_ = true;
  }
  const Clock::time_point free = await_turn();
  // It stays: no other thread moves it meanwhile.
  const std::int32_t position = sent_;
  const ChannelMessage& next = message(position);
  Times& times = times_[static_cast<std::size_t>(position)];
  times.start = std::max(times.start, free);
  if (position > 0) {
    times.start = std::max(times.start, times_[static_cast<std::size_t>(position) - 1].sent);
  }
  const std::span<const std::byte> bytes = payload(next);
  const bool by_computing_thread = program().by_computing_thread();
  Clock::time_point ready = times.start;
  if (next.source.exists() && by_computing_thread && options().thread_time) {
    ready += options().thread_time(model::TaskKind::capture, bytes.size());
  }
  times.sent = transport().send_since(peer(), tag(next), bytes, ready, by_computing_thread).sent;
  sent(position);
}

void IncomingLane::begin(std::int32_t step, const ChannelProgram& program,
                         std::span<OutgoingLane* const> leaving, ChannelLane* before) {
  leaving_ = leaving;
  ChannelLane::begin(step, program, before);
}

void IncomingLane::reset() {
  threaded_ = needs_thread(program());
  received_ = 0;
  to_pass_on_ = 0;
  held_.clear();
  for (const ChannelMessage& message : program().messages) {
    const auto relays = static_cast<std::int32_t>(message.relays.size());
    held_.push_back(1 + relays);
    to_pass_on_ += relays;
  }
  arrivals_.resize(static_cast<std::size_t>(count()));
}

bool IncomingLane::needs_thread(const ChannelProgram& program) const {
  return options().threaded || program.passes_on ||
         !transport().receives_inline(peer(), program.largest_bytes());
}

bool IncomingLane::has_work() const {
  if (!threaded_ || received_ == count()) return false;
  const std::int32_t previous = message(received_).previous;
  return previous < 0 || held_[static_cast<std::size_t>(previous)] == 0;
}

std::span<const std::byte> IncomingLane::payload(std::int32_t position) {
  if (!threaded_) {
    while (received_ <= position) receive(received_);
    return slot(message(position));
  }
  if (options().may_spin && received_ <= position) {
    const auto until = Clock::now() + kSpin;
    while (received_ <= position && Clock::now() < until) {
    }
  }
  if (received_ <= position) {
    std::unique_lock lock(mutex());
    await(lock, [&] { return received_ > position; });
  }
  return slot(message(position));
}

void IncomingLane::delivered(std::int32_t position) {
  if (!threaded_) {
    --held_[static_cast<std::size_t>(position)];
    return;
  }
  {
    const std::lock_guard lock(mutex());
    --held_[static_cast<std::size_t>(position)];
  }
  changed().notify_all();
}

void IncomingLane::passed_on(std::int32_t position) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex());
    --held_[static_cast<std::size_t>(position)];
    --to_pass_on_;
    tell = awaited() || has_work();
  }
  if (tell) changed().notify_all();
}

std::optional<Clock::time_point> IncomingLane::await_arrival(std::int32_t position,
                                                             Clock::time_point deadline) {
  require(threaded_, "IncomingLane: arrivals of a lane with a thread");
  std::unique_lock lock(mutex());
  if (!await_until(lock, deadline, [&] { return received_ > position; })) return std::nullopt;
  return arrival(position);
}

void IncomingLane::transfer() {
  await_turn();
  receive(received_);
}

void IncomingLane::receive(std::int32_t position) {
  const ChannelMessage& next = message(position);
  require(threaded_ || next.previous < 0 || held_[static_cast<std::size_t>(next.previous)] == 0,
          "IncomingLane: slot still in use");
  const MessageTimes times = transport().receive(
      peer(), tag(next), slot(next), Clock::time_point::max(), options().may_spin && !threaded_);
  if (!threaded_) {
    arrivals_[static_cast<std::size_t>(position)] = times.sent;
    received_ = position + 1;
    return;
  }
  Clock::time_point when = times.arrived;
  if (program().passes_on && program().by_computing_thread() && options().thread_time) {
    // This thread does the computing thread's work here.
    if (position > 0) when = std::max(when, arrivals_[static_cast<std::size_t>(position) - 1]);
    when += options().thread_time(model::TaskKind::deliver, next.bytes);
  }
  arrivals_[static_cast<std::size_t>(position)] = when;
  // With the last message received the step may be over, and its program gone; not before the last
  // relay is sent.
  const std::span<const MessageRef> relays = next.relays;
  {
    const std::lock_guard lock(mutex());
    received_ = position + 1;
  }
  changed().notify_all();
  for (const MessageRef relay : relays)
    leaving_[static_cast<std::size_t>(relay.channel)]->relay(relay.position, when);
}

}  // namespace tandem::exec
