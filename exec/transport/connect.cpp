// Opens a connection: resolves, connects, shakes hands, exchanges Hellos.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "exec/transport/connection.hpp"
#include "exec/transport/connection_link.hpp"
#include "exec/transport/tls_record.hpp"
#include "exec/transport/version_error.hpp"
#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr Counterpart kWorker{
    .command = "tandem worker",
    .handshake = "a tandem worker with the same key; copy one key file to every device"};

[[noreturn]] void fail(const std::string& name, const std::string& fault) {
  throw Error(name + ": " + fault);
}

// Waits until `descriptor` is ready for `events`. False: the deadline has passed. Throws Error if
// the wait is cancelled.
bool await(int descriptor, short events, const Patience& patience) {
  std::array<pollfd, 2> set{{
      {.fd = descriptor, .events = events, .revents = 0},
      {.fd = patience.cancellation != nullptr ? patience.cancellation->descriptor() : -1,
       .events = POLLIN,
       .revents = 0},
  }};
  for (;;) {
    if (patience.cancellation != nullptr) patience.cancellation->check();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<Clock::duration>(patience.deadline - Clock::now(), std::chrono::hours(1)));
    if (left.count() <= 0) return false;
    if (::poll(set.data(), set.size(), static_cast<int>(left.count())) > 0 && set[0].revents != 0)
      return true;
  }
}

// The addresses of a name. Asking may take longer than anybody waits and cannot be called off, so a
// thread of its own asks, and is left behind if need be.
class Resolution {
 public:
  static std::vector<tcp::endpoint> of(const Endpoint& endpoint, const std::string& name,
                                       const Patience& patience) {
    boost::system::error_code not_numeric;
    const asio::ip::address address = asio::ip::make_address(endpoint.host, not_numeric);
    if (!not_numeric) return {{address, endpoint.port}};
    const auto question = std::make_shared<Resolution>();
    std::thread([question, endpoint] { question->ask(endpoint); }).detach();
    // Its state, not that its descriptor is ready, is what makes the answer visible here.
    while (!question->answered_.cancelled()) {
      if (await(question->answered_.descriptor(), POLLIN, patience)) continue;
      fail(name, "its name was not resolved in time; check it, or give the address in numbers");
    }
    if (!question->fault_.empty()) {
      fail(name, "its name cannot be resolved: " + question->fault_ +
                     "; check it, or give the address in numbers");
    }
    return question->addresses_;
  }

 private:
  void ask(const Endpoint& endpoint) {
    try {
      asio::io_context io;
      for (const auto& entry : tcp::resolver(io).resolve(
               endpoint.host, std::to_string(endpoint.port), tcp::resolver::numeric_service)) {
        addresses_.push_back(entry.endpoint());
      }
    } catch (const boost::system::system_error& error) {
      fault_ = error.code().message();
    } catch (const std::exception& error) {
      fault_ = model::describe(error);
    }
    answered_.cancel("answered");
  }

  // Written before answered_, read after it.
  std::vector<tcp::endpoint> addresses_;
  std::string fault_;
  Cancellation answered_;
};

// A port without a listener may be the one that the kernel gave to this very socket.
bool is_own_peer(int socket) {
  tcp::endpoint self;
  tcp::endpoint peer;
  socklen_t self_size = static_cast<socklen_t>(self.capacity());
  socklen_t peer_size = static_cast<socklen_t>(peer.capacity());
  if (::getsockname(socket, self.data(), &self_size) != 0 ||
      ::getpeername(socket, peer.data(), &peer_size) != 0)
    return false;
  self.resize(self_size);
  peer.resize(peer_size);
  return self == peer;
}

// Connects `socket`. Returns 0, or the error number of the refusal.
int connect_socket(int socket, const tcp::endpoint& address, const std::string& name,
                   const Counterpart& expected, const Patience& patience) {
  if (::connect(socket, address.data(), static_cast<socklen_t>(address.size())) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (!await(socket, POLLOUT, patience)) {
      fail(name, "did not answer in time; check the address, that `" +
                     std::string(expected.command) + "` runs and that no firewall is between");
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    if (error != 0) return error;
  }
  return is_own_peer(socket) ? ECONNREFUSED : 0;
}

// Returns the connected socket of the first of the addresses that answers.
int dial(const std::vector<tcp::endpoint>& addresses, const std::string& name,
         const Counterpart& expected, const Patience& patience) {
  int error = EADDRNOTAVAIL;
  for (const tcp::endpoint& address : addresses) {
    model::Descriptor socket(::socket(address.protocol().family(),
                                      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!socket.is_open()) {
      error = errno;
      if (error == EAFNOSUPPORT) continue;  // IPv6 is off: another address may be IPv4's
      fail(name, "no socket to connect with: " + model::system_fault(error, "try again"));
    }
    error = connect_socket(socket.number(), address, name, expected, patience);
    if (error == 0) return socket.release();
  }
  fail(name, "cannot connect: " + std::generic_category().message(error) +
                 "; check the address and that `" + std::string(expected.command) +
                 "` listens there");
}

}  // namespace

Connection open_connection(const Endpoint& endpoint, const std::string& name, bool far,
                           const Counterpart& expected, const Patience& patience) {
  const std::vector<tcp::endpoint> addresses = Resolution::of(endpoint, name, patience);
  for (const tcp::endpoint& address : addresses) {
    if (!far) require_loopback(address.address().is_loopback(), address.address().to_string());
  }
  return Connection(
      std::make_unique<Connection::Link>(dial(addresses, name, expected, patience), name));
}

void shake_hands(Connection& connection, const Counterpart& expected, const Patience& patience) {
  Tls& tls = *connection.link().tls;
  for (;;) {
    switch (tls.handshake()) {
      case Tls::Progress::done:
        return;
      case Tls::Progress::wants_read:
        connection.wait(false, patience);
        break;
      case Tls::Progress::wants_write:
        connection.wait(true, patience);
        break;
      case Tls::Progress::closed:
        fail(connection.peer(), "closed the connection during the handshake, expected " +
                                    std::string(expected.handshake));
      case Tls::Progress::failed:
        if (tls.fault().find("alert internal error") != std::string::npos)
          fail(connection.peer(), "gave up the handshake (" + tls.fault() + "); see its output");
        fail(connection.peer(),
             "handshake failed (" + tls.fault() + "), expected " + std::string(expected.handshake));
    }
  }
}

void require_loopback(bool is_loopback, const std::string& address) {
  if (is_loopback) return;
  throw Error("address " + address +
              ": not a loopback address, expected 127.0.0.1 or ::1 without a key; make a key with "
              "`tandem worker --generate-key FILE` and give it to every device with --key FILE");
}

std::string name_of(const DeviceNames& names, model::DeviceIndex device) {
  return names ? names(device) : "device " + std::to_string(device);
}

namespace {

[[noreturn]] void turned_down(const std::string& name, const Refusal& refusal,
                              const DeviceNames& names) {
  const std::string detail = refusal.detail.empty() ? "" : " (" + refusal.detail + ")";
  switch (refusal.kind) {
    case RefusalKind::busy:
      fail(name, "busy with another run" + detail + "; wait for its end, or end it");
    case RefusalKind::present:
      fail(name, "is the worker that serves " + name_of(names, refusal.device) +
                     " in this run already, expected one of its own; start a worker for each "
                     "device and give each its own address");
    case RefusalKind::unexpected:
      fail(name, "expects no such connection" + detail +
                     "; check the list of hosts, and install the same tandem on every device");
  }
  fail(name, "refused");
}

}  // namespace

Connection connect_to(const Endpoint& endpoint, const std::optional<Key>& key, const Hello& hello,
                      const Patience& patience, const DeviceNames& names) {
  const std::string name = name_of(names, hello.peer) + " at " + to_text(endpoint);
  // Without a key no byte leaves the machine, whatever the name resolves to.
  Connection connection = open_connection(endpoint, name, key.has_value(), kWorker, patience);
  if (key) {
    connection.link().tls = Tls::client(connection.descriptor(), *key, hello.role, Role::worker);
    shake_hands(connection, kWorker, patience);
  }
  connection.write_message(hello, patience);
  const Message answer = [&] {
    try {
      return connection.read_message(patience);
    } catch (const VersionError&) {
      throw;
    } catch (const Error& error) {
      // A worker that has a key closes a connection that begins without one.
      const bool is_known =
          std::string_view(error.what()).find(kOnlyPeerHasKey) != std::string::npos;
      if (key || is_known ||
          (patience.cancellation != nullptr && patience.cancellation->cancelled()))
        throw;
      throw Error(std::string(error.what()) +
                  "; if it was started with a key, give the same one with --key");
    }
  }();
  if (const auto* refusal = std::get_if<Refusal>(&answer)) turned_down(name, *refusal, names);
  const Hello* other = std::get_if<Hello>(&answer);
  if (other == nullptr || other->role != Role::worker || other->purpose != hello.purpose ||
      other->session != hello.session || other->device != hello.peer ||
      other->peer != hello.device || other->sends == hello.sends) {
    fail(name, "answered as another device or run, expected a worker that serves this run as " +
                   name_of(names, hello.peer) +
                   "; check the list of hosts, and install the same tandem on every device");
  }
  return connection;
}

void connect_all(const std::vector<Dial>& dials, const std::optional<Key>& key,
                 const Patience& patience, const DeviceNames& names,
                 const std::function<void(std::size_t dial, Connection connection)>& on_open) {
  // After the first failure, for others to fail as well and be named along with it.
  constexpr std::chrono::milliseconds kOthers{100};
  constexpr std::chrono::milliseconds kTurn{20};
  Cancellation stop;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t left = dials.size();
  std::vector<std::size_t> failed;
  std::string first;  // failure
  const auto open = [&](std::size_t i) {
    std::string fault;
    try {
      Connection connection =
          connect_to(dials[i].endpoint, key, dials[i].hello,
                     {.deadline = patience.deadline, .cancellation = &stop}, names);
      const std::lock_guard lock(mutex);
      on_open(i, std::move(connection));
    } catch (const Error& error) {
      fault = error.what();
    } catch (const std::exception& error) {  // of this process, not of the peer
      fault = "connecting to " + name_of(names, dials[i].hello.peer) + " at " +
              to_text(dials[i].endpoint) + ": " + model::describe(error);
    }
    const std::lock_guard lock(mutex);
    if (!fault.empty() && !stop.cancelled()) {
      if (failed.empty()) first = fault;
      failed.push_back(i);
    }
    --left;
    changed.notify_all();
  };
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 0; i < dials.size(); ++i) threads.emplace_back(open, i);
  } catch (...) {
    stop.cancel("over");  // for the threads that there are to end before they are joined
    throw;
  }
  std::unique_lock lock(mutex);
  Clock::time_point end = Clock::time_point::max();
  while (left > 0) {
    if (patience.cancellation != nullptr && patience.cancellation->cancelled()) stop.cancel("over");
    if (!failed.empty()) end = std::min(end, Clock::now() + kOthers);
    if (Clock::now() >= end) stop.cancel("over");
    changed.wait_for(lock, kTurn);
  }
  lock.unlock();
  for (std::jthread& thread : threads) thread.join();
  if (patience.cancellation != nullptr) patience.cancellation->check();
  if (failed.empty()) return;
  for (std::size_t i = 1; i < failed.size(); ++i) {
    const Dial& dial = dials[failed[i]];
    first += (i == 1 ? "; the same goes for " : ", ") + name_of(names, dial.hello.peer) + " at " +
             to_text(dial.endpoint);
  }
  throw Error(first);
}

}  // namespace tandem::exec
