#pragma once

// A server with a handler of its own, for tests of connections.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "serve/http_server.hpp"

namespace tandem::testing {

// /echo answers with the body, /events streams it by the byte, /endless streams until the client is
// gone, /forgotten is never answered, /held until it is gone.
class TestHandler : public serve::HttpHandler {
 public:
  bool refuses(const serve::HttpHead& head, serve::HttpAnswer& refusal) override {
    if (head.path != "/refused") return false;
    refusal = {.status = 415, .body = "no"};
    return true;
  }
  serve::HttpAnswer protocol_error(unsigned status, const std::string& reason) override {
    return {.status = status, .body = reason};
  }
  void handle(serve::HttpRequest request, std::shared_ptr<serve::HttpReply> reply) override {
    ++handled;
    if (request.path == "/echo") return reply->send({.body = request.body});
    if (request.path == "/forgotten") return;
    reply->when_gone([this, reply] { ++gone; });
    if (request.path == "/held") return;
    reply->begin_events();
    if (request.path == "/endless") {
      const std::string piece(60'000, 'x');
      for (int i = 0; i < 1000; ++i) reply->event(piece);
      return;
    }
    for (const char byte : request.body) reply->event(std::string_view(&byte, 1));
    reply->end();
  }
  std::atomic<int> handled = 0;
  std::atomic<int> gone = 0;
};

struct Running {
  explicit Running(const serve::HttpLimits& limits = {},
                   std::shared_ptr<boost::asio::ssl::context> tls = nullptr)
      : server({.host = "127.0.0.1", .port = 0}, handler, limits, std::move(tls)),
        thread([this] { server.run(); }) {}
  ~Running() {
    server.stop();
    thread.join();
  }
  [[nodiscard]] std::uint16_t port() const { return server.endpoint().port; }
  // Whether `done()` is true within ten seconds.
  static bool soon(const std::function<bool()>& done) {
    for (int i = 0; i < 1000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  }
  TestHandler handler;
  serve::HttpServer server;
  std::thread thread;
};

}  // namespace tandem::testing
