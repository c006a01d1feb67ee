#include "exec/transport/tcp_transport.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Header and the first payload bytes go out together: one TLS record, one system call.
constexpr std::size_t kStagedBytes = std::size_t{16} << 10;

constexpr int kMaxVainSpins = 6;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

std::string text_of(const DataHeader& header) {
  return "step " + std::to_string(header.tag.step) + " task " + std::to_string(header.tag.task) +
         " of " + std::to_string(header.bytes) + " bytes";
}

}  // namespace

struct TcpTransport::End {
  End(Connection given, bool sends)
      : connection(std::move(given)), staged(sends ? kStagedBytes : 0) {}
  Connection connection;
  // Sending only: header and first bytes of the message under way, and how much of it is written.
  std::vector<std::byte> staged;
  MessageTag under_way;
  std::size_t written = 0;
  // Receiving only. Spinning that does not end the wait only takes the core from whoever shall
  // send: after n vain spins in a row the next 2^n - 1 receives (63 at most) block at once.
  int vain_spins = 0;
  int blocks_left = 0;
};

TcpTransport::TcpTransport(model::DeviceIndex self, std::vector<ChannelEnd> ends,
                           std::shared_ptr<Cancellation> cancellation, const TcpOptions& options)
    : cancellation_(std::move(cancellation)), options_(options) {
  require(cancellation_ != nullptr, "transport: no cancellation");
  for (ChannelEnd& end : ends) {
    require(end.peer >= 0 && end.peer != self, "transport: a channel to oneself");
    auto& side = end.sends ? sending_ : receiving_;
    const auto index = static_cast<std::size_t>(end.peer);
    if (side.size() <= index) side.resize(index + 1);
    require(side[index] == nullptr, "transport: a channel twice");
    side[index] = std::make_unique<End>(std::move(end.connection), end.sends);
  }
}

TcpTransport::~TcpTransport() = default;

TcpTransport::End& TcpTransport::end_of(model::DeviceIndex peer, bool sends) const {
  const auto& side = sends ? sending_ : receiving_;
  const auto index = static_cast<std::size_t>(peer);
  require(peer >= 0 && index < side.size() && side[index] != nullptr,
          "transport: no channel between these devices in this direction");
  return *side[index];
}

// Writes what the socket takes. True: that was all of the message.
bool TcpTransport::push(End& end, MessageTag tag, std::span<const std::byte> payload) {
  const std::size_t along = std::min(payload.size(), kStagedBytes - kDataHeaderBytes);
  const std::span<const std::byte> staged = std::span(end.staged).first(kDataHeaderBytes + along);
  if (end.written == 0) {
    encode_data_header({.tag = tag, .bytes = payload.size()},
                       std::span(end.staged).first<kDataHeaderBytes>());
    std::copy_n(payload.begin(), along, end.staged.begin() + kDataHeaderBytes);
    end.under_way = tag;
  }
  require(end.under_way == tag, "transport: another message while one is under way");
  while (end.written < kDataHeaderBytes + payload.size()) {
    const std::size_t sent = end.connection.write_some(
        end.written < staged.size() ? staged.subspan(end.written)
                                    : payload.subspan(end.written - kDataHeaderBytes));
    if (sent == 0) return false;
    end.written += sent;
  }
  end.written = 0;
  return true;
}

MessageTimes TcpTransport::send(model::DeviceIndex to, MessageTag tag,
                                std::span<const std::byte> payload) {
  End& end = end_of(to, true);
  cancellation_->check();
  while (!push(end, tag, payload)) {
    end.connection.wait(
        true, {.deadline = Clock::time_point::max(), .cancellation = cancellation_.get()});
  }
  const Clock::time_point now = Clock::now();
  return {.sent = now, .arrived = now};
}

std::optional<MessageTimes> TcpTransport::try_send(model::DeviceIndex to, MessageTag tag,
                                                   std::span<const std::byte> payload) {
  if (payload.size() > options_.inline_bytes) return std::nullopt;
  End& end = end_of(to, true);
  cancellation_->check();
  if (!push(end, tag, payload)) return std::nullopt;
  const Clock::time_point now = Clock::now();
  return MessageTimes{.sent = now, .arrived = now};
}

MessageTimes TcpTransport::receive(model::DeviceIndex from, MessageTag tag,
                                   std::span<std::byte> payload, Clock::time_point deadline,
                                   bool may_spin) {
  End& end = end_of(from, false);
  cancellation_->check();
  bool spinning = may_spin && end.blocks_left == 0;
  if (may_spin && !spinning) --end.blocks_left;
  bool waited = false;
  const Clock::time_point spin_end =
      spinning ? std::min(deadline, Clock::now() + options_.spin) : Clock::time_point::min();
  Clock::time_point tried{};
  Clock::time_point there{};  // when the first bytes were
  const auto fill = [&](std::span<std::byte> room) {
    while (!room.empty()) {
      if (there == Clock::time_point{}) tried = Clock::now();
      const std::size_t got = end.connection.read_some(room);
      room = room.subspan(got);
      if (got != 0) {
        if (there == Clock::time_point{}) there = tried;
        continue;
      }
      if (spinning && Clock::now() >= spin_end) {
        spinning = false;
        end.vain_spins = std::min(end.vain_spins + 1, kMaxVainSpins);
        end.blocks_left = (1 << end.vain_spins) - 1;
      }
      if (spinning && !cancellation_->cancelled()) {
        waited = true;
        pause();
      } else {
        end.connection.wait(false, {.deadline = deadline, .cancellation = cancellation_.get()});
      }
    }
  };
  std::array<std::byte, kDataHeaderBytes> head{};
  fill(head);
  const DataHeader got = parse_data_header(head);
  const DataHeader expected{.tag = tag, .bytes = payload.size()};
  if (got != expected) {
    throw Error(end.connection.peer() + ": sent " + text_of(got) + ", expected " +
                text_of(expected) + "; the devices do not run the same plan");
  }
  fill(payload);
  if (spinning && waited) end.vain_spins = 0;
  return {.sent = there, .arrived = Clock::now()};
}

bool TcpTransport::receives_inline(model::DeviceIndex from, std::size_t bytes) const {
  static_cast<void>(from);
  return bytes <= options_.inline_bytes;
}

void TcpTransport::cancel(const std::string& reason) noexcept { cancellation_->cancel(reason); }

}  // namespace tandem::exec
