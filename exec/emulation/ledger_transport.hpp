#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/transport/cancellation.hpp"
#include "exec/transport/transport.hpp"

namespace tandem::exec {

// Makes a fast transport as slow as the links of a cluster. A message of B bytes alone on its route
// occupies its channel for B / min(bandwidth) and may be used sum(latency) after that; messages
// share links in pieces of at most 250 us, first come, first served, which is close to max-min
// fair, as SimGrid shares them. These times are the devices' own: a message begins when its payload
// was ready there and arrives when it is due, however late this machine came to compute, send or
// receive it. What the real transport takes is hidden; what it takes on a real link is stated,
// `overhead`, and precedes the bytes.
class LedgerTransport final : public Transport {
 public:
  using Overhead = std::function<Clock::duration(std::size_t bytes, bool by_computing_thread)>;
  // `cancellation` is the one of `inner`; never null. `overhead` of a message; null: none.
  // `cluster` is as slow as `dilation` has made it, which pieces of links' time are to know.
  LedgerTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Ledger> ledger,
                  const model::Cluster& cluster, model::DeviceIndex self,
                  std::shared_ptr<Cancellation> cancellation, Overhead overhead = nullptr,
                  double dilation = 1.0);
  ~LedgerTransport() override;

  // Bytes that a sender on `route` reserves at once: what its narrowest link carries in 250 us,
  // between a frame of 1500 bytes and 64 KiB.
  [[nodiscard]] static std::size_t piece_bytes(const model::Cluster& cluster,
                                               const model::Route& route, double dilation);

  // Returns when the emulated channel is free.
  MessageTimes send(model::DeviceIndex to, MessageTag tag,
                    std::span<const std::byte> payload) override {
    return send_since(to, tag, payload, Clock::now(), false);
  }
  MessageTimes send_since(model::DeviceIndex to, MessageTag tag, std::span<const std::byte> payload,
                          Clock::time_point ready, bool by_computing_thread) override;
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
  Overhead overhead_;
  std::vector<std::unique_ptr<Way>> to_;    // by device
  std::vector<std::unique_ptr<Way>> from_;  // by device
};

}  // namespace tandem::exec
