#include "exec/runtime/wait_notice.hpp"

#include <algorithm>
#include <utility>

namespace tandem::exec {
namespace {

constexpr std::chrono::milliseconds kMostBetween{60'000};

}  // namespace

WaitNotice::WaitNotice(const Activity& activity, WaitNoticeOptions options)
    : activity_(&activity), options_(std::move(options)) {
  if (options_.say && options_.text) thread_ = std::thread([this] { watch(); });
}

WaitNotice::~WaitNotice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WaitNotice::watch() {
  const auto turn = std::clamp<std::chrono::milliseconds>(
      options_.first / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(500));
  std::uint64_t ticks = activity_->read().ticks;
  Clock::time_point moved = Clock::now();
  Clock::time_point next = moved + options_.first;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, turn, [this] { return stopping_; })) {
    const Clock::time_point now = Clock::now();
    const std::uint64_t present = activity_->read().ticks;
    if (present != ticks) {
      ticks = present;
      moved = now;
      next = now + options_.first;
      continue;
    }
    if (now < next) continue;
    next = now + std::min<Clock::duration>(now - moved, kMostBetween);
    lock.unlock();
    try {
      const std::string text = options_.text();
      if (!text.empty()) options_.say(text);
    } catch (const std::exception&) {
      // Out of memory, or a device has just gone: the run itself reports it.
    }
    lock.lock();
  }
}

}  // namespace tandem::exec
