#include "exec/testbed/door.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
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

// Connected; absent if no testbed is up.
std::optional<model::Descriptor> knock() {
  model::Descriptor socket = local_socket();
  const auto [address, size] = door_address();
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), size) == 0)
    return socket;
  if (errno == ECONNREFUSED) return std::nullopt;
  throw Error("cannot ask the testbed that is up: " + model::system_fault(errno, "run as root"));
}

// Returns what comes until the end of a line, or of the connection.
std::string read_line(int socket) {
  std::string line;
  char letter = 0;
  while (line.size() < kMostGreeting && ::recv(socket, &letter, 1, 0) == 1 && letter != '\n')
    line += letter;
  return line;
}

std::optional<TestbedAtDoor> read_greeting(int socket) {
  const std::string line = read_line(socket);
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return std::nullopt;  // it is ending
  return TestbedAtDoor{.process = static_cast<pid_t>(std::atoi(line.c_str())),
                       .platform = line.substr(space + 1)};
}

std::string to_text(const TestbedAtDoor& found) {
  return "'" + model::printable(found.platform, 60) + "' (process " +
         std::to_string(found.process) + ")";
}

// Anybody may connect to such a socket.
bool is_permitted(int socket) {
  ucred caller{};
  socklen_t size = sizeof(caller);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &caller, &size) == 0 &&
         (caller.uid == 0 || caller.uid == ::geteuid());
}

}  // namespace

Door::Door(const std::string& platform, std::function<void()> on_down)
    : greeting_(std::to_string(::getpid()) + " " + platform.substr(0, kMostGreeting / 2) + "\n"),
      on_down_(std::move(on_down)),
      socket_(local_socket()),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  const auto [address, size] = door_address();
  if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    std::string found;
    if (const auto other = knock()) {
      if (const auto greeting = read_greeting(other->number())) found = to_text(*greeting);
    }
    if (error != EADDRINUSE)
      throw Error("testbed's door: " + model::system_fault(error, "run it again"));
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
    if (!caller.is_open() || !is_permitted(caller.number())) continue;
    if (::send(caller.number(), greeting_.data(), greeting_.size(), MSG_NOSIGNAL) > 0)
      callers_.push_back(std::move(caller));
  }
}

std::optional<TestbedAtDoor> take_down(const std::string& platform,
                                       std::chrono::milliseconds patience) {
  const std::optional<model::Descriptor> door = knock();
  if (!door) return std::nullopt;
  std::optional<TestbedAtDoor> found = read_greeting(door->number());
  if (!found) return std::nullopt;
  if (!platform.empty() && platform != found->platform)
    throw Error("the testbed that is up is of platform " + to_text(*found) + ", not '" + platform +
                "'; run `tandem testbed down` without a platform to end it");
  ::send(door->number(), kDown.data(), kDown.size(), MSG_NOSIGNAL);
  pollfd ending{.fd = door->number(), .events = POLLIN, .revents = 0};
  if (::poll(&ending, 1, static_cast<int>(patience.count())) <= 0)
    throw Error("testbed of " + to_text(*found) + " has not ended within " +
                std::to_string(patience.count() / 1000) + " s; end it with `kill -9 " +
                std::to_string(found->process) + "`");
  return found;
}

}  // namespace tandem::exec
