#pragma once

// What master and worker share of one session: the watch over the peers, the data channels, the
// device's run, and one switch that ends all of it.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/runtime/device_run.hpp"
#include "exec/transport/cancellation.hpp"
#include "exec/transport/control.hpp"
#include "exec/transport/mesh.hpp"
#include "exec/transport/reception.hpp"

namespace tandem::exec {

struct SessionTimes {
  std::chrono::milliseconds connect{5'000};  // to reach a peer and shake hands
  std::chrono::milliseconds heartbeat{300};
  std::chrono::milliseconds silence{1'500};  // then a peer counts as gone
  std::chrono::milliseconds unread{5'000};   // then one counts as gone that takes nothing
  std::chrono::milliseconds notice{5'000};   // of waiting, then the user is told for whom
  std::chrono::milliseconds report{10'000};  // for each piece of a report, when all work is done
  std::chrono::milliseconds close{2'000};    // to say goodbye
};

struct ChannelPlan {  // how this device reaches the others
  model::DeviceIndex self = 0;
  model::DeviceIndex master = 0;
  SessionId session{};
  std::vector<std::string> addresses;  // by device; empty: it does not listen
  std::optional<Key> key;
  Reception* reception = nullptr;  // null on the master
  std::shared_ptr<Ledger> ledger;  // null: links are as fast as they are
  double dilation = 1.0;           // of emulated links
  // What messages cost beyond them; none: what the plan's profiles say.
  std::optional<MessageOverhead> overhead{};
};

// One run over several processes, as one of them sees it. After a failure - a peer's, a transfer's,
// or cancel() - every call throws Error with the first reason, and the peers have been told. Any
// thread may call cancel(), one thread the rest.
class Session {
 public:
  explicit Session(const SessionTimes& times);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] Control& control() { return *control_; }
  // What this device is doing, as its peers are told.
  [[nodiscard]] Activity& activity() { return activity_; }
  [[nodiscard]] const Cancellation& cancellation() const { return *cancellation_; }
  // The same, for transports of one's own.
  [[nodiscard]] const std::shared_ptr<Cancellation>& shared_cancellation() const {
    return cancellation_;
  }

  // Opens the channels that any step of `run` uses.
  void open_channels(const planner::Plan& plan, const RunOptions& run, const ChannelPlan& ways);
  // Makes this device's run, which takes the weights; `plan` outlives the session.
  DeviceRun& prepare(const planner::Plan& plan, const DeviceRunOptions& options,
                     DeviceWeights weights);

  // Ends the session for `reason`, here and at every peer. The first reason stays.
  void cancel(const std::string& reason) noexcept;
  // Throws Error if the session has failed.
  void check() const;
  // Why the session failed; empty if it has not.
  [[nodiscard]] std::string failure() const;

 private:
  void end(const std::string& reason) noexcept;

  SessionTimes times_;
  Activity activity_;
  std::shared_ptr<Cancellation> cancellation_;
  std::unique_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  std::string reason_;              // of the first failure
  std::unique_ptr<DeviceRun> run_;  // set under the mutex, as end() uses it
  std::unique_ptr<Control> control_;
};

}  // namespace tandem::exec
