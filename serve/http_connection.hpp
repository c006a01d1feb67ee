#pragma once

// One client's connection: requests one after another, answers whole or as server-sent events.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http_exchange.hpp"
#include "serve/http_limits.hpp"
#include "serve/http_stream.hpp"

namespace tandem::serve {

// Private to the server, whose thread runs all of it. Keeps itself alive while anything is pending.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `handler` and `limits` outlive it; `ended` is called once, at its end.
  HttpConnection(HttpSocket socket, HttpHandler& handler, const HttpLimits& limits,
                 std::function<void()> ended);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // With a refusal, that is the only answer.
  void start(std::optional<HttpAnswer> refusal);
  // Ends at once if it is idle, else after its answer.
  void drain();
  void close();

 private:
  friend class ConnectionReply;
  // Refuses a request that is not read, or not read on, and closes.
  void refuse(const HttpAnswer& refusal);
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State : std::uint8_t { reading, answering, streaming, closing, closed };

  void begin(const std::optional<HttpAnswer>& refusal);
  void read_head();
  void on_head(const boost::system::error_code& fault);
  void read_body();
  void on_body(const boost::system::error_code& fault);
  void refuse_body();
  // Watches for the client's leaving; look() finds out whether it has left.
  void watch();
  void look();

  void answer(const HttpAnswer& answer);
  void begin_events();
  void event(std::string_view data);
  void end_events();
  void fail_events();
  void enqueue(std::string bytes);
  void write();
  void on_written(const boost::system::error_code& fault);
  // What follows the last byte of an answer.
  void next();
  void end_sending();
  void linger();
  [[nodiscard]] std::string head_of(const HttpAnswer& answer, bool events) const;

  HttpStream stream_;
  boost::asio::steady_timer pause_;  // of watch(), when bytes hide the client's leaving
  HttpHandler* handler_;
  const HttpLimits* limits_;
  std::function<void()> ended_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  State state_ = State::reading;
  std::uint64_t exchange_ = 0;  // number of the present request
  bool keep_alive_ = false;
  bool chunked_ = false;
  bool head_only_ = false;
  bool draining_ = false;
  bool watching_ = false;
  std::function<void()> when_gone_;
  std::string writing_;    // bytes that are being written
  std::string waiting_;    // bytes behind those
  bool complete_ = false;  // the answer ends with these
  bool broken_off_ = false;
  std::string path_;  // of the present request
  std::size_t lingered_ = 0;
};

}  // namespace tandem::serve
