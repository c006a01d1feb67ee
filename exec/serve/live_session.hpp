#pragma once

// A session that serves a desk, on a thread of its own.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "exec/serve/service_desk.hpp"
#include "exec/session/execute.hpp"
#include "exec/session/interrupt.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// Both are called on the session's thread.
struct LiveSessionEvents {
  std::function<void()> on_ready;  // requests are served from now on
  // Serving has ended; `failure`: why, or empty if the desk was closed.
  std::function<void(const std::string& failure)> on_end;
};

class LiveSession {
 public:
  // Serves `desk` with `options`. `plan` and `desk` outlive the session. If it fails, the desk is
  // closed with the reason.
  LiveSession(const planner::Plan& plan, ExecuteOptions options, ServiceDesk& desk,
              LiveSessionEvents events);
  // Closes the desk and waits: a second for the step under way, which is then broken off.
  ~LiveSession();
  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;

  // Any thread: the same, with a reason for those whose answers end, without waiting for the end.
  void stop(const std::string& reason);

 private:
  void run();

  const planner::Plan* plan_;
  ExecuteOptions options_;
  ServiceDesk* desk_;
  LiveSessionEvents events_;
  Interrupt interrupt_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tandem::exec
