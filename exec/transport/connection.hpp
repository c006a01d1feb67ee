#pragma once

// One TCP connection, encrypted unless there is no key: TLS 1.3 with a pre-shared key
// (RFC 8446, psk_dhe_ke), TLS_AES_128_GCM_SHA256, no certificates, no tickets.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/transport/cancellation.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/transport/transport.hpp"
#include "exec/transport/wire.hpp"

namespace tandem::exec {

// How long a blocking call may take and what ends it early.
struct Patience {
  Clock::time_point deadline;
  const Cancellation* cancellation = nullptr;  // may be null
};

// Move-only. One thread at a time. After an Error it is dead: destroy it.
class Connection {
 public:
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();  // closes at once

  // Read or write what goes without waiting. Return how many bytes that was, 0 if it would block.
  // Throw Error if the peer closed or broke the protocol.
  std::size_t read_some(std::span<std::byte> into);
  std::size_t write_some(std::span<const std::byte> from);
  // Read or write all of it. Throw Error also when patience ends.
  void read_all(std::span<std::byte> into, const Patience& patience);
  void write_all(std::span<const std::byte> from, const Patience& patience);
  // Blocks until there may be something to read (`writing`: room to write). Throws when patience
  // ends.
  void wait(bool writing, const Patience& patience) const;

  void write_message(const Message& message, const Patience& patience);
  [[nodiscard]] Message read_message(const Patience& patience);

  [[nodiscard]] int descriptor() const;
  [[nodiscard]] bool encrypted() const;
  [[nodiscard]] const std::string& peer() const;  // name for messages: "worker 2 at 10.0.0.7:9000"
  void rename(std::string peer);
  // Bytes written that the peer's kernel has not yet acknowledged.
  [[nodiscard]] std::size_t unsent_bytes() const;

  struct Link;  // connection_link.hpp: socket and TLS state
  explicit Connection(std::unique_ptr<Link> link);
  [[nodiscard]] Link& link() { return *link_; }

 private:
  std::unique_ptr<Link> link_;
};

// Says what to call a device in messages; an empty function calls it "device 3".
using DeviceNames = std::function<std::string(model::DeviceIndex)>;
[[nodiscard]] std::string name_of(const DeviceNames& names, model::DeviceIndex device);

// Resolves, connects, shakes hands and exchanges Hellos. Without a key the connection is plain TCP
// and goes to loopback addresses only. Throws Error (device, address, stage, reason, remedy) if the
// peer cannot be reached, has another key or version, is in another role or another device than
// `hello.peer`, or is busy, and when patience is over.
[[nodiscard]] Connection connect_to(const Endpoint& endpoint, const std::optional<Key>& key,
                                    const Hello& hello, const Patience& patience,
                                    const DeviceNames& names = {});

struct Dial {
  Endpoint endpoint;
  Hello hello;
};
// Connects as connect_to does, by all of `dials` at once. `on_open` takes each connection as soon
// as it is open, on a thread of its own, one call at a time. Returns when all are open. Throws the
// Error of the first that fails, after all threads have ended.
void connect_all(const std::vector<Dial>& dials, const std::optional<Key>& key,
                 const Patience& patience, const DeviceNames& names,
                 const std::function<void(std::size_t dial, Connection connection)>& on_open);

}  // namespace tandem::exec
