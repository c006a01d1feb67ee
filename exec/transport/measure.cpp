#include "exec/transport/measure.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "exec/transport/mesh.hpp"
#include "model/trace.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kLarge = std::size_t{256} << 10;
constexpr int kMessages = 400;
constexpr double kQuiet = 0.1;  // quantile of the times taken for a quiet machine's
// Long enough for the receiver to fall asleep in between, as on a real link.
constexpr std::chrono::microseconds kPause{400};

MessageTag tag_of(int index) { return {.step = 0, .task = index}; }

std::size_t bytes_of(int index) { return index % 2 == 0 ? kSmall : kLarge; }

struct Times {  // seconds from the call of send to the return of receive
  std::vector<double> small;
  std::vector<double> large;
};

// Small and large messages in turn, so that the machine's other work falls on both alike.
Times message_times(Transport& sender, Transport& receiver) {
  std::vector<Clock::time_point> sent(kMessages);
  std::vector<Clock::time_point> arrived(kMessages);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  std::exception_ptr fault;
  std::thread reading([&] {
    try {
      std::vector<std::byte> payload(kLarge);
      for (int i = 0; i < kMessages; ++i) {
        arrived[static_cast<std::size_t>(i)] =
            receiver.receive(0, tag_of(i), std::span(payload).first(bytes_of(i)), deadline, false)
                .arrived;
      }
    } catch (...) {
      fault = std::current_exception();
      sender.cancel("measurement: the receiving end failed");
    }
  });
  try {
    const std::vector<std::byte> payload(kLarge);
    for (int i = 0; i < kMessages; ++i) {
      std::this_thread::sleep_for(kPause);
      sent[static_cast<std::size_t>(i)] = Clock::now();
      sender.send(1, tag_of(i), std::span(payload).first(bytes_of(i)));
    }
  } catch (...) {
    receiver.cancel("measurement: the sending end failed");
    reading.join();
    throw;
  }
  reading.join();
  if (fault) std::rethrow_exception(fault);
  Times times;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    (i % 2 == 0 ? times.small : times.large)
        .push_back(std::chrono::duration<double>(arrived[i] - sent[i]).count());
  }
  return times;
}

}  // namespace

model::KindRate measure_message_cost() {
  const Patience patience{.deadline = Clock::now() + std::chrono::seconds(10)};
  MeshOptions options;
  options.channels = {{.from = 0, .to = 1}};
  options.key = random_key();
  ListenSocket socket({.host = "127.0.0.1"}, true);
  options.session = random_session();
  options.addresses = {"", to_text(socket.endpoint())};
  Listener listener(std::move(socket), options.key);
  MeshOptions other = options;
  other.self = 1;

  std::vector<ChannelEnd> receiving;
  std::exception_ptr fault;
  std::thread opening([&] {
    try {
      receiving = open_channels(
          other,
          [&](const Patience& until) {
            std::optional<Incoming> incoming = listener.accept(until);
            if (incoming) incoming->welcome();
            return incoming;
          },
          patience);
    } catch (...) {
      fault = std::current_exception();
    }
  });
  std::vector<ChannelEnd> sending;
  try {
    sending = open_channels(options, {}, patience);
  } catch (...) {
    opening.join();
    throw;
  }
  opening.join();
  if (fault) std::rethrow_exception(fault);

  TcpTransport sender(0, std::move(sending), std::make_shared<Cancellation>());
  TcpTransport receiver(1, std::move(receiving), std::make_shared<Cancellation>());
  static_cast<void>(message_times(sender, receiver));  // warms up
  const Times times = message_times(sender, receiver);
  const double small = model::quantile(times.small, 0.5);
  // Copying and encrypting need no one else: their time is seen where nobody else was in the way.
  const double slope =
      std::max(0.0, (model::quantile(times.large, kQuiet) - model::quantile(times.small, kQuiet)) /
                        static_cast<double>(kLarge - kSmall));
  return {.overhead_s = std::max(0.0, small - slope * static_cast<double>(kSmall)),
          .points = {{.reuse = 1.0, .seconds_per_byte = slope}}};
}

}  // namespace tandem::exec
