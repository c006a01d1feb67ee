#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/connection.hpp"
#include "model/base/descriptor.hpp"

namespace tandem::exec {

// A bound, listening TCP socket, made before a fork so that the parent knows the port. Move-only.
class ListenSocket {
 public:
  // Without a key only loopback addresses are bound. Throws Error (address, reason, remedy).
  ListenSocket(const Endpoint& endpoint, bool has_key);
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }  // with the real port
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  // Gives the descriptor away: the caller closes it.
  [[nodiscard]] int release() { return descriptor_.release(); }

 private:
  Endpoint endpoint_;
  model::Descriptor descriptor_;
};

// A client that has shaken hands and said Hello, and waits for the answer. Closing its connection
// is an answer, too.
struct Incoming {
  Connection connection;
  Hello hello;

  // Answers with a Hello. Throws Error if the client does not take it at once, short as it is.
  void welcome();
  void refuse(const Refusal& refusal) noexcept;
};

struct ListenerOptions {
  std::chrono::milliseconds handshake{5000};  // from TCP accept to the client's Hello
  std::size_t pending = 32;                   // handshakes at a time; beyond, the oldest is dropped
  std::function<void(const std::string& reason)> on_rejected{};  // diagnostics; may be empty
};

// Accepts peers for a worker. A client that is slow, has another key or talks garbage costs its own
// connection and nothing else. One thread at a time may use a listener, which works only inside
// accept().
class Listener {
 public:
  Listener(ListenSocket socket, const std::optional<Key>& key, ListenerOptions options = {});
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // Returns the next client whose handshake and Hello are good, or nothing at the deadline. Throws
  // Error(reason) when cancelled.
  [[nodiscard]] std::optional<Incoming> accept(const Patience& patience);
  [[nodiscard]] const Endpoint& endpoint() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
