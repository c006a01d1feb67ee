#pragma once

// The bytes of a connection: TCP, or TLS over it. Private to the server.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <utility>

namespace tandem::serve {

struct HttpSocket {
  boost::asio::ip::tcp::socket socket;
  boost::asio::ssl::context* tls = nullptr;  // null: without TLS; outlives the stream
};

// An AsyncStream of Beast. Time limits are those of tcp().
class HttpStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  explicit HttpStream(HttpSocket socket) : tcp_(std::move(socket.socket)) {
    if (socket.tls != nullptr) tls_.emplace(tcp_, *socket.tls);
  }
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  [[nodiscard]] executor_type get_executor() { return tcp_.get_executor(); }
  [[nodiscard]] boost::beast::tcp_stream& tcp() { return tcp_; }
  [[nodiscard]] bool is_encrypted() const { return tls_ && !plain_; }
  // Goes on without TLS.
  void set_plain() { plain_ = true; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (is_encrypted())
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    else
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (is_encrypted())
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    else
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // Of an encrypted one.
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  // Tells the client that nothing more comes, and waits for the same from it.
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
  bool plain_ = false;
};

}  // namespace tandem::serve
