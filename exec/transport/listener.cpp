#include "exec/transport/listener.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>
#include <utility>

#include "exec/transport/connection_link.hpp"
#include "exec/transport/tls_record.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kBacklog = 64;

// Hello is the only message that a stranger may send, and it is short.
constexpr std::size_t kMaxHelloBytes = 64;

Hello answer_to(const Hello& hello) {
  return {.version = kWireVersion,
          .role = Role::worker,
          .purpose = hello.purpose,
          .session = hello.session,
          .device = hello.peer,
          .peer = hello.device,
          .sends = !hello.sends};
}

bool write_at_once(Connection& connection, const Message& message) {
  const std::vector<std::byte> frame = encode(message);
  return connection.write_some(frame) == frame.size();
}

// Throws Error if `fault` is a lack of open files or memory.
void need_resources(const boost::system::system_error& fault, const std::string& subject) {
  if (fault.code().category() != boost::system::system_category() ||
      !model::is_exhaustion(fault.code().value()))
    return;
  throw Error(subject + ": " + model::system_fault(fault.code().value(), ""));
}

// A descriptor that is watched here, but belongs to another.
struct BorrowedDescriptor {
  BorrowedDescriptor(asio::io_context& io, int descriptor) : watched(io, descriptor) {}
  BorrowedDescriptor(const BorrowedDescriptor&) = delete;
  BorrowedDescriptor& operator=(const BorrowedDescriptor&) = delete;
  ~BorrowedDescriptor() { static_cast<void>(watched.release()); }
  asio::posix::stream_descriptor watched;
};

// One client between TCP accept and its Hello.
class Guest {
 public:
  using Done = std::function<void(Guest&, bool good, const std::string& fault)>;

  Guest(asio::io_context& io, int socket, std::string name, const std::optional<Key>& key,
        std::chrono::milliseconds limit, Done done)
      : connection_(std::make_unique<Connection::Link>(socket, std::move(name))),
        watch_(io, socket),
        timer_(io, limit),
        done_(std::move(done)) {
    if (key) connection_.link().tls = Tls::server(socket, *key, Role::worker);
    shaken_ = !key;
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) finish(false, "slow handshake");
    });
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest() { static_cast<void>(watch_.release()); }

  // Goes on as far as the bytes that are here allow.
  void advance() {
    try {
      if (!shaken_ && !shake_hands()) return;
      if (read_hello()) finish(true, "");
    } catch (const std::exception& fault) {  // also: no memory for its handshake
      finish(false, model::describe(fault));
    }
  }
  void drop(const std::string& reason) { finish(false, reason); }

  [[nodiscard]] const std::string& name() const { return connection_.peer(); }
  [[nodiscard]] Incoming take() {
    static_cast<void>(watch_.release());
    return {.connection = std::move(connection_), .hello = hello_};
  }

 private:
  void await(asio::posix::stream_descriptor::wait_type what) {
    watch_.async_wait(what, [this](const boost::system::error_code& error) {
      if (!error) advance();
    });
  }

  bool shake_hands() {
    Tls& tls = *connection_.link().tls;
    switch (tls.handshake()) {
      case Tls::Progress::done:
        shaken_ = true;
        return true;
      case Tls::Progress::wants_read:
        await(asio::posix::stream_descriptor::wait_read);
        return false;
      case Tls::Progress::wants_write:
        await(asio::posix::stream_descriptor::wait_write);
        return false;
      case Tls::Progress::closed:
        throw Error("closed during the handshake");
      case Tls::Progress::failed:
        throw Error("handshake failed (" + tls.fault() + "), expected a peer with the same key");
    }
    return false;
  }

  bool read_hello() {
    while (got_ < wanted_) {
      const std::size_t size =
          connection_.read_some(std::span(bytes_).subspan(got_, wanted_ - got_));
      got_ += size;
      if (size == 0) {
        await(asio::posix::stream_descriptor::wait_read);
        return false;
      }
      if (got_ == kFrameHeaderBytes && wanted_ == kFrameHeaderBytes) {
        header_ = parse_header();
        wanted_ += header_.body_bytes;
      }
    }
    try {
      hello_ = std::get<Hello>(
          parse_body(header_, std::span(bytes_).subspan(kFrameHeaderBytes, header_.body_bytes)));
    } catch (const Error&) {
      write_at_once(connection_, Hello{});  // so that a peer of another version can say so
      throw;
    }
    const std::optional<Tls>& tls = connection_.link().tls;
    if (tls && tls->client_role() != hello_.role) throw Error("says another role than its key");
    if (hello_.device == hello_.peer ||
        (hello_.purpose == Purpose::control && hello_.role != Role::master)) {
      throw Error("asks as " + std::string(to_string(hello_.role)) + " " +
                  std::to_string(hello_.device) + " for what it may not");
    }
    return true;
  }

  FrameHeader parse_header() {
    const auto bytes = std::span(bytes_).first<kFrameHeaderBytes>();
    try {
      const FrameHeader header = parse_frame_header(bytes);
      if (header.type != 1 || header.body_bytes > kMaxHelloBytes)
        throw Error("first message is not a Hello");
      return header;
    } catch (const Error&) {
      // A client with a key learns from an answer in plain text that there is none here.
      if (begins_tls(bytes)) write_at_once(connection_, Hello{});
      throw;
    }
  }

  void finish(bool good, const std::string& fault) {
    if (finished_) return;
    finished_ = true;
    timer_.cancel();
    watch_.cancel();
    done_(*this, good, fault);
  }

  Connection connection_;
  asio::posix::stream_descriptor watch_;
  asio::steady_timer timer_;
  Done done_;
  bool shaken_ = false;
  bool finished_ = false;
  std::array<std::byte, kFrameHeaderBytes + kMaxHelloBytes> bytes_{};
  std::size_t got_ = 0;
  std::size_t wanted_ = kFrameHeaderBytes;
  FrameHeader header_;
  Hello hello_;
};

}  // namespace

void Incoming::welcome() {
  if (!write_at_once(connection, answer_to(hello))) {
    throw Error(connection.peer() + ": does not read the answer to its Hello");
  }
}

void Incoming::refuse(const Refusal& refusal) noexcept {
  try {
    write_at_once(connection, refusal);
  } catch (const std::exception&) {
    return;  // it is gone, or is told by its connection's end
  }
}

ListenSocket::ListenSocket(const Endpoint& endpoint, bool has_key) : endpoint_(endpoint) {
  try {
    asio::io_context io;
    tcp::resolver resolver(io);
    const tcp::endpoint address =
        *resolver
             .resolve(endpoint.host, std::to_string(endpoint.port),
                      tcp::resolver::passive | tcp::resolver::numeric_service)
             .begin();
    if (!has_key) require_loopback(address.address().is_loopback(), to_text(endpoint));
    tcp::acceptor acceptor(io);
    acceptor.open(address.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(address);
    acceptor.listen(kBacklog);
    endpoint_.port = acceptor.local_endpoint().port();
    descriptor_ = model::Descriptor(acceptor.release());
  } catch (const boost::system::system_error& fault) {
    need_resources(fault, "listen " + to_text(endpoint));
    throw Error("listen " + to_text(endpoint) + ": " + fault.code().message() +
                ", expected a free port of this machine; choose another with --listen HOST:PORT");
  }
}

struct Listener::State {
  State(ListenSocket socket, const std::optional<Key>& secret, ListenerOptions given)
      : endpoint(socket.endpoint()),
        key(secret),
        options(std::move(given)),
        acceptor(io),
        retry(io) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const bool known =
        ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
    acceptor.assign(known && address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(),
                    socket.release());
    next();
  }

  void next() {
    acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (!error) {
        next();  // first: whatever becomes of this client, others will come
        welcome(std::move(socket));
      } else if (error != asio::error::operation_aborted) {
        if (model::is_exhaustion(error.value()))
          reject("a client", "not accepted: " + model::system_fault(error.value(), ""));
        // Out of descriptors, most likely: give handshakes time to end instead of spinning.
        retry.expires_after(std::chrono::milliseconds(50));
        retry.async_wait([this](const boost::system::error_code& stopped) {
          if (!stopped) next();
        });
      }
    });
  }

  void welcome(tcp::socket socket) {
    boost::system::error_code error;
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (error) return;
    Endpoint peer{.host = remote.address().to_string(), .port = remote.port()};
    if (guests.size() >= options.pending) guests.front().drop("too many handshakes");
    try {
      guests.emplace_back(
          io, socket.release(), "client " + to_text(peer), key, options.handshake,
          [this](Guest& guest, bool good, const std::string& fault) { leave(guest, good, fault); });
    } catch (const std::exception& fault) {
      reject("client " + to_text(peer), model::describe(fault));
      return;
    }
    guests.back().advance();
  }

  void leave(Guest& guest, bool good, const std::string& fault) {
    // The guest's cancelled waits still refer to it until they have run.
    for (auto it = guests.begin(); it != guests.end(); ++it) {
      if (&*it != &guest) continue;
      departed.splice(departed.end(), guests, it);
      break;
    }
    asio::post(io, [this] { departed.pop_front(); });
    if (good) {
      ready.push_back(guest.take());
    } else {
      reject(guest.name(), fault);
    }
  }

  void reject(const std::string& name, const std::string& fault) const {
    if (!options.on_rejected) return;
    options.on_rejected(fault.starts_with(name) ? fault : name + ": " + fault);
  }

  asio::io_context io{1};  // first, so that it outlives what waits on it
  Endpoint endpoint;
  std::optional<Key> key;
  ListenerOptions options;
  std::list<Guest> guests;    // oldest first
  std::list<Guest> departed;  // to be destroyed
  std::deque<Incoming> ready;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
};

Listener::Listener(ListenSocket socket, const std::optional<Key>& key, ListenerOptions options) try
    : state_(std::make_unique<State>(std::move(socket), key, std::move(options))) {
} catch (const boost::system::system_error& fault) {
  need_resources(fault, "listener");
  throw;
}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

const Endpoint& Listener::endpoint() const { return state_->endpoint; }

std::optional<Incoming> Listener::accept(const Patience& patience) {
  asio::io_context& io = state_->io;
  std::optional<BorrowedDescriptor> watch;
  bool woken = false;
  if (patience.cancellation != nullptr) {
    patience.cancellation->check();
    watch.emplace(io, patience.cancellation->descriptor());
    watch->watched.async_wait(asio::posix::stream_descriptor::wait_read,
                              [&](const boost::system::error_code& error) {
                                if (!error) woken = true;
                              });
  }
  while (state_->ready.empty() && !woken && io.run_one_until(patience.deadline) > 0) {
  }
  watch.reset();
  io.poll();  // runs the cancelled wait, which refers to this frame
  if (patience.cancellation != nullptr) patience.cancellation->check();
  if (state_->ready.empty()) return std::nullopt;
  Incoming incoming = std::move(state_->ready.front());
  state_->ready.pop_front();
  return incoming;
}

}  // namespace tandem::exec
