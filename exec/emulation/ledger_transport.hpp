#pragma once

#include <memory>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/transport/cancellation.hpp"
#include "exec/transport/transport.hpp"

namespace tandem::exec {

// Makes a fast transport as slow as the links of a cluster. A message of B bytes alone on its route
// occupies its channel for B / min(bandwidth) and may be used sum(latency) after that; messages
// share links in pieces of at most 250 us, first come, first served, which is close to max-min
// fair, as SimGrid shares them. The time on the real transport is hidden as long as it is shorter.
class LedgerTransport final : public Transport {
 public:
  // `cancellation` is the one of `inner`; never null.
  LedgerTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Ledger> ledger,
                  const model::Cluster& cluster, model::DeviceIndex self,
                  std::shared_ptr<Cancellation> cancellation);
  ~LedgerTransport() override;

  // Returns when the emulated channel is free.
  MessageTimes send(model::DeviceIndex to, MessageTag tag,
                    std::span<const std::byte> payload) override;
  // Never: sending sleeps.
  [[nodiscard]] std::optional<MessageTimes> try_send(model::DeviceIndex to, MessageTag tag,
                                                     std::span<const std::byte> payload) override;
  // Returns when the message is due. Does not spin.
  MessageTimes receive(model::DeviceIndex from, MessageTag tag, std::span<std::byte> payload,
                       Clock::time_point deadline, bool may_spin) override;
  [[nodiscard]] bool receives_inline(model::DeviceIndex from, std::size_t bytes) const override;
  void cancel(const std::string& reason) noexcept override;

 private:
  struct Way;  // to or from one device
  void sleep_until(Clock::time_point time) const;
  [[nodiscard]] Way& way(std::vector<std::unique_ptr<Way>>& ways, model::DeviceIndex peer) const;
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Cancellation> cancellation_;
  std::vector<std::unique_ptr<Way>> to_;    // by device
  std::vector<std::unique_ptr<Way>> from_;  // by device
};

}  // namespace tandem::exec
