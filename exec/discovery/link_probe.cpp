#include "exec/discovery/link_probe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "exec/transport/walked_weights.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"

namespace tandem::exec {
namespace {

// For one message of the peer, which is alive as long as its control connection is.
constexpr std::chrono::seconds kSilence{20};
// Long enough for the receiver to fall asleep, as in exec/transport/measure.cpp.
constexpr std::chrono::microseconds kAsleep{400};
constexpr int kUncounted = 5;
constexpr int kLeastRounds = 31;
constexpr int kMostRounds = 200;

constexpr std::size_t kLeastStreamed = std::size_t{16} << 10;
constexpr std::size_t kMostStreamed = std::size_t{256} << 10;
// A message that takes longer than this is large enough.
constexpr std::chrono::milliseconds kLongMessage{2};

// The first words of a payload.
struct Note {
  std::uint64_t next = 0;     // 0: this is the last; streams: bytes of the next one
  std::int64_t walk_ns = 0;   // what reading memory takes the sender
  std::int64_t spent_ns = 0;  // from the return of receive to the call of send
};

void put(const Note& note, std::span<std::byte> payload) {
  std::memcpy(payload.data(), &note, sizeof note);
}
Note note_of(std::span<const std::byte> payload) {
  Note note;
  std::memcpy(&note, payload.data(), sizeof note);
  return note;
}

std::int64_t nanoseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// A peer's clock may say anything.
Clock::duration bounded(std::int64_t ns) {
  return std::chrono::nanoseconds(std::clamp<std::int64_t>(ns, 0, 1'000'000'000));
}

// Sleeps until the peer has read its memory and waits for a message, then reads one's own.
Clock::duration settle(WalkedWeights& weights, Clock::duration peers_walk) {
  std::this_thread::sleep_for(peers_walk + kAsleep);
  const Clock::time_point start = Clock::now();
  weights.walk();
  return Clock::now() - start;
}

struct Arrival {
  double at_s = 0.0;
  double bytes = 0.0;  // of all up to it
};

// Bytes that were there at `at_s`: between two arrivals in proportion to time, after the last as
// fast as on the whole.
double bytes_at(std::span<const Arrival> arrivals, double at_s) {
  Arrival before;
  for (const Arrival& one : arrivals) {
    if (one.at_s >= at_s)
      return before.bytes +
             (one.bytes - before.bytes) * (at_s - before.at_s) / (one.at_s - before.at_s);
    before = one;
  }
  return before.at_s > 0.0 ? before.bytes / before.at_s * at_s : 0.0;
}

MessageTag probe_tag(int index) { return {.step = 0, .task = index}; }

}  // namespace

model::Seconds ask_round_trips(Transport& transport, model::DeviceIndex peer, model::Bytes walked,
                               std::chrono::milliseconds time) {
  WalkedWeights weights(walked);
  std::array<std::byte, kRoundTripBytes> payload{};
  std::vector<double> halves;
  const Clock::time_point start = Clock::now();
  Clock::duration peers_walk{};
  bool last = false;
  for (int i = 0; !last; ++i) {
    const Clock::duration own_walk = settle(weights, peers_walk);
    const int counted = i + 1 - kUncounted;
    last = counted >= kMostRounds || (counted >= kLeastRounds && Clock::now() - start > time);
    put({.next = last ? 0U : 1U, .walk_ns = nanoseconds(own_walk), .spent_ns = 0}, payload);
    const Clock::time_point sent = Clock::now();
    transport.send(peer, probe_tag(i), payload);
    weights.walk();
    const MessageTimes times =
        transport.receive(peer, probe_tag(i), payload, Clock::now() + kSilence, false);
    const Note note = note_of(payload);
    peers_walk = bounded(note.walk_ns);
    if (counted <= 0) continue;
    const std::chrono::duration<double> both = times.arrived - sent - bounded(note.spent_ns);
    halves.push_back(std::max(0.0, both.count() / 2.0));
  }
  return model::Seconds{model::quantile(halves, 0.5)};
}

void answer_round_trips(Transport& transport, model::DeviceIndex peer, model::Bytes walked) {
  WalkedWeights weights(walked);
  std::array<std::byte, kRoundTripBytes> payload{};
  for (int i = 0;; ++i) {
    const MessageTimes times =
        transport.receive(peer, probe_tag(i), payload, Clock::now() + kSilence, false);
    const Note asked = note_of(payload);
    const Clock::duration walk = settle(weights, bounded(asked.walk_ns));
    Note note{.next = asked.next, .walk_ns = nanoseconds(walk), .spent_ns = 0};
    note.spent_ns = nanoseconds(Clock::now() - times.arrived);
    put(note, payload);
    transport.send(peer, probe_tag(i), payload);
    if (asked.next == 0) return;
    weights.walk();
  }
}

void send_stream(Transport& transport, model::DeviceIndex peer, std::chrono::milliseconds time) {
  std::vector<std::byte> payload(kMostStreamed);
  const Clock::time_point start = Clock::now();
  std::size_t bytes = kLeastStreamed;
  Clock::duration took = kLongMessage;
  for (int i = 0; bytes != 0; ++i) {
    const Clock::time_point before = Clock::now();
    std::size_t next = bytes;
    if (took < kLongMessage) next = std::min(2 * bytes, kMostStreamed);
    if (before - start > time) next = 0;
    put({.next = next, .walk_ns = 0, .spent_ns = 0}, payload);
    transport.send(peer, probe_tag(i), std::span(payload).first(bytes));
    took = Clock::now() - before;
    bytes = next;
  }
}

model::BytesPerSecond receive_stream(Transport& transport, model::DeviceIndex peer,
                                     std::chrono::milliseconds time) {
  std::vector<std::byte> payload(kMostStreamed);
  std::vector<Arrival> arrivals;
  const Clock::time_point start = Clock::now();
  double sum = 0.0;
  std::size_t bytes = kLeastStreamed;
  for (int i = 0; bytes != 0; ++i) {
    const MessageTimes times = transport.receive(
        peer, probe_tag(i), std::span(payload).first(bytes), Clock::now() + kSilence, false);
    sum += static_cast<double>(bytes);
    arrivals.push_back({std::chrono::duration<double>(times.arrived - start).count(), sum});
    const std::uint64_t next = note_of(payload).next;
    if (next > kMostStreamed || (next != 0 && next < kLeastStreamed))
      throw Error("a stream announces a message of " + std::to_string(next) +
                  " bytes, expected 16 KiB to 256 KiB; install the same tandem on every device");
    bytes = static_cast<std::size_t>(next);
  }
  const double end_s = std::chrono::duration<double>(time).count();
  const double half_s = end_s / 2.0;
  return model::BytesPerSecond{(bytes_at(arrivals, end_s) - bytes_at(arrivals, half_s)) / half_s};
}

}  // namespace tandem::exec
