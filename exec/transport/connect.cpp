// Opens a connection: resolves, connects, shakes hands, exchanges Hellos.

#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "exec/transport/connection.hpp"
#include "exec/transport/connection_link.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

[[noreturn]] void fail(const std::string& name, const std::string& fault) {
  throw Error(name + ": " + fault);
}

// The connected socket of one of the endpoint's addresses.
class Dialer {
 public:
  Dialer(const Endpoint& endpoint, const std::string& name, bool has_key)
      : name_(name), has_key_(has_key) {
    resolver_.async_resolve(
        endpoint.host, std::to_string(endpoint.port), tcp::resolver::numeric_service,
        [this](const boost::system::error_code& error, const tcp::resolver::results_type& found) {
          if (error) return finish(error);
          for (const auto& entry : found) addresses_.push_back(entry.endpoint());
          // Without a key no byte leaves the machine, whatever the name resolves to.
          if (!has_key_) {
            for (const tcp::endpoint& address : addresses_) {
              if (!address.address().is_loopback()) {
                remote_ = address.address().to_string();
                return finish(asio::error::access_denied);
              }
            }
          }
          asio::async_connect(socket_, addresses_,
                              [this](const boost::system::error_code& result,
                                     const tcp::endpoint&) { finish(result); });
        });
  }

  int dial(const Patience& patience) {
    std::optional<asio::posix::stream_descriptor> watch;
    if (patience.cancellation != nullptr) {
      patience.cancellation->check();
      watch.emplace(io_, ::dup(patience.cancellation->descriptor()));
      watch->async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](const boost::system::error_code& error) {
                          if (!error) io_.stop();
                        });
    }
    while (!done_ && !io_.stopped() && io_.run_one_until(patience.deadline) > 0) {
    }
    if (patience.cancellation != nullptr) patience.cancellation->check();
    if (!done_)
      fail(name_,
           "did not answer in time; check the address, that the worker runs and "
           "that no firewall is between");
    if (!remote_.empty()) require_loopback(false, remote_);
    if (result_) {
      fail(name_, "cannot connect: " + result_.message() +
                      "; check the address and that `tandem worker` listens there");
    }
    return socket_.release();
  }

 private:
  void finish(const boost::system::error_code& result) {
    result_ = result;
    done_ = true;
  }

  const std::string& name_;
  bool has_key_;
  asio::io_context io_{1};
  tcp::resolver resolver_{io_};
  tcp::socket socket_{io_};
  std::vector<tcp::endpoint> addresses_;
  boost::system::error_code result_;
  std::string remote_;
  bool done_ = false;
};

void shake_hands(Connection& connection, const Patience& patience) {
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
        fail(connection.peer(),
             "closed the connection during the handshake; check that it is a tandem worker, not "
             "busy with another run, and has this key");
      case Tls::Progress::failed:
        fail(connection.peer(), "handshake failed (" + tls.fault() +
                                    "), expected a tandem worker with the same key; copy one key "
                                    "file to every device");
    }
  }
}

}  // namespace

void require_loopback(bool is_loopback, const std::string& address) {
  if (is_loopback) return;
  throw Error("address " + address +
              ": not a loopback address, expected 127.0.0.1 or ::1 without a key; make a key with "
              "`tandem worker --generate-key FILE` and give it to every device with --key FILE");
}

Connection connect_to(const Endpoint& endpoint, const std::optional<Key>& key, const Hello& hello,
                      const Patience& patience) {
  const std::string name = "device " + std::to_string(hello.peer) + " at " + to_text(endpoint);
  Connection connection(std::make_unique<Connection::Link>(
      Dialer(endpoint, name, key.has_value()).dial(patience), name));
  if (key) {
    connection.link().tls = Tls::client(connection.descriptor(), *key, hello.role, Role::worker);
    shake_hands(connection, patience);
  }
  connection.write_message(hello, patience);
  const Message answer = connection.read_message(patience);
  const Hello* other = std::get_if<Hello>(&answer);
  if (other == nullptr || other->role != Role::worker || other->purpose != hello.purpose ||
      other->session != hello.session || other->device != hello.peer ||
      other->peer != hello.device || other->sends == hello.sends) {
    fail(name, "answered as another device or run, expected worker " + std::to_string(hello.peer) +
                   " of this run; check the list of hosts and that the worker serves one run");
  }
  return connection;
}

}  // namespace tandem::exec
