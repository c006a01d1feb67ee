#include "exec/serve/live_session.hpp"

#include <chrono>
#include <utility>

#include "model/base/system_fault.hpp"

namespace tandem::exec {

LiveSession::LiveSession(const planner::Plan& plan, ExecuteOptions options, ServiceDesk& desk,
                         LiveSessionEvents events)
    : plan_(&plan), options_(std::move(options)), desk_(&desk), events_(std::move(events)) {
  options_.interrupt = &interrupt_;
  thread_ = std::thread([this] { run(); });
}

LiveSession::~LiveSession() {
  stop("serving has ended");
  thread_.join();
}

void LiveSession::stop(const std::string& reason) {
  constexpr std::chrono::seconds kPatience{1};
  desk_->close(reason);
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [this] { return ended_; })) {
    lock.unlock();
    interrupt_.trip(reason);
  }
}

void LiveSession::run() {
  std::string failure;
  try {
    desk_->serve(*plan_, options_, [this] {
      if (events_.on_ready) events_.on_ready();
    });
  } catch (const std::exception& error) {
    if (!desk_->is_closed()) failure = model::describe(error);
  }
  desk_->close(failure.empty() ? "serving has ended" : failure);
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (events_.on_end) events_.on_end(failure);
}

}  // namespace tandem::exec
