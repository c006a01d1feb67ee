#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "exec/transport/cancellation.hpp"
#include "exec/transport/connection.hpp"
#include "exec/transport/transport.hpp"
#include "model/predict/program.hpp"

namespace tandem::exec {

// One end of a channel in this process: the connection that carries its payloads one way.
struct ChannelEnd {
  model::DeviceIndex peer = 0;
  bool sends = false;
  Connection connection;
};

struct TcpOptions {
  std::chrono::microseconds spin{60};  // before blocking in receive
  // Messages of up to so many bytes are sent and received by the computing thread.
  std::size_t inline_bytes = static_cast<std::size_t>(model::kInlineBytes);
};

// Sends payloads over TCP. No message allocates memory.
class TcpTransport final : public Transport {
 public:
  // `cancellation` is shared with whoever watches the peers; never null. Throws logic_error if two
  // ends have the same peer and direction.
  TcpTransport(model::DeviceIndex self, std::vector<ChannelEnd> ends,
               std::shared_ptr<Cancellation> cancellation, const TcpOptions& options = {});
  ~TcpTransport() override;

  MessageTimes send(model::DeviceIndex to, MessageTag tag,
                    std::span<const std::byte> payload) override;
  [[nodiscard]] std::optional<MessageTimes> try_send(model::DeviceIndex to, MessageTag tag,
                                                     std::span<const std::byte> payload) override;
  MessageTimes receive(model::DeviceIndex from, MessageTag tag, std::span<std::byte> payload,
                       Clock::time_point deadline, bool may_spin) override;
  [[nodiscard]] bool receives_inline(model::DeviceIndex from, std::size_t bytes) const override;
  void cancel(const std::string& reason) noexcept override;

 private:
  struct End;
  bool push(End& end, MessageTag tag, std::span<const std::byte> payload);
  [[nodiscard]] End& end_of(model::DeviceIndex peer, bool sends) const;
  std::shared_ptr<Cancellation> cancellation_;
  TcpOptions options_;
  std::vector<std::unique_ptr<End>> sending_;    // by peer; null where no channel is
  std::vector<std::unique_ptr<End>> receiving_;  // by peer
};

}  // namespace tandem::exec
