#include "serve/http_connection.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <chrono>
#include <iterator>
#include <utility>

#include "serve/request_target.hpp"

namespace tandem::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

std::string text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string in_hex(std::size_t number) {
  char digits[2 * sizeof number];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, 16).ptr;
  return {digits, end};
}

// Why a request cannot be read, as a status and a reason; status 0: it can. Beast reads a body by
// the last coding alone, and a proxy that reads two headers may have taken the other.
std::pair<unsigned, std::string> fault_of(const http::request_header<>& head) {
  if (head.version() != 10 && head.version() != 11) return {505, "expected HTTP/1.1"};
  if (head.version() == 11 && head.count(http::field::host) != 1) return {400, "expected one Host"};
  if (head.count(http::field::origin) > 1) return {400, "expected one Origin"};
  if (head.count(http::field::content_type) > 1) return {400, "expected one Content-Type"};
  const auto others = [&](http::field name, beast::string_view only) {
    const auto [begin, end] = head.equal_range(name);
    return std::any_of(begin, end,
                       [&](const auto& field) { return !beast::iequals(field.value(), only); });
  };
  if (head.count(http::field::transfer_encoding) > 1 ||
      others(http::field::transfer_encoding, "chunked"))
    return {501, "Transfer-Encoding: expected chunked"};
  if (others(http::field::content_encoding, "identity"))
    return {415, "Content-Encoding: expected identity, a body as it is"};
  return {0, {}};
}

// Whether a fault lies in what a client has sent, not in its connection.
bool is_of_http(const boost::system::error_code& fault) {
  return fault.category() == make_error_code(http::error::bad_method).category() &&
         fault != http::error::end_of_stream;
}

}  // namespace

// The reply to one request; of no effect once that is over.
class ConnectionReply final : public HttpReply {
 public:
  ConnectionReply(std::shared_ptr<HttpConnection> connection, std::uint64_t exchange)
      : connection_(std::move(connection)), exchange_(exchange) {}
  // A handler that forgets a request must not leave its client waiting.
  ~ConnectionReply() override {
    try {
      fail();
    } catch (...) {
      return;  // no memory for a short text: the client's own patience ends it
    }
  }
  ConnectionReply(const ConnectionReply&) = delete;
  ConnectionReply& operator=(const ConnectionReply&) = delete;

  void send(HttpAnswer answer) override {
    if (is_open(HttpConnection::State::answering)) connection_->answer(answer);
  }
  void begin_events() override {
    if (is_open(HttpConnection::State::answering)) connection_->begin_events();
  }
  void event(std::string_view data) override {
    if (is_open(HttpConnection::State::streaming)) connection_->event(data);
  }
  void end() override {
    if (is_open(HttpConnection::State::streaming)) connection_->end_events();
  }
  void fail() override {
    if (is_open(HttpConnection::State::streaming)) connection_->fail_events();
    if (is_open(HttpConnection::State::answering)) connection_->close();
  }
  void when_gone(std::function<void()> gone) override {
    if (connection_->exchange_ != exchange_ || connection_->complete_ ||
        connection_->state_ == HttpConnection::State::closed)
      return;
    connection_->when_gone_ = std::move(gone);
  }

 private:
  [[nodiscard]] bool is_open(HttpConnection::State state) const {
    return connection_->exchange_ == exchange_ && connection_->state_ == state &&
           !connection_->complete_;
  }
  std::shared_ptr<HttpConnection> connection_;
  std::uint64_t exchange_;
};

HttpConnection::HttpConnection(HttpSocket socket, HttpHandler& handler, const HttpLimits& limits,
                               std::function<void()> ended)
    : stream_(std::move(socket)),
      pause_(stream_.get_executor()),
      handler_(&handler),
      limits_(&limits),
      ended_(std::move(ended)),
      buffer_(limits.header_bytes + (std::size_t{64} << 10U)) {}

HttpConnection::~HttpConnection() {
  if (ended_) ended_();
}

void HttpConnection::start(std::optional<HttpAnswer> refusal) {
  if (!stream_.is_encrypted()) return begin(refusal);
  stream_.tcp().expires_after(limits_->handshake_time);
  stream_.async_handshake([self = shared_from_this(),
                           refusal = std::move(refusal)](const boost::system::error_code& fault) {
    if (self->state_ == State::closed) return;
    if (!fault) return self->begin(refusal);
    const bool is_plain =
        fault.category() == asio::error::get_ssl_category() &&
        ERR_GET_REASON(static_cast<unsigned long>(fault.value())) == SSL_R_HTTP_REQUEST;
    if (!is_plain) return self->close();
    self->stream_.set_plain();
    self->refuse(self->handler_->protocol_error(400, "expected HTTPS; ask for https://"));
  });
}

void HttpConnection::begin(const std::optional<HttpAnswer>& refusal) {
  if (refusal) return refuse(*refusal);
  read_head();
}

void HttpConnection::read_head() {
  state_ = State::reading;
  complete_ = false;
  head_only_ = false;
  ++exchange_;
  parser_.emplace();
  parser_->header_limit(limits_->header_bytes);
  parser_->body_limit(limits_->body_bytes);
  // The header time begins with its first bytes; before, the connection is idle.
  const bool begun = exchange_ == 1 || buffer_.size() > 0;
  stream_.tcp().expires_after(begun ? limits_->header_time : limits_->idle_time);
  if (begun) {
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](const boost::system::error_code& fault,
                                                        std::size_t) { self->on_head(fault); });
    return;
  }
  constexpr std::size_t kFirst = 4096;
  stream_.async_read_some(
      buffer_.prepare(kFirst),
      [self = shared_from_this()](const boost::system::error_code& fault, std::size_t bytes) {
        if (fault) return self->close();
        self->buffer_.commit(bytes);
        self->stream_.tcp().expires_after(self->limits_->header_time);
        http::async_read_header(
            self->stream_, self->buffer_, *self->parser_,
            [self](const boost::system::error_code& next, std::size_t) { self->on_head(next); });
      });
}

void HttpConnection::on_head(const boost::system::error_code& fault) {
  if (state_ == State::closed) return;
  // What is too slow is closed by the stream itself.
  if (fault && !is_of_http(fault)) return close();
  if (fault == http::error::body_limit) return refuse_body();
  if (fault)
    return refuse(
        handler_->protocol_error(fault == http::error::header_limit ? 431 : 400, fault.message()));
  const auto& head = parser_->get();
  if (const auto [status, reason] = fault_of(head); status != 0)
    return refuse(handler_->protocol_error(status, reason));
  const auto target = parse_target(text_of(head.target()));
  if (!target)
    return refuse(handler_->protocol_error(
        400, "request target, expected a path, an http:// or https:// URI or *"));
  path_ = target->path;
  // The host of an absolute URI is in place of the header (RFC 9112, 3.2.2).
  const std::string host =
      target->authority.empty() ? text_of(head[http::field::host]) : target->authority;
  HttpHead view{.method = text_of(head.method_string()),
                .path = path_,
                .host = host,
                .origin = text_of(head[http::field::origin]),
                .content_type = text_of(head[http::field::content_type]),
                .authorization = text_of(head[http::field::authorization])};
  head_only_ = view.method == "HEAD";
  HttpAnswer refusal;
  if (handler_->refuses(view, refusal)) return refuse(refusal);
  const bool expects = beast::iequals(head[http::field::expect], "100-continue");
  if (!expects || parser_->is_done()) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(
      stream_, asio::buffer(kContinue),
      [self = shared_from_this()](const boost::system::error_code& next, std::size_t) {
        if (next) return self->close();
        self->read_body();
      });
}

void HttpConnection::read_body() {
  stream_.tcp().expires_after(limits_->body_time);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](const boost::system::error_code& fault,
                                               std::size_t) { self->on_body(fault); });
}

void HttpConnection::on_body(const boost::system::error_code& fault) {
  if (state_ == State::closed) return;
  if (fault == http::error::body_limit) return refuse_body();
  if (fault && is_of_http(fault)) return refuse(handler_->protocol_error(400, fault.message()));
  if (fault) return close();
  stream_.tcp().expires_never();
  state_ = State::answering;
  chunked_ = parser_->get().version() == 11;
  keep_alive_ = chunked_ && parser_->get().keep_alive() && !draining_;
  HttpRequest request{.method = text_of(parser_->get().method_string()),
                      .path = path_,
                      .body = std::move(parser_->get().body())};
  auto reply = std::make_shared<ConnectionReply>(shared_from_this(), exchange_);
  watch();
  handler_->handle(std::move(request), std::move(reply));
}

void HttpConnection::refuse(const HttpAnswer& refusal) {
  state_ = State::answering;
  keep_alive_ = false;
  answer(refusal);
}

void HttpConnection::refuse_body() {
  refuse(handler_->protocol_error(413, "the request's body is longer than " +
                                           std::to_string(limits_->body_bytes) +
                                           " bytes; shorten it"));
}

// A client that closes its side while it is answered has gone.
void HttpConnection::watch() {
  if (watching_) return;
  watching_ = true;
  stream_.tcp().socket().async_wait(
      tcp::socket::wait_read, [self = shared_from_this()](const boost::system::error_code& fault) {
        self->watching_ = false;
        if (!fault) self->look();
      });
}

void HttpConnection::look() {
  if (state_ != State::answering && state_ != State::streaming) return;
  pollfd socket{
      .fd = stream_.tcp().socket().native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (::poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0)
    return close();
  if ((socket.revents & POLLIN) == 0) return watch();
  // The next request is here already, so that no event comes when the client leaves.
  constexpr std::chrono::milliseconds kPause{500};
  watching_ = true;
  pause_.expires_after(kPause);
  pause_.async_wait([weak = weak_from_this()](const boost::system::error_code& fault) {
    const auto self = weak.lock();
    if (!self) return;
    self->watching_ = false;
    if (!fault) self->look();
  });
}

void HttpConnection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  boost::system::error_code ignored;
  stream_.tcp().socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.tcp().close();
  pause_.cancel();
  if (const auto gone = std::exchange(when_gone_, nullptr)) gone();
}

void HttpConnection::drain() {
  draining_ = true;
  keep_alive_ = false;
  if (state_ == State::reading) close();
}

std::string HttpConnection::head_of(const HttpAnswer& answer, bool events) const {
  constexpr unsigned kNoContent = 204;
  const bool has_content = answer.status != kNoContent;
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     text_of(http::obsolete_reason(static_cast<http::status>(answer.status))) +
                     "\r\nServer: tandem\r\n";
  if (has_content)
    head += "Content-Type: " + answer.content_type + "\r\nX-Content-Type-Options: nosniff\r\n";
  head += answer.headers;
  if (events) {
    head += "Cache-Control: no-cache\r\n";
    if (chunked_) head += "Transfer-Encoding: chunked\r\n";
  } else if (has_content) {
    head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  }
  return head + (keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n");
}

void HttpConnection::answer(const HttpAnswer& answer) {
  std::string bytes = head_of(answer, false);
  if (!head_only_) bytes += answer.body;
  complete_ = true;
  enqueue(std::move(bytes));
}

void HttpConnection::begin_events() {
  state_ = State::streaming;
  enqueue(head_of({.content_type = "text/event-stream"}, true));
}

void HttpConnection::event(std::string_view data) {
  std::string bytes = "data: ";
  bytes += data;
  bytes += "\n\n";
  if (chunked_) bytes = in_hex(bytes.size()) + "\r\n" + bytes + "\r\n";
  // A client that does not read must not make the server remember everything.
  if (waiting_.size() + bytes.size() > limits_->unread_bytes) return close();
  enqueue(std::move(bytes));
}

void HttpConnection::end_events() {
  complete_ = true;
  enqueue(chunked_ ? "0\r\n\r\n" : "");
}

// Without the end of its chunks a client knows that the answer is not whole.
void HttpConnection::fail_events() {
  keep_alive_ = false;
  complete_ = true;
  broken_off_ = true;
  enqueue("");
}

void HttpConnection::enqueue(std::string bytes) {
  if (state_ == State::closed) return;
  if (waiting_.empty())
    waiting_ = std::move(bytes);
  else
    waiting_ += bytes;
  if (complete_) when_gone_ = nullptr;
  if (writing_.empty()) write();
}

void HttpConnection::write() {
  if (waiting_.empty()) {
    if (complete_) next();
    return;
  }
  writing_ = std::exchange(waiting_, {});
  stream_.tcp().expires_after(limits_->write_time);
  asio::async_write(stream_, asio::buffer(writing_),
                    [self = shared_from_this()](const boost::system::error_code& fault,
                                                std::size_t) { self->on_written(fault); });
}

void HttpConnection::on_written(const boost::system::error_code& fault) {
  writing_.clear();
  if (state_ == State::closed) return;
  if (fault) return close();
  stream_.tcp().expires_never();
  write();
}

void HttpConnection::next() {
  if (keep_alive_ && !draining_) return read_head();
  constexpr std::chrono::seconds kPatience{1};
  state_ = State::closing;
  stream_.tcp().expires_after(kPatience);
  // Without TLS's own end a client knows that what has no other end is not whole.
  if (!stream_.is_encrypted() || broken_off_) return end_sending();
  stream_.async_shutdown(
      [self = shared_from_this()](const boost::system::error_code&) { self->end_sending(); });
}

void HttpConnection::end_sending() {
  if (state_ == State::closed) return;
  boost::system::error_code ignored;
  stream_.tcp().socket().shutdown(tcp::socket::shutdown_send, ignored);
  linger();
}

// Reads what the client still sends, for a moment: were the socket closed with bytes unread, the
// client could lose the answer.
void HttpConnection::linger() {
  constexpr std::size_t kMost = std::size_t{16} << 20U;
  constexpr std::size_t kPiece = 65536;
  buffer_.clear();
  stream_.tcp().async_read_some(
      buffer_.prepare(kPiece),
      [self = shared_from_this()](const boost::system::error_code& fault, std::size_t bytes) {
        self->lingered_ += bytes;
        if (fault || self->lingered_ > kMost) return self->close();
        self->linger();
      });
}

}  // namespace tandem::serve
