#include "exec/session/rejection_log.hpp"

#include <utility>

namespace tandem::exec {

RejectionLog::RejectionLog(std::function<void(const std::string& line)> say)
    : say_(std::move(say)) {}

void RejectionLog::add(const std::string& reason, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  settle_locked(now);
  if (now - begin_ >= kWindow) {
    begin_ = now;
    said_ = 0;
  }
  if (said_ == kLines) {
    ++left_out_;
    return;
  }
  ++said_;
  say_("client turned away: " + reason);
}

void RejectionLog::settle(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  settle_locked(now);
}

void RejectionLog::settle_locked(Clock::time_point now) {
  if (left_out_ == 0 || now - begin_ < kWindow) return;
  say_("clients turned away: and " + std::to_string(left_out_) + " more");
  left_out_ = 0;
}

}  // namespace tandem::exec
