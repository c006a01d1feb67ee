#include "study/steady_state/recurrence.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::study {
namespace {

constexpr Ticks kNever = std::numeric_limits<Ticks>::min();

std::int64_t streamed_blocks(const StreamingDevice& device) {
  return std::count_if(device.blocks.begin(), device.blocks.end(), [](const BlockTimes& block) {
    return block.residence == Residence::streamed;
  });
}

}  // namespace

Recurrence::Recurrence(MemorySchedule schedule, Start start) : schedule_(std::move(schedule)) {
  validate(schedule_);
  for (const StreamingDevice& device : schedule_.devices) {
    Loader loader;
    // Without streamed blocks there is nothing that a window could delay.
    if (device.window != kUnlimited && streamed_blocks(device) > 0)
      loader.releases.assign(static_cast<std::size_t>(device.window), kNever);
    if (start == Start::warm) loader.preloaded = std::min(device.window, streamed_blocks(device));
    loaders_.push_back(std::move(loader));
  }
  stalls_.resize(loaders_.size());
  events_.resize(loaders_.size());
}

void Recurrence::token(const std::function<void(const BlockEvent&)>& observe) {
  std::fill(stalls_.begin(), stalls_.end(), 0);
  for (std::size_t b = 0; b < schedule_.blocks(); ++b) {
    Ticks finished = 0;
    for (std::size_t d = 0; d < loaders_.size(); ++d) {
      const BlockTimes& block = schedule_.devices[d].blocks[b];
      Loader& loader = loaders_[d];
      BlockEvent& event = events_[d];
      event = {.device = d, .block = b};
      event.start = arrive_;
      const bool streamed = block.residence == Residence::streamed;
      if (streamed && ++loader.loads > loader.preloaded) {
        event.loaded = true;
        event.load_start = loader.free;
        if (!loader.releases.empty())
          event.load_start = std::max(event.load_start, loader.releases[loader.next]);
        event.load_end = event.load_start + block.load;
        loader.free = event.load_end;
        event.start = std::max(arrive_, event.load_end);
      }
      event.stall = event.start - arrive_;
      event.finish = event.start + block.compute;
      finished = std::max(finished, event.finish);
      if (tokens_ > 0 || b > 0) stalls_[d] += event.stall;
    }
    arrive_ = finished + schedule_.reduce[b];
    for (std::size_t d = 0; d < loaders_.size(); ++d) {
      const StreamingDevice& device = schedule_.devices[d];
      BlockEvent& event = events_[d];
      event.arrive = arrive_;
      event.release = device.release == model::ReleaseRule::early ? event.finish : arrive_;
      Loader& loader = loaders_[d];
      if (device.blocks[b].residence == Residence::streamed && !loader.releases.empty()) {
        loader.releases[loader.next] = event.release;
        loader.next = (loader.next + 1) % loader.releases.size();
      }
      if (observe) observe(event);
    }
  }
  ++tokens_;
}

void Recurrence::state(State& into) const {
  into.times.clear();
  into.ahead.assign(loaders_.size(), false);
  for (std::size_t d = 0; d < loaders_.size(); ++d) {
    const Loader& loader = loaders_[d];
    if (loader.releases.empty()) {
      into.ahead[d] = stalls_[d] == 0;
      into.times.push_back(into.ahead[d] ? 0 : loader.free - arrive_);
      continue;
    }
    into.times.push_back(loader.free - arrive_);
    for (std::size_t k = 0; k < loader.releases.size(); ++k) {
      const Ticks release = loader.releases[(loader.next + k) % loader.releases.size()];
      into.times.push_back(release == kNever ? kNever : release - arrive_);
    }
  }
}

double SteadyState::token_time() const {
  return static_cast<double>(period_time) / static_cast<double>(period_tokens);
}

double SteadyState::stall() const {
  return static_cast<double>(period_time - period_tokens * path_time) /
         static_cast<double>(period_tokens);
}

double SteadyState::stall_fraction() const {
  return period_time == 0 ? 0.0
                          : static_cast<double>(period_time - period_tokens * path_time) /
                                static_cast<double>(period_time);
}

bool SteadyState::steady() const {
  return std::all_of(devices.begin(), devices.end(),
                     [](const DeviceSteadyState& device) { return device.stall_in_period == 0; });
}

SteadyState find_steady_state(const MemorySchedule& schedule, Start start,
                              std::int64_t most_tokens) {
  require(most_tokens >= 2, "find_steady_state: fewer than two tokens");
  Recurrence run(schedule, start);
  const std::size_t devices = schedule.devices.size();
  // Brent's cycle search: the mark moves to token 1, 2, 4, 8, ... until a state equals it.
  Recurrence::State mark;
  Recurrence::State state;
  std::int64_t marked_token = 0;
  Ticks marked_time = 0;
  std::vector<Ticks> before(devices, 0);  // stalls up to the mark
  std::vector<Ticks> since(devices, 0);   // and after it
  SteadyState found;
  found.path_time = path_time(schedule);
  for (std::int64_t token = 1;; ++token) {
    run.token();
    for (std::size_t d = 0; d < devices; ++d) since[d] += run.stalls()[d];
    run.state(state);
    found.period_tokens = token - marked_token;
    found.period_time = run.now() - marked_time;
    const auto keeps_ahead = [&](std::size_t d) {
      return !mark.ahead[d] ||
             (since[d] == 0 &&
              found.period_tokens * load_time(schedule.devices[d]) <= found.period_time);
    };
    found.periodic = token > 1 && state == mark;
    for (std::size_t d = 0; found.periodic && d < devices; ++d) found.periodic = keeps_ahead(d);
    if (found.periodic || token == most_tokens) break;
    if ((token & (token - 1)) == 0) {
      std::swap(mark, state);
      marked_token = token;
      marked_time = run.now();
      for (std::size_t d = 0; d < devices; ++d) before[d] += std::exchange(since[d], 0);
    }
  }
  found.tokens_before = marked_token;
  for (std::size_t d = 0; d < devices; ++d) {
    found.devices.push_back(
        {.load_time = load_time(schedule.devices[d]),
         .stall_in_period = since[d],
         .startup_stall = static_cast<double>(before[d]) -
                          static_cast<double>(since[d]) * static_cast<double>(marked_token) /
                              static_cast<double>(found.period_tokens)});
  }
  return found;
}

}  // namespace tandem::study
