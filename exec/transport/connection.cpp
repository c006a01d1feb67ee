#include "exec/transport/connection.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "exec/transport/connection_link.hpp"
#include "exec/transport/tls_record.hpp"
#include "exec/transport/version_error.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr int kSocketBufferBytes = 1 << 20;
constexpr int kKeepIdleSeconds = 5;
constexpr int kKeepEverySeconds = 2;
constexpr int kKeepTries = 5;

[[noreturn]] void closed(const std::string& peer) {
  throw Error(peer + ": closed the connection; it probably stopped, see its output");
}

[[noreturn]] void broken(const std::string& peer, const std::string& reason) {
  throw Error(peer + ": connection broken: " + reason + "; see the peer's output");
}

// Whether TLS has read or written something. Throws Error if it never will.
bool passed(Tls::Progress progress, const Tls& tls, const std::string& peer) {
  switch (progress) {
    case Tls::Progress::done:
      return true;
    case Tls::Progress::wants_read:
    case Tls::Progress::wants_write:
      return false;
    case Tls::Progress::closed:
      closed(peer);
    case Tls::Progress::failed:
      broken(peer, tls.fault());
  }
  throw std::logic_error("TLS: progress out of range");
}

}  // namespace

Connection::Link::Link(int socket, std::string peer) : descriptor(socket), name(std::move(peer)) {
  const int one = 1;
  int nonblocking = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  // The computing thread's messages should fit, so that sending them wakes no thread.
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  ::ioctl(socket, FIONBIO, &nonblocking);
  // Who only receives would otherwise never learn that the way to its peer is gone.
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepIdleSeconds, sizeof kKeepIdleSeconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepEverySeconds, sizeof kKeepEverySeconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepTries, sizeof kKeepTries);
}

Connection::Link::~Link() { ::close(descriptor); }

Connection::Connection(std::unique_ptr<Link> link) : link_(std::move(link)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

std::size_t Connection::read_some(std::span<std::byte> into) {
  if (into.empty()) return 0;
  if (link_->tls) {
    std::size_t bytes = 0;
    const Tls::Progress progress = link_->tls->read(into, bytes);
    return passed(progress, *link_->tls, link_->name) ? bytes : 0;
  }
  const ssize_t got = ::recv(link_->descriptor, into.data(), into.size(), 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0 || errno == ECONNRESET) closed(link_->name);
  if (errno == EAGAIN || errno == EINTR) return 0;
  broken(link_->name, std::strerror(errno));
}

std::size_t Connection::write_some(std::span<const std::byte> from) {
  if (from.empty()) return 0;
  if (link_->tls) {
    std::size_t bytes = 0;
    const Tls::Progress progress = link_->tls->write(from, bytes);
    return passed(progress, *link_->tls, link_->name) ? bytes : 0;
  }
  const ssize_t sent = ::send(link_->descriptor, from.data(), from.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return 0;
  if (errno == EPIPE || errno == ECONNRESET) closed(link_->name);
  broken(link_->name, std::strerror(errno));
}

void Connection::wait(bool writing, const Patience& patience) const {
  std::array<pollfd, 2> set{{
      {.fd = link_->descriptor,
       .events = static_cast<short>(writing ? POLLOUT : POLLIN),
       .revents = 0},
      {.fd = patience.cancellation != nullptr ? patience.cancellation->descriptor() : -1,
       .events = POLLIN,
       .revents = 0},
  }};
  for (;;) {
    if (patience.cancellation != nullptr) patience.cancellation->check();
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(patience.deadline - Clock::now());
    if (left.count() <= 0) {
      throw Error(link_->name + ": " + (writing ? "took nothing" : "sent nothing") +
                  " in time; check that it runs and that the network reaches it");
    }
    const timespec timeout{.tv_sec = left.count() / 1'000'000'000,
                           .tv_nsec = left.count() % 1'000'000'000};
    const int ready = ::ppoll(set.data(), set.size(), &timeout, nullptr);
    if (ready < 0 && errno != EINTR) broken(link_->name, std::strerror(errno));
    if (ready > 0 && set[1].revents == 0) return;
  }
}

void Connection::read_all(std::span<std::byte> into, const Patience& patience) {
  while (!into.empty()) {
    const std::size_t got = read_some(into);
    into = into.subspan(got);
    if (got == 0) wait(false, patience);
  }
}

void Connection::write_all(std::span<const std::byte> from, const Patience& patience) {
  while (!from.empty()) {
    const std::size_t sent = write_some(from);
    from = from.subspan(sent);
    if (sent == 0) wait(true, patience);
  }
}

void Connection::write_message(const Message& message, const Patience& patience) {
  write_all(encode(message), patience);
}

Message Connection::read_message(const Patience& patience) {
  std::array<std::byte, kFrameHeaderBytes> head{};
  try {
    read_all(head, patience);
  } catch (const Error&) {
    // An alert, the answer of a peer with a key, is shorter than a frame's header.
    if (!encrypted() && begins_tls(head)) throw Error(link_->name + ": " + kOnlyPeerHasKey);
    throw;
  }
  try {
    const FrameHeader header = parse_frame_header(head);
    std::vector<std::byte> body(header.body_bytes);
    read_all(body, patience);
    return parse_body(header, body);
  } catch (const VersionError& fault) {
    throw VersionError(link_->name + ": " + fault.what());
  } catch (const Error& fault) {
    const std::string text = fault.what();
    throw Error(text.starts_with(link_->name) ? text : link_->name + ": " + text);
  }
}

int Connection::descriptor() const { return link_->descriptor; }
bool Connection::encrypted() const { return link_->tls.has_value(); }
const std::string& Connection::peer() const { return link_->name; }
void Connection::rename(std::string peer) { link_->name = std::move(peer); }

std::size_t Connection::unsent_bytes() const {
  int bytes = 0;
  return ::ioctl(link_->descriptor, SIOCOUTQ, &bytes) == 0 && bytes > 0
             ? static_cast<std::size_t>(bytes)
             : 0;
}

}  // namespace tandem::exec
