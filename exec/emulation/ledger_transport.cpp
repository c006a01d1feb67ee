#include "exec/emulation/ledger_transport.hpp"

#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Of the narrowest link's time: several senders take turns on a link as frames do. Equal bytes for
// all that pass the same link, so that they get equal rates, however often they pass it.
constexpr double kPieceSeconds = 250e-6;
constexpr double kLeastPieceBytes = 1500.0;
constexpr double kMostPieceBytes = 65536.0;
constexpr std::size_t kStampBytes = 8;       // due time, nanoseconds of the machine's steady clock
constexpr unsigned long kTimerSlack = 1000;  // nanoseconds

using Stamp = std::array<std::byte, kStampBytes>;

Stamp stamp_of(Clock::time_point due) {
  return std::bit_cast<Stamp>(static_cast<std::int64_t>(due.time_since_epoch().count()));
}

Clock::time_point due_of(const Stamp& stamp) {
  return Clock::time_point(Clock::duration(std::bit_cast<std::int64_t>(stamp)));
}

// A message of one piece carries its stamp before its payload, since its due time is known at once;
// a longer one is followed by its stamp under this tag, so that its bytes travel meanwhile.
MessageTag stamp_tag(MessageTag tag) { return {.step = tag.step, .task = ~tag.task}; }

}  // namespace

std::size_t LedgerTransport::piece_bytes(const model::Cluster& cluster, const model::Route& route,
                                         double dilation) {
  double narrowest = std::numeric_limits<double>::max();
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    narrowest = std::min(narrowest, link.bandwidth.value());
  }
  return static_cast<std::size_t>(
      std::clamp(narrowest * kPieceSeconds * dilation, kLeastPieceBytes, kMostPieceBytes));
}

struct LedgerTransport::Way {
  Way(const model::Cluster& cluster, const model::Route& route, double dilation)
      : hops(route.hops),
        piece_bytes(LedgerTransport::piece_bytes(cluster, route, dilation)),
        latency(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(route.latency.value()))) {}

  // Room for the stamp and a payload of so many bytes, at most one piece.
  [[nodiscard]] std::span<std::byte> room(std::size_t payload_bytes) {
    const std::size_t bytes = kStampBytes + payload_bytes;
    if (stamped.size() < bytes) stamped.resize(bytes);
    return std::span(stamped).first(bytes);
  }

  std::vector<model::Hop> hops;
  std::size_t piece_bytes = 0;
  Clock::duration latency{};
  // When the message before had been sent or had arrived.
  Clock::time_point free{};
  std::vector<std::byte> stamped;  // stamp and payload of a short message; as large as any so far
};

LedgerTransport::LedgerTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Ledger> ledger,
                                 const model::Cluster& cluster, model::DeviceIndex self,
                                 std::shared_ptr<Cancellation> cancellation, Overhead overhead,
                                 double dilation)
    : inner_(std::move(inner)),
      ledger_(std::move(ledger)),
      cancellation_(std::move(cancellation)),
      overhead_(std::move(overhead)) {
  require(inner_ != nullptr && ledger_ != nullptr && cancellation_ != nullptr,
          "ledger transport: a part is missing");
  for (model::DeviceIndex peer = 0; peer < cluster.size(); ++peer) {
    to_.push_back(peer == self
                      ? nullptr
                      : std::make_unique<Way>(cluster, cluster.route(self, peer), dilation));
    from_.push_back(peer == self
                        ? nullptr
                        : std::make_unique<Way>(cluster, cluster.route(peer, self), dilation));
  }
}

LedgerTransport::~LedgerTransport() = default;

LedgerTransport::Way& LedgerTransport::way(std::vector<std::unique_ptr<Way>>& ways,
                                           model::DeviceIndex peer) const {
  require(peer >= 0 && static_cast<std::size_t>(peer) < ways.size() &&
              ways[static_cast<std::size_t>(peer)] != nullptr,
          "ledger transport: no such device");
  return *ways[static_cast<std::size_t>(peer)];
}

void LedgerTransport::sleep_until(Clock::time_point time) const {
  if (time <= Clock::now()) return;
  // The kernel may otherwise wake us 50 us late. Per thread, and we do not know our threads.
  ::prctl(PR_SET_TIMERSLACK, kTimerSlack, 0, 0, 0);
  pollfd cancelled{.fd = cancellation_->descriptor(), .events = POLLIN, .revents = 0};
  for (;;) {
    cancellation_->check();
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(time - Clock::now()).count();
    if (left <= 0) return;
    const timespec timeout{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    ::ppoll(&cancelled, 1, &timeout, nullptr);
  }
}

MessageTimes LedgerTransport::send_since(model::DeviceIndex to, MessageTag tag,
                                         std::span<const std::byte> payload,
                                         Clock::time_point ready, bool by_computing_thread) {
  Way& channel = way(to_, to);
  sleep_until(ready);  // a relay may be asked for early: a link serves in the order of asking
  Clock::time_point end = std::max(ready, channel.free);
  if (overhead_) end += overhead_(payload.size(), by_computing_thread);
  if (payload.size() <= channel.piece_bytes) {
    end = ledger_->reserve(channel.hops, payload.size(), end);
    const Stamp stamp = stamp_of(end + channel.latency);
    const std::span<std::byte> whole = channel.room(payload.size());
    std::copy(stamp.begin(), stamp.end(), whole.begin());
    std::copy(payload.begin(), payload.end(), whole.begin() + kStampBytes);
    inner_->send(to, tag, whole);
  } else {
    std::size_t left = payload.size() - channel.piece_bytes;
    end = ledger_->reserve(channel.hops, channel.piece_bytes, end);
    inner_->send(to, tag, payload);
    while (left > 0) {
      sleep_until(end);
      const std::size_t piece = std::min(left, channel.piece_bytes);
      end = ledger_->reserve(channel.hops, piece, end);
      left -= piece;
    }
    inner_->send(to, stamp_tag(tag), stamp_of(end + channel.latency));
  }
  sleep_until(end);
  channel.free = end;
  return {.sent = end, .arrived = end};
}

std::optional<MessageTimes> LedgerTransport::try_send(model::DeviceIndex /*to*/, MessageTag /*tag*/,
                                                      std::span<const std::byte> /*payload*/) {
  return std::nullopt;
}

MessageTimes LedgerTransport::receive(model::DeviceIndex from, MessageTag tag,
                                      std::span<std::byte> payload, Clock::time_point deadline,
                                      bool /*may_spin*/) {
  Way& channel = way(from_, from);
  Stamp stamp{};
  if (payload.size() <= channel.piece_bytes) {
    const std::span<std::byte> whole = channel.room(payload.size());
    inner_->receive(from, tag, whole, deadline, false);
    std::copy_n(whole.begin(), kStampBytes, stamp.begin());
    std::copy(whole.begin() + kStampBytes, whole.end(), payload.begin());
  } else {
    inner_->receive(from, tag, payload, deadline, false);
    inner_->receive(from, stamp_tag(tag), stamp, deadline, false);
  }
  // Not before the message that was sent before it.
  const Clock::time_point due = std::max(due_of(stamp), channel.free);
  if (due > deadline) {
    sleep_until(deadline);
    throw Error("device " + std::to_string(from) +
                ": its message is still on the emulated link at the deadline; allow more time or "
                "give the link more bandwidth");
  }
  sleep_until(due);
  channel.free = due;
  return {.sent = due, .arrived = due};
}

bool LedgerTransport::receives_inline(model::DeviceIndex from, std::size_t bytes) const {
  return inner_->receives_inline(from, bytes);
}

void LedgerTransport::cancel(const std::string& reason) noexcept { inner_->cancel(reason); }

}  // namespace tandem::exec
