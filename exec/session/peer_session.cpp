#include "exec/session/peer_session.hpp"

#include <algorithm>
#include <utility>

#include "exec/emulation/dilation.hpp"
#include "exec/emulation/ledger_transport.hpp"
#include "exec/machine/process_facts.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {

Session::Session(const SessionTimes& times)
    : times_(times), cancellation_(std::make_shared<Cancellation>()) {
  control_ = std::make_unique<Control>(
      std::vector<ControlPeer>{},
      ControlOptions{.heartbeat = times.heartbeat,
                     .silence = times.silence,
                     .first = times.connect,
                     .unread = times.unread,
                     .activity = &activity_,
                     .memory = resident_bytes,
                     .on_failure = [this](const std::string& reason) { end(reason); }});
}

Session::~Session() {
  std::unique_ptr<DeviceRun> run;
  {
    const std::lock_guard lock(mutex_);
    run = std::move(run_);
  }
  run.reset();       // its lanes' threads call cancel()
  control_.reset();  // its thread calls end()
}

void Session::open_channels(const planner::Plan& plan, const RunOptions& run,
                            const ChannelPlan& ways) {
  std::vector<ChannelId> channels =
      channels_of(storage_of(plan, run, ways.self).channels, ways.self);
  if (channels.empty()) return;
  const auto name = [&plan](model::DeviceIndex d) {
    return plan.cluster.devices().at(static_cast<std::size_t>(d)).name;
  };
  NextClient next;
  if (ways.reception != nullptr) {
    next = [&ways](const Patience& patience) { return ways.reception->next_channel(patience); };
  }
  std::vector<ChannelEnd> ends = tandem::exec::open_channels(
      {.self = ways.self,
       .master = ways.master,
       .session = ways.session,
       .channels = std::move(channels),
       .addresses = ways.addresses,
       .key = ways.key,
       .names = name,
       .dial = times_.connect},
      next, {.deadline = Clock::time_point::max(), .cancellation = cancellation_.get()});
  for (ChannelEnd& end : ends) {
    const auto peer = static_cast<std::size_t>(end.peer);
    const std::string& address = ways.addresses.at(peer);
    end.connection.rename(
        name(end.peer) +
        (address.empty() ? "" : " at " + model::printable(address, kMaxAddressBytes)));
  }
  transport_ = std::make_unique<TcpTransport>(ways.self, std::move(ends), cancellation_);
  if (ways.ledger) {
    // Nominal pace takes from the profile what it takes of computing.
    LedgerTransport::Overhead overhead = [measured = ways.overhead, costs = plan.cost_model(),
                                          self = ways.self, dilation = ways.dilation](
                                             std::size_t bytes, bool by_computing_thread) {
      const model::Seconds time =
          measured ? measured->of(bytes, by_computing_thread)
                   : costs.message_overhead(self, model::Bytes{static_cast<double>(bytes)},
                                            by_computing_thread);
      return std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(time.value() * dilation));
    };
    transport_ = std::make_unique<LedgerTransport>(
        std::move(transport_), ways.ledger, dilated(plan.cluster, ways.dilation), ways.self,
        cancellation_, std::move(overhead), ways.dilation);
  }
}

DeviceRun& Session::prepare(const planner::Plan& plan, const DeviceRunOptions& options,
                            DeviceWeights weights) {
  DeviceRunOptions told = options;
  told.activity = &activity_;
  told.on_failure = [this](const std::string& reason) { cancel(reason); };
  auto run = std::make_unique<DeviceRun>(plan, told, std::move(weights), transport_.get());
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) throw Error(reason_);
  run_ = std::move(run);
  return *run_;
}

void Session::cancel(const std::string& reason) noexcept {
  end(reason);
  control_->abort(reason);
}

void Session::end(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason.empty() ? "cancelled" : reason;
    cancellation_->cancel(reason_);
    if (run_) run_->cancel(reason_);
  } catch (...) {
    // Locking a sound mutex and copying a short text do not fail; nothing is left to do if they do.
    return;
  }
}

void Session::check() const {
  const std::string reason = failure();
  if (!reason.empty()) throw Error(reason);
}

std::string Session::failure() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace tandem::exec
