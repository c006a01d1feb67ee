#include "exec/testbed/door.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kName("\0tandem-testbed", 15);
constexpr std::string_view kDown = "down\n";
constexpr std::size_t kMostGreeting = 512;

std::pair<sockaddr_un, socklen_t> door_address() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, kName.data(), kName.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + kName.size())};
}

model::Descriptor local_socket() {
  model::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open())
    throw Error("testbed's door: no socket: " + model::system_fault(errno, "close other programs"));
  return socket;
}

struct Visit {
  model::Descriptor socket;
  ucred owner{};  // of the socket that was connected to
};

ucred peer_of(int socket) {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t size = sizeof(peer);
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

// Any user may take the name of an abstract socket, and connect to one.
bool is_permitted(const ucred& peer) { return peer.uid == 0 || peer.uid == ::geteuid(); }

// Connected; absent if no testbed is up. Throws Error if the socket is not a testbed's.
std::optional<Visit> knock() {
  Visit visit{.socket = local_socket()};
  const int socket = visit.socket.number();
  // The owner may be stopped, or so busy that it does not answer.
  const timeval patience{.tv_sec = 3, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  const auto [address, size] = door_address();
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == ECONNREFUSED) return std::nullopt;
    throw Error("cannot ask the testbed that is up: " + model::system_fault(errno, "run as root"));
  }
  visit.owner = peer_of(socket);
  if (!is_permitted(visit.owner))
    throw Error("process " + std::to_string(visit.owner.pid) + " of user " +
                std::to_string(visit.owner.uid) +
                " has the testbed's socket, expected one of root; end that process");
  return visit;
}

// Returns what comes until the end of a line, or of the connection. Throws Error if nothing comes.
std::string read_line(const Visit& visit) {
  std::string line;
  char letter = 0;
  while (line.size() < kMostGreeting) {
    const ssize_t got = ::recv(visit.socket.number(), &letter, 1, 0);
    if (got < 0 && errno == EAGAIN)
      throw Error("the testbed that is up does not answer; end it with `kill -9 " +
                  std::to_string(visit.owner.pid) + "`");
    if (got != 1 || letter == '\n') return line;
    line += letter;
  }
  return line;
}

std::optional<TestbedAtDoor> read_greeting(const Visit& visit) {
  std::string platform = read_line(visit);
  if (platform.empty()) return std::nullopt;  // it is ending
  return TestbedAtDoor{.process = visit.owner.pid, .platform = std::move(platform)};
}

std::string to_text(const TestbedAtDoor& found) {
  return "'" + model::printable(found.platform, 60) + "' (process " +
         std::to_string(found.process) + ")";
}

}  // namespace

Door::Door(const std::string& platform, std::function<void()> on_down)
    : greeting_(platform.substr(0, kMostGreeting / 2) + "\n"),
      on_down_(std::move(on_down)),
      socket_(local_socket()),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  const auto [address, size] = door_address();
  if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE)
      throw Error("testbed's door: " + model::system_fault(errno, "run it again"));
    std::string found;
    if (const auto other = knock()) {
      if (const auto greeting = read_greeting(*other)) found = to_text(*greeting);
    }
    throw Error("a testbed is up already" + (found.empty() ? "" : ", " + found) +
                ", expected none; end it with `tandem testbed down`");
  }
  ::listen(socket_.number(), 4);
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

Door::~Door() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  while (::write(wake_.number(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Door::serve(const std::stop_token& stop) {
  while (true) {
    std::vector<pollfd> polled{{.fd = wake_.number(), .events = POLLIN, .revents = 0},
                               {.fd = socket_.number(), .events = POLLIN, .revents = 0}};
    for (const model::Descriptor& caller : callers_)
      polled.push_back({.fd = caller.number(), .events = POLLIN, .revents = 0});
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (stop.stop_requested()) return;
    for (std::size_t i = callers_.size(); i-- > 0;) {
      if (polled[i + 2].revents == 0) continue;
      std::array<char, kDown.size()> word{};
      const ssize_t got = ::recv(callers_[i].number(), word.data(), word.size(), MSG_DONTWAIT);
      if (got == static_cast<ssize_t>(kDown.size()) &&
          std::string_view(word.data(), word.size()) == kDown) {
        if (on_down_) std::exchange(on_down_, nullptr)();
      } else {
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (polled[1].revents == 0) continue;
    model::Descriptor caller(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.is_open() || !is_permitted(peer_of(caller.number()))) continue;
    if (::send(caller.number(), greeting_.data(), greeting_.size(), MSG_NOSIGNAL) > 0)
      callers_.push_back(std::move(caller));
  }
}

std::optional<TestbedAtDoor> take_down(const std::string& platform,
                                       std::chrono::milliseconds patience) {
  const std::optional<Visit> door = knock();
  if (!door) return std::nullopt;
  std::optional<TestbedAtDoor> found = read_greeting(*door);
  if (!found) return std::nullopt;
  if (!platform.empty() && platform != found->platform)
    throw Error("the testbed that is up is of platform " + to_text(*found) + ", not '" + platform +
                "'; run `tandem testbed down` without a platform to end it");
  ::send(door->socket.number(), kDown.data(), kDown.size(), MSG_NOSIGNAL);
  pollfd ending{.fd = door->socket.number(), .events = POLLIN, .revents = 0};
  if (::poll(&ending, 1, static_cast<int>(patience.count())) <= 0)
    throw Error("testbed of " + to_text(*found) + " has not ended within " +
                std::to_string(patience.count() / 1000) + " s; end it with `kill -9 " +
                std::to_string(found->process) + "`");
  return found;
}

}  // namespace tandem::exec
