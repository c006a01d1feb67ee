#pragma once

// An HTTP/1.1 server on one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/transport/endpoint.hpp"
#include "serve/http_exchange.hpp"
#include "serve/http_limits.hpp"

namespace boost::asio::ssl {
class context;
}

namespace tandem::serve {

class HttpServer {
 public:
  // Binds and listens; port 0: any free one. Throws Error naming the address if it cannot. The
  // handler outlives the server. `tls`: as of tls_context(); null: none.
  HttpServer(const exec::Endpoint& endpoint, HttpHandler& handler, HttpLimits limits = {},
             std::shared_ptr<boost::asio::ssl::context> tls = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] const exec::Endpoint& endpoint() const;  // with the real port

  // Serves on the calling thread until stop().
  void run();
  // Any thread: runs `work` on the server's thread, in order.
  void post(std::function<void()> work);
  // Any thread: no more connections and requests; run() returns once all answers are complete, or
  // after a second.
  void stop();
  // For the handler, on the server's thread.
  [[nodiscard]] std::size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::serve
