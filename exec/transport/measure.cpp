#include "exec/transport/measure.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "exec/transport/mesh.hpp"
#include "exec/transport/walked_weights.hpp"
#include "model/base/statistics.hpp"
#include "model/graph/memory.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kSmall = 64;
constexpr std::size_t kMiddle = std::size_t{32} << 10;  // the computing thread's, as kSmall
constexpr std::size_t kLarge = std::size_t{256} << 10;
constexpr std::array kSizes{kSmall, kMiddle, kLarge};
constexpr int kMessages = 240;
constexpr int kWarmUp = 60;
constexpr double kMostWalked = 16.0 * 1024 * 1024;
constexpr double kUsual = 0.95;  // quantile of CPU times up to which they are believed
constexpr double kQuiet = 0.1;   // quantile of the times taken for a quiet machine's
// Long enough for the receiver to fall asleep in between, as on a real link.
constexpr std::chrono::microseconds kMessagePause{400};

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

enum class Receiver : std::uint8_t {
  asleep,  // waits for the message, and is woken by it
  busy,    // computes while the message arrives: nobody is woken
};

// Messages of all sizes in turn, so that the machine's other work falls on all alike.
std::array<Times, kSizes.size()> message_times(Transport& sender, Transport& receiver,
                                               model::Bytes walked, Receiver state, int count) {
  struct Seen {
    Clock::time_point when;
    double cpu_s = 0.0;
  };
  std::vector<Seen> sent(static_cast<std::size_t>(count));
  std::vector<Seen> arrived(static_cast<std::size_t>(count));
  std::atomic<int> next = 0;   // the message that may be sent
  std::atomic<int> left = -1;  // the last one that was
  std::atomic<bool> failed = false;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  std::exception_ptr fault;
  std::thread reading([&] {
    try {
      std::vector<std::byte> payload(kLarge);
      WalkedWeights weights(walked);
      for (int i = 0; i < count; ++i) {
        if (state == Receiver::asleep) weights.walk();
        next = i;
        if (state == Receiver::busy) {
          while (left < i && !failed) std::this_thread::yield();
          weights.walk();
        }
        const std::span<std::byte> room = std::span(payload).first(kSizes.at(size_of(i)));
        Seen& seen = arrived[static_cast<std::size_t>(i)];
        const double before = thread_cpu_s();
        seen.when = receiver.receive(0, tag_of(i), room, deadline, false).arrived;
        seen.cpu_s = thread_cpu_s() - before;
      }
    } catch (...) {
      fault = std::current_exception();
      sender.cancel("measurement: the receiving end failed");
      failed = true;
    }
  });
  try {
    const std::vector<std::byte> payload(kLarge);
    WalkedWeights weights(walked);
    for (int i = 0; i < count; ++i) {
      do std::this_thread::sleep_for(kMessagePause);
      while (next < i && !failed);
      weights.walk();
      Seen& seen = sent[static_cast<std::size_t>(i)];
      const double before = thread_cpu_s();
      seen.when = Clock::now();
      sender.send(1, tag_of(i), std::span(payload).first(kSizes.at(size_of(i))));
      seen.cpu_s = thread_cpu_s() - before;
      left = i;
    }
  } catch (...) {
    failed = true;
    receiver.cancel("measurement: the sending end failed");
    reading.join();
    throw;
  }
  reading.join();
  if (fault) std::rethrow_exception(fault);
  std::array<Times, kSizes.size()> times;
  for (int i = 0; i < count; ++i) {
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
          .points = {{.intensity = 1.0, .seconds_per_byte = slope}}};
}

// The mean, as a run's sums have in them what interrupts now and then; but not this machine's
// worst.
double usual_mean(const std::vector<double>& seconds) {
  const double most = model::quantile(seconds, kUsual);
  double sum = 0.0;
  int count = 0;
  for (const double s : seconds) {
    if (s > most) continue;
    sum += s;
    ++count;
  }
  return sum / count;
}

struct Usual {
  double send = 0.0;
  double transfer = 0.0;
  double receive = 0.0;
};

Usual usual(const Times& busy, const Times& asleep) {
  Usual of{.send = usual_mean(busy.send), .transfer = 0.0, .receive = usual_mean(busy.receive)};
  of.transfer = std::max(0.0, model::quantile(asleep.between, 0.5) - of.send - of.receive);
  return of;
}

model::InlineRates inline_rates(const Usual& small, const Usual& middle) {
  return {.send = line(small.send, middle.send, kMiddle),
          .transfer = line(small.transfer, middle.transfer, kMiddle),
          .receive = line(small.receive, middle.receive, kMiddle)};
}

}  // namespace

model::Bytes weights_between_messages(const model::Transformer& transformer) {
  const double layer =
      model::weight_bytes(transformer, {{0, 1},
                                        {0, static_cast<std::int32_t>(transformer.heads)},
                                        {0, static_cast<std::int32_t>(transformer.intermediate)},
                                        false,
                                        false});
  return model::Bytes{std::min(layer / 2.0, kMostWalked)};
}

MessageCosts measure_message_cost(model::Bytes walked) {
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
  static_cast<void>(message_times(sender, receiver, walked, Receiver::asleep, kWarmUp));
  const auto asleep = message_times(sender, receiver, walked, Receiver::asleep, kMessages);
  const auto busy = message_times(sender, receiver, walked, Receiver::busy, kMessages);
  const Times& small = asleep[0];
  const Times& large = asleep[2];
  // Copying and encrypting need no one else: their time is seen where nobody else was in the way.
  model::KindRate transfer =
      line(model::quantile(small.between, kQuiet), model::quantile(large.between, kQuiet), kLarge);
  const double slope = transfer.points.front().seconds_per_byte;
  transfer.overhead_s =
      std::max(0.0, model::quantile(small.between, 0.5) - slope * static_cast<double>(kSmall));
  return {.transfer = transfer,
          .inlined = inline_rates(usual(busy[0], small), usual(busy[1], asleep[1]))};
}

}  // namespace tandem::exec
