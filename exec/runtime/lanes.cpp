#include "exec/runtime/lanes.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "model/error.hpp"

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

void ChannelLane::reserve(const ChannelSchedule& schedule) {
  require(schedule.peer == peer_, "ChannelLane: schedule of another channel");
  slot_floats_ = std::max(slot_floats_, schedule.slot_floats);
  // Slots of different shapes may lie differently: nothing is in flight between steps.
  const std::size_t floats = static_cast<std::size_t>(schedule.slots) * schedule.slot_floats;
  if (storage_.size() < floats) storage_.resize(floats);
  if (needs_thread(schedule.slot_floats * sizeof(float))) start();
}

void ChannelLane::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

double ChannelLane::allocated_bytes() const {
  return static_cast<double>(storage_.capacity() * sizeof(float));
}

void ChannelLane::begin(std::int32_t step, const ChannelSchedule& schedule) {
  bool work = false;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) throw Error(reason_);
    schedule_ = &schedule;
    count_ = static_cast<std::int32_t>(schedule.messages.size());
    slot_floats_ = schedule.slot_floats;
    step_ = step;
    reset();
    work = has_work();
  }
  if (!work) return;
  start();  // the transport may have found out only now that it has to wait
  changed_.notify_all();
}

void ChannelLane::finish() {
  std::unique_lock lock(mutex_);
  await(lock, [this] { return done(); });
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

std::span<float> ChannelLane::slot(const ChannelMessage& message) {
  return {storage_.data() + static_cast<std::size_t>(message.slot) * slot_floats_, message.floats};
}

template <class Ready>
void ChannelLane::await(std::unique_lock<std::mutex>& lock, Ready ready) {
  changed_.wait(lock, [&] { return cancelled_ || ready(); });
  if (cancelled_) throw Error(reason_);
}

void ChannelLane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || (!cancelled_ && has_work()); });
    if (stopping_) return;
    lock.unlock();
    try {
      carry();
    } catch (const std::exception& error) {
      cancel(error.what());
      if (options_.on_failure) options_.on_failure(error.what());
    }
    lock.lock();
  }
}

void OutgoingLane::reset() {
  captured_ = 0;
  sent_ = 0;
  times_.resize(static_cast<std::size_t>(count()));
}

std::span<float> OutgoingLane::room(std::int32_t position) {
  const ChannelMessage& next = message(position);
  if (next.previous >= 0) {
    std::unique_lock lock(mutex());
    await(lock, [&] { return sent_ > next.previous; });
  }
  return slot(next);
}

void OutgoingLane::send(std::int32_t position, Clock::time_point ready) {
  times_[static_cast<std::size_t>(position)].start = ready;
  bool first = false;
  {
    const std::lock_guard lock(mutex());
    first = sent_ == position;
  }
  if (first) {
    const ChannelMessage& next = message(position);
    if (const auto times = transport().try_send(peer(), tag(next), std::as_bytes(slot(next)))) {
      // What the computing thread itself does is its own time, not the channel's.
      times_[static_cast<std::size_t>(position)] = {.start = times->sent, .sent = times->sent};
      const std::lock_guard lock(mutex());
      captured_ = sent_ = position + 1;
      return;
    }
  }
  {
    const std::lock_guard lock(mutex());
    captured_ = position + 1;
  }
  changed().notify_all();
}

void OutgoingLane::carry() {
  // It stays: the computing thread moves `sent_` only while nothing is captured beyond it.
  const std::int32_t position = sent_;
  const ChannelMessage& next = message(position);
  Times& times = times_[static_cast<std::size_t>(position)];
  const Clock::time_point ready = times.start;
  if (position > 0) {
    times.start = std::max(ready, times_[static_cast<std::size_t>(position) - 1].sent);
  }
  times.sent = transport()
                   .send_since(peer(), tag(next), std::as_bytes(slot(next)), ready,
                               schedule().by_computing_thread())
                   .sent;
  {
    const std::lock_guard lock(mutex());
    sent_ = position + 1;
  }
  changed().notify_all();
}

void IncomingLane::reset() {
  threaded_ = needs_thread(slot_bytes());
  received_ = 0;
  delivered_.assign(static_cast<std::size_t>(count()), 0);
  arrivals_.resize(static_cast<std::size_t>(count()));
}

bool IncomingLane::needs_thread(std::size_t bytes) const {
  return !transport().receives_inline(peer(), bytes);
}

bool IncomingLane::has_work() const {
  if (!threaded_ || received_ == count()) return false;
  const std::int32_t previous = message(received_).previous;
  return previous < 0 || delivered_[static_cast<std::size_t>(previous)] != 0;
}

std::span<const float> IncomingLane::payload(std::int32_t position) {
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
    delivered_[static_cast<std::size_t>(position)] = 1;
    return;
  }
  {
    const std::lock_guard lock(mutex());
    delivered_[static_cast<std::size_t>(position)] = 1;
  }
  changed().notify_all();
}

void IncomingLane::carry() { receive(received_); }

void IncomingLane::receive(std::int32_t position) {
  const ChannelMessage& next = message(position);
  require(
      threaded_ || next.previous < 0 || delivered_[static_cast<std::size_t>(next.previous)] != 0,
      "IncomingLane: slot still in use");
  const MessageTimes times =
      transport().receive(peer(), tag(next), std::as_writable_bytes(slot(next)),
                          Clock::time_point::max(), options().may_spin && !threaded_);
  arrivals_[static_cast<std::size_t>(position)] = threaded_ ? times.arrived : times.sent;
  if (!threaded_) {
    received_ = position + 1;
    return;
  }
  {
    const std::lock_guard lock(mutex());
    received_ = position + 1;
  }
  changed().notify_all();
}

}  // namespace tandem::exec
