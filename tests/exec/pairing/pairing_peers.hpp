#pragma once

// Hosts and guests of the pairing's tests, on loopback.

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/pairing/pairing.hpp"
#include "exec/transport/unauthenticated.hpp"
#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::test::pairing_peers {

using namespace tandem::exec;
using exec::test::contains;
using exec::test::error_of;
using exec::test::within;
using std::chrono::milliseconds;

inline constexpr const char* kCode = "4821-9370";
inline constexpr const char* kByCode = "tandem pair 1 c\n";
inline constexpr PairingTimes kTimes{.conversation = milliseconds(5000),
                                     .person = milliseconds(5000)};
inline constexpr std::size_t kChallengeBytes = 16 + 384;
inline constexpr std::size_t kResponseBytes = 384 + 32;
inline constexpr std::size_t kVerdictBytes = 2 + 32;

// A device that offers a key on a thread of its own.
class Host {
 public:
  explicit Host(PairingProof proof, PairingTimes times = kTimes,
                milliseconds time = milliseconds(60'000))
      : done_(std::async(std::launch::async, [this, proof, times, time] {
          return offer_key(
              socket_, key, proof, within(time, &stop_),
              [this](const std::string& line, bool is_guess) {
                const std::lock_guard lock(mutex_);
                rejected_.push_back(line);
                guesses_ += is_guess ? 1 : 0;
              },
              times);
        })) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { stop(); }

  [[nodiscard]] const Endpoint& endpoint() const { return socket_.endpoint(); }
  // What it ends with: "" if a guest has the key.
  [[nodiscard]] std::string end() {
    return error_of([&] { static_cast<void>(done_.get()); });
  }
  [[nodiscard]] std::vector<std::string> rejected() {
    const std::lock_guard lock(mutex_);
    return rejected_;
  }
  [[nodiscard]] int guesses() {
    const std::lock_guard lock(mutex_);
    return guesses_;
  }
  void stop() { stop_.cancel("the test ends"); }
  const Key key = random_key();

 private:
  ListenSocket socket_{{.host = "127.0.0.1"}, true};
  Cancellation stop_;
  std::mutex mutex_;
  std::vector<std::string> rejected_;
  int guesses_ = 0;
  std::future<std::string> done_;
};

// A guest and the key that it got.
struct Guest {
  std::optional<Key> key;
  std::string error;
  int tries_left = -1;

  Guest(const Endpoint& endpoint, const PairingProof& proof, const PairingTimes& times = kTimes) {
    try {
      fetch_key(
          endpoint, proof, [&](const Key& got) { key = got; }, times);
    } catch (const WrongCode& wrong) {
      error = wrong.what();
      tries_left = wrong.tries_left;
    } catch (const Error& fault) {
      error = fault.what();
    }
  }
};

inline const PairingProof kAgrees{.code = "",
                                  .confirm = [](const FingerprintQuestion&) { return true; }};

inline PairingProof code(const std::string& text) { return {.code = text, .confirm = {}}; }

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A peer that sends what it likes.
struct Raw {
  Connection connection;
  explicit Raw(const Endpoint& endpoint)
      : connection(connect_unauthenticated(endpoint, within(milliseconds(5000)))) {}
  explicit Raw(Connection accepted) : connection(std::move(accepted)) {}

  void send(const std::vector<std::byte>& bytes) {
    connection.write_all(bytes, within(milliseconds(5000)));
  }
  std::vector<std::byte> receive(std::size_t size) {
    std::vector<std::byte> bytes(size);
    connection.read_all(bytes, within(milliseconds(5000)));
    return bytes;
  }
  // Up to the code's challenge, as an honest guest.
  void greet() {
    send(bytes_of(kByCode));
    static_cast<void>(receive(16 + kChallengeBytes));
  }
  [[nodiscard]] bool is_closed() {
    return !error_of([&] { static_cast<void>(receive(1)); }).empty();
  }
};

inline Raw accept_raw(const ListenSocket& socket) {
  std::optional<Connection> guest = accept_unauthenticated(socket, within(milliseconds(5000)));
  REQUIRE(guest.has_value());
  shake_hands_unauthenticated(*guest, within(milliseconds(5000)));
  return Raw(std::move(*guest));
}

}  // namespace tandem::test::pairing_peers
