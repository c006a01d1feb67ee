#include "exec/transport/measure.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "exec/transport/mesh.hpp"
#include "model/trace.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kMiddle = std::size_t{32} << 10;  // the computing thread's, as kSmall
constexpr std::size_t kLarge = std::size_t{256} << 10;
constexpr std::array kSizes{kSmall, kMiddle, kLarge};
constexpr int kMessages = 600;
constexpr double kQuiet = 0.1;  // quantile of the times taken for a quiet machine's
// Long enough for the receiver to fall asleep in between, as on a real link.
constexpr std::chrono::microseconds kPause{400};

MessageTag tag_of(int index) { return {.step = 0, .task = index}; }

std::size_t size_of(int index) { return static_cast<std::size_t>(index) % kSizes.size(); }

double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of messages of one size.
struct Times {
  std::vector<double> between;  // the call of send and the return of receive
  std::vector<double> send;     // CPU time
  std::vector<double> receive;
};

// Messages of all sizes in turn, so that the machine's other work falls on all alike.
std::array<Times, kSizes.size()> message_times(Transport& sender, Transport& receiver) {
  struct Seen {
    Clock::time_point when;
    double cpu_s = 0.0;
  };
  std::vector<Seen> sent(kMessages);
  std::vector<Seen> arrived(kMessages);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  std::exception_ptr fault;
  std::thread reading([&] {
    try {
      std::vector<std::byte> payload(kLarge);
      for (int i = 0; i < kMessages; ++i) {
        const double before = thread_cpu_s();
        const std::span<std::byte> room = std::span(payload).first(kSizes.at(size_of(i)));
        Seen& seen = arrived[static_cast<std::size_t>(i)];
        seen.when = receiver.receive(0, tag_of(i), room, deadline, false).arrived;
        seen.cpu_s = thread_cpu_s() - before;
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
      Seen& seen = sent[static_cast<std::size_t>(i)];
      const double before = thread_cpu_s();
      seen.when = Clock::now();
      sender.send(1, tag_of(i), std::span(payload).first(kSizes.at(size_of(i))));
      seen.cpu_s = thread_cpu_s() - before;
    }
  } catch (...) {
    receiver.cancel("measurement: the sending end failed");
    reading.join();
    throw;
  }
  reading.join();
  if (fault) std::rethrow_exception(fault);
  std::array<Times, kSizes.size()> times;
  for (int i = 0; i < kMessages; ++i) {
    const auto m = static_cast<std::size_t>(i);
    Times& of = times.at(size_of(i));
    of.between.push_back(std::chrono::duration<double>(arrived[m].when - sent[m].when).count());
    of.send.push_back(sent[m].cpu_s);
    of.receive.push_back(arrived[m].cpu_s);
  }
  return times;
}

// The straight line through the seconds of two sizes, nowhere negative.
model::KindRate line(double small_s, double large_s, std::size_t large) {
  const double slope = std::max(0.0, (large_s - small_s) / static_cast<double>(large - kSmall));
  return {.overhead_s = std::max(0.0, small_s - slope * static_cast<double>(kSmall)),
          .points = {{.reuse = 1.0, .seconds_per_byte = slope}}};
}

model::InlineRates inline_rates(const Times& small, const Times& middle) {
  const auto median = [](const std::vector<double>& seconds) {
    return model::quantile(seconds, 0.5);
  };
  // The median of what is left, not what is left of medians: one wake-up may be part of all three.
  const auto left = [&](const Times& times) {
    std::vector<double> rest;
    for (std::size_t i = 0; i < times.between.size(); ++i)
      rest.push_back(times.between[i] - times.send[i] - times.receive[i]);
    return median(rest);
  };
  return {.send = line(median(small.send), median(middle.send), kMiddle),
          .transfer = line(left(small), left(middle), kMiddle),
          .receive = line(median(small.receive), median(middle.receive), kMiddle)};
}

}  // namespace

MessageCosts measure_message_cost() {
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
  const auto [small, middle, large] = message_times(sender, receiver);
  // Copying and encrypting need no one else: their time is seen where nobody else was in the way.
  model::KindRate transfer =
      line(model::quantile(small.between, kQuiet), model::quantile(large.between, kQuiet), kLarge);
  const double slope = transfer.points.front().seconds_per_byte;
  transfer.overhead_s =
      std::max(0.0, model::quantile(small.between, 0.5) - slope * static_cast<double>(kSmall));
  return {.transfer = transfer, .inlined = inline_rates(small, middle)};
}

}  // namespace tandem::exec
