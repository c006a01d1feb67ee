#include "exec/testbed/calibration.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/testbed/emulator.hpp"
#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail_to_measure(const char* what) {
  throw Error(std::string("measuring the packet emulator: ") + what + ": " +
              model::system_fault(errno, "run it again"));
}

sockaddr_in internet_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  result.sin_addr.s_addr = htonl(address);
  return result;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

model::Descriptor stream_socket() {
  model::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) fail_to_measure("no socket");
  send_at_once(socket.number());
  // A peer that never comes must not hold up the testbed.
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return socket;
}

void receive_all(int socket, std::vector<std::byte>& bytes) {
  if (::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size()))
    fail_to_measure("a message was lost");
}

void send_all(int socket, const std::vector<std::byte>& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t more = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0) fail_to_measure("cannot send");
    sent += static_cast<std::size_t>(more);
  }
}

// Of the calling thread; below the emulator's, which it talks through.
void ask_for_priority() {
  const sched_param priority{.sched_priority = Emulator::kPriority - 10};
  pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
}

}  // namespace

std::chrono::nanoseconds ping(const NetworkNamespace& from, const NetworkNamespace& to,
                              std::uint32_t address, const PingOptions& options) {
  model::Descriptor listening;
  std::uint16_t port = 0;
  to.run([&] {
    listening = stream_socket();
    sockaddr_in own = internet_address(address, 0);
    socklen_t size = sizeof(own);
    if (::bind(listening.number(), reinterpret_cast<sockaddr*>(&own), size) != 0 ||
        ::listen(listening.number(), 1) != 0 ||
        ::getsockname(listening.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
      fail_to_measure("cannot listen");
    port = ntohs(own.sin_port);
  });
  model::Descriptor dialled;
  from.run([&] { dialled = stream_socket(); });
  const int total = options.warm_up + options.rounds;
  std::exception_ptr fault;  // of `answers`, which has ended when it is read
  std::thread answers([&] {
    try {
      ask_for_priority();
      const model::Descriptor accepted(
          ::accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!accepted.is_open()) fail_to_measure("nothing has connected");
      send_at_once(accepted.number());
      std::vector<std::byte> bytes(options.bytes);
      for (int i = 0; i < total; ++i) {
        receive_all(accepted.number(), bytes);
        send_all(accepted.number(), bytes);
      }
    } catch (...) {
      fault = std::current_exception();
    }
  });
  std::vector<double> times_ns;
  std::exception_ptr own_fault;
  std::thread asks([&] {
    try {
      ask_for_priority();
      const sockaddr_in peer = internet_address(address, port);
      if (::connect(dialled.number(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0)
        fail_to_measure("cannot connect");
      std::vector<std::byte> bytes(options.bytes);
      for (int i = 0; i < total; ++i) {
        const Clock::time_point start = Clock::now();
        send_all(dialled.number(), bytes);
        receive_all(dialled.number(), bytes);
        const std::chrono::nanoseconds round = Clock::now() - start;
        if (i >= options.warm_up) times_ns.push_back(static_cast<double>(round.count()) / 2.0);
      }
    } catch (...) {
      own_fault = std::current_exception();
      ::shutdown(dialled.number(), SHUT_RDWR);
      ::shutdown(listening.number(), SHUT_RDWR);
    }
  });
  asks.join();
  answers.join();
  if (own_fault) std::rethrow_exception(own_fault);
  if (fault) std::rethrow_exception(fault);
  return std::chrono::nanoseconds(std::llround(model::quantile(std::move(times_ns), 0.25)));
}

std::chrono::nanoseconds measure_emulator_overhead(std::span<const NetworkNamespace> namespaces,
                                                   std::uint32_t first_address) {
  require(namespaces.size() >= 2, "measure_emulator_overhead: two namespaces");
  constexpr std::chrono::milliseconds kLatency{1};
  const model::Device device{.flop_rate = model::FlopsPerSecond{1e9},
                             .memory_bandwidth = model::BytesPerSecond{1e9},
                             .memory = model::Bytes{1e9}};
  model::Device one = device;
  one.name = "one";
  model::Device other = device;
  other.name = "other";
  const model::Cluster cluster(
      "calibration", {one, other}, {},
      {{.name = "line",
        .latency = model::Seconds{std::chrono::duration<double>(kLatency).count()},
        .bandwidth = model::BytesPerSecond{1e10},
        .sharing = model::Sharing::fatpipe}},
      {{.from = "one", .to = "other", .hops = {{.link = 0}}}});
  const std::uint32_t second = first_address + 1;
  std::chrono::nanoseconds emulated{};
  {
    const Emulator emulator(cluster, {.tuns = {namespaces[0].tun(), namespaces[1].tun()},
                                      .first_address = first_address,
                                      .overhead = {}});
    emulated = ping(namespaces[0], namespaces[1], second);
  }
  const std::chrono::nanoseconds loopback =
      ping(namespaces[1], namespaces[1], second, {.rounds = 1000});
  const std::chrono::nanoseconds overhead = emulated - kLatency - loopback;
  constexpr std::chrono::microseconds kPlausible{400};
  if (overhead > kPlausible)
    throw Error("the packet emulator takes " +
                to_text(model::Seconds{std::chrono::duration<double>(overhead).count()}) +
                " for a packet, expected at most 0.4 ms; run it again when this machine is quiet");
  return std::max(std::chrono::nanoseconds(0), overhead);
}

}  // namespace tandem::exec
