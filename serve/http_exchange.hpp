#pragma once

// One request over HTTP and its answer, without the protocol.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::serve {

struct HttpRequest {
  std::string method{};
  std::string path{};  // without a query
  std::string body{};
};

// The head of a request, before its body is read.
struct HttpHead {
  std::string method{};
  std::string path{};
  std::string host{};
  std::string origin{};  // empty: none
  std::string content_type{};
  std::string authorization{};
};

struct HttpAnswer {
  unsigned status = 200;
  std::string body{};
  std::string content_type = "application/json";
  // Further header lines, each "Name: value\r\n".
  std::string headers{};
};

// Where an answer goes. Used on the server's thread only; calls after the client has gone, or after
// the end of the answer, have no effect.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  // The whole answer.
  virtual void send(HttpAnswer answer) = 0;
  // An answer of events, whose data is one line each; end() completes it, fail() breaks it off.
  virtual void begin_events() = 0;
  virtual void event(std::string_view data) = 0;
  virtual void end() = 0;
  virtual void fail() = 0;
  // Calls `gone`, once, if the client goes before the answer is complete.
  virtual void when_gone(std::function<void()> gone) = 0;
};

// Answers requests; called on the server's thread, and must not block it.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Returns whether the request is refused because of its head; the answer is then in `refusal`.
  [[nodiscard]] virtual bool refuses(const HttpHead& head, HttpAnswer& refusal) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) = 0;
  // Returns the answer for a request that the protocol itself refuses.
  [[nodiscard]] virtual HttpAnswer protocol_error(unsigned status, const std::string& reason) = 0;
};

}  // namespace tandem::serve
