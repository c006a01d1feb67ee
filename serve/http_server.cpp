#include "serve/http_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "serve/http_connection.hpp"

namespace tandem::serve {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpServer::State {
  State(HttpHandler& its_handler, HttpLimits its_limits,
        std::shared_ptr<asio::ssl::context> its_tls)
      : handler(its_handler), limits(its_limits), tls(std::move(its_tls)) {}

  void accept() {
    acceptor.async_accept([this](const boost::system::error_code& fault, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (fault) {  // too many open files, for instance
        pause.expires_after(std::chrono::milliseconds(100));
        pause.async_wait([this](const boost::system::error_code& stopped) {
          if (!stopped && acceptor.is_open()) accept();
        });
        return;
      }
      take(std::move(socket));
      accept();
    });
  }

  void take(tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const bool full = count >= limits.connections;
    if (full && refused >= limits.refused) return;
    std::size_t& counted = full ? refused : count;
    ++counted;
    const auto made = std::make_shared<HttpConnection>(HttpSocket{std::move(socket), tls.get()},
                                                       handler, limits, [&counted] { --counted; });
    std::erase_if(all, [](const std::weak_ptr<HttpConnection>& one) { return one.expired(); });
    all.push_back(made);
    std::optional<HttpAnswer> refusal;
    if (full) refusal = handler.protocol_error(503, "too many connections; try again later");
    made->start(std::move(refusal));
  }

  void stop() {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    for (const auto& one : all) {
      if (const auto connection = one.lock()) connection->drain();
    }
    // Those that are still answered.
    pause.expires_after(std::chrono::seconds(1));
    pause.async_wait([this](const boost::system::error_code&) {
      for (const auto& one : all) {
        if (const auto connection = one.lock()) connection->close();
      }
      io.stop();
    });
    check_ended();
  }

  // Ends the wait for answers once there are none.
  void check_ended() {
    if (count == 0) {
      pause.cancel();
      return;
    }
    poll.expires_after(std::chrono::milliseconds(10));
    poll.async_wait([this](const boost::system::error_code& fault) {
      if (!fault) check_ended();
    });
  }

  HttpHandler& handler;
  HttpLimits limits;
  std::shared_ptr<asio::ssl::context> tls;
  std::size_t count = 0;                         // of connections
  std::size_t refused = 0;                       // beyond those, while they are answered so
  std::list<std::weak_ptr<HttpConnection>> all;  // they use what is above
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  asio::steady_timer poll{io};
  exec::Endpoint endpoint{};
};

HttpServer::HttpServer(const exec::Endpoint& endpoint, HttpHandler& handler, HttpLimits limits,
                       std::shared_ptr<asio::ssl::context> tls)
    : state_(std::make_unique<State>(handler, limits, std::move(tls))) {
  boost::system::error_code fault;
  tcp::resolver resolver(state_->io);
  const auto found =
      resolver.resolve(endpoint.host, std::to_string(endpoint.port), tcp::resolver::passive, fault);
  const std::string subject = "address " + to_text(endpoint) + ": ";
  if (fault || found.empty())
    throw Error(subject + fault.message() + ", expected HOST:PORT of this machine");
  const tcp::endpoint address = found.begin()->endpoint();
  tcp::acceptor& acceptor = state_->acceptor;
  acceptor.open(address.protocol(), fault);
  if (!fault) acceptor.set_option(tcp::acceptor::reuse_address(true), fault);
  if (!fault) acceptor.bind(address, fault);
  if (!fault) acceptor.listen(asio::socket_base::max_listen_connections, fault);
  if (fault)
    throw Error(subject + fault.message() + ", expected a free port; give another with '--listen'");
  state_->endpoint = {.host = endpoint.host, .port = acceptor.local_endpoint().port()};
}

HttpServer::~HttpServer() = default;

const exec::Endpoint& HttpServer::endpoint() const { return state_->endpoint; }

void HttpServer::run() {
  state_->accept();
  state_->io.run();
}

void HttpServer::post(std::function<void()> work) { asio::post(state_->io, std::move(work)); }

void HttpServer::stop() {
  asio::post(state_->io, [this] { state_->stop(); });
}

std::size_t HttpServer::connections() const { return state_->count; }

}  // namespace tandem::serve
