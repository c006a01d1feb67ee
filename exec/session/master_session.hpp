#pragma once

// The master's side of one session: what every use of it begins and ends with, whatever is done in
// between. Private to the master.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/runtime/wait_notice.hpp"
#include "exec/session/interrupt.hpp"
#include "exec/session/master_options.hpp"
#include "exec/session/master_voice.hpp"
#include "exec/session/master_weights.hpp"
#include "exec/session/peer_session.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {

// One session. Devices other than the master that exchange anything are its `peers`. run() calls a
// body when every device has its weights and its channels:
//   MasterSession session(plan, options, run, interrupt);
//   return session.run([&] { ... session.announce(...); session.device().step(...) ... });
class MasterSession {
 public:
  // All but `run` outlive it.
  MasterSession(const planner::Plan& plan, const SessionOptions& options, const RunOptions& run,
                Interrupt& interrupt);

  // Connects, hands out plan and weights, opens the channels, calls `body` and closes the session.
  // Returns what `body` returns. Throws Error with the session's first reason, which every device
  // that can be reached has been told; no thread and no connection is left behind.
  template <class Body>
  auto run(const Body& body) -> decltype(body()) {
    begin();
    try {
      interrupt_->watch([this](const std::string& reason) { session_->cancel(reason); });
      const WaitNotice notice(session_->activity(),
                              {.first = options_->times.notice,
                               .text = [this] { return waited_for(); },
                               .say = [this](const std::string& text) { voice_.notify(text); }});
      connect();
      offer();
      prepare();
      if (options_->watch != nullptr) options_->watch->use([this] { return states(); });
      const Unwatched unwatched{options_->watch};
      auto result = body();
      say_goodbye();
      interrupt_->leave();
      return result;
    } catch (const std::exception& error) {
      interrupt_->leave();
      session_->cancel(model::describe(error));
      throw Error(session_->failure());
    }
  }

  [[nodiscard]] const std::vector<model::DeviceIndex>& peers() const { return peers_; }
  [[nodiscard]] const std::string& name(model::DeviceIndex d) const {
    return plan_->cluster.devices()[static_cast<std::size_t>(d)].name;
  }
  [[nodiscard]] const RunOptions& options() const { return run_; }
  [[nodiscard]] StepGraphs& graphs() { return graphs_ ? *graphs_ : device_run_->graphs(); }
  [[nodiscard]] const StepGraphs& graphs() const {
    return graphs_ ? *graphs_ : device_run_->graphs();
  }
  [[nodiscard]] MasterVoice& voice() { return voice_; }

  // The rest is for the body.

  // Throws Error if the session has failed.
  void check() const { session_->check(); }
  [[nodiscard]] Control& control() { return session_->control(); }
  [[nodiscard]] Activity& activity() { return session_->activity(); }
  [[nodiscard]] DeviceRun& device() { return *device_run_; }
  // Tells every peer of step `i`; `tokens` go to those that embed.
  void announce(std::int32_t i, const model::Batch& batch, const std::vector<std::int32_t>& tokens);
  // What announcements have taken so far.
  struct Announced {
    std::int64_t messages = 0;
    std::int64_t bytes = 0;
    double cpu_s = 0.0;  // of the thread that announces
  };
  [[nodiscard]] const Announced& announced() const { return announced_; }
  // In pieces, so that a failure elsewhere ends it. The caller is notified that a long wait is for
  // `what`, unless that is empty.
  void wait_until(Clock::time_point when, const std::string& what = "");
  // Calls `sleep` with a time at which it returns at the latest; throws as check() does.
  void wait_a_moment(const std::function<void(Clock::time_point until)>& sleep);
  [[nodiscard]] const ShippedWeights& shipped() const { return weights_->shipped(); }
  // Whether the kernel lets the peak of memory begin with the session.
  [[nodiscard]] bool own_peak() const { return own_peak_; }

 private:
  // Ends looking on, before what is looked at ends.
  struct Unwatched {
    explicit Unwatched(DeviceWatch* its_watch) : watch(its_watch) {}
    Unwatched(const Unwatched&) = delete;
    Unwatched& operator=(const Unwatched&) = delete;
    ~Unwatched() {
      if (watch != nullptr) watch->use(nullptr);
    }
    DeviceWatch* watch;
  };
  void begin();
  void connect();
  void offer();
  void prepare();
  void await_ready();
  void say_goodbye();
  // Any thread, while the body runs.
  [[nodiscard]] DeviceStates states();
  // For a notice, on its thread: the device at the end of the chain of those that wait for another.
  [[nodiscard]] std::string waited_for();

  const planner::Plan* plan_;
  const SessionOptions* options_;
  Interrupt* interrupt_;
  MasterVoice voice_;
  SessionId id_;
  RunOptions run_;
  std::unique_ptr<StepGraphs> graphs_;  // until the run has its own
  std::vector<model::DeviceIndex> peers_;
  std::unique_ptr<Session> session_;
  std::optional<MasterWeights> weights_;  // of the session
  std::atomic<bool> connected_ = false;
  DeviceRun* device_run_ = nullptr;  // the session's
  bool own_peak_ = false;
  Announced announced_;
};

}  // namespace tandem::exec
