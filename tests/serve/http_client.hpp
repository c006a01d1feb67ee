#pragma once

// A client over a real socket that can misbehave, for tests of the server.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

struct HttpReplyText {
  int status = 0;                                // 0: the connection ended without an answer
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
  bool whole = false;  // as long as it states, or ended by its last chunk
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body); }
  // The data of a stream's events, in order.
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> found;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      at += 6;
      const std::size_t end = body.find("\n\n", at);
      found.push_back(body.substr(at, end - at));
      at = end;
    }
    return found;
  }
};

class HttpClient {
 public:
  // `tls`: null without TLS; outlives the client.
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0, SSL_CTX* tls = nullptr) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    if (tls == nullptr) return;
    tls_.reset(SSL_new(tls));
    SSL_set_fd(tls_.get(), socket_);
    connected_ = SSL_connect(tls_.get()) == 1;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = tls_
                               ? SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()))
                               : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Reads one piece; false at the end of the connection or after `patience`.
  bool read_some(std::chrono::milliseconds patience = std::chrono::milliseconds(20'000)) {
    char piece[65536];
    while (true) {
      pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
      const bool pending = tls_ && SSL_pending(tls_.get()) > 0;
      if (!pending && ::poll(&ready, 1, static_cast<int>(patience.count())) <= 0) return false;
      const ssize_t bytes = tls_ ? SSL_read(tls_.get(), piece, sizeof piece)
                                 : ::recv(socket_, piece, sizeof piece, 0);
      // What was there was TLS's own.
      if (tls_ && bytes < 0 &&
          SSL_get_error(tls_.get(), static_cast<int>(bytes)) == SSL_ERROR_WANT_READ)
        continue;
      if (bytes <= 0) return false;
      received_.append(piece, static_cast<std::size_t>(bytes));
      return true;
    }
  }
  // Whether the server closes within the time; what comes before is kept.
  bool ends(std::chrono::milliseconds patience = std::chrono::milliseconds(20'000)) {
    while (read_some(patience)) {
    }
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&ready, 1, 0) > 0 && ::recv(socket_, &byte, 1, MSG_DONTWAIT) <= 0;
  }
  [[nodiscard]] const std::string& received() const { return received_; }
  // Whether the server has ended TLS, so that nothing is missing behind what was read.
  [[nodiscard]] bool ended_tls() const {
    return (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  [[nodiscard]] SSL* tls() const { return tls_.get(); }

  // Reads one answer; what follows it stays for the next.
  HttpReplyText reply(bool has_body = true) {
    HttpReplyText reply;
    std::size_t head = std::string::npos;
    while ((head = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_some()) return reply;
    }
    std::size_t at = received_.find("\r\n");
    reply.status = std::atoi(received_.c_str() + 9);
    while (at < head) {
      const std::size_t begin = at + 2;
      at = received_.find("\r\n", begin);
      std::string name = received_.substr(begin, received_.find(':', begin) - begin);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::size_t value = begin + name.size() + 2;
      reply.headers[name] = received_.substr(value, at - value);
    }
    received_.erase(0, head + 4);
    if (reply.status == 100) return reply;
    if (!has_body) {
      reply.whole = true;
    } else if (reply.headers.contains("transfer-encoding")) {
      reply.whole = read_chunks(reply.body);
    } else if (reply.headers.contains("content-length")) {
      const auto bytes = std::stoull(reply.headers["content-length"]);
      while (received_.size() < bytes && read_some()) {
      }
      reply.whole = received_.size() >= bytes;
      reply.body = received_.substr(0, bytes);
      received_.erase(0, bytes);
    } else {
      reply.whole = ends();
      reply.body = std::exchange(received_, {});
    }
    return reply;
  }

 private:
  bool read_chunks(std::string& body) {
    while (true) {
      std::size_t line = std::string::npos;
      while ((line = received_.find("\r\n")) == std::string::npos) {
        if (!read_some()) return false;
      }
      const auto bytes = std::stoull(received_.substr(0, line), nullptr, 16);
      while (received_.size() < line + 4 + bytes) {
        if (!read_some()) return false;
      }
      body += received_.substr(line + 2, bytes);
      received_.erase(0, line + 4 + bytes);
      if (bytes == 0) return true;
    }
  }
  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  int socket_ = -1;
  std::unique_ptr<SSL, Free> tls_;
  bool connected_ = false;
  std::string received_;
};

inline std::string post_text(std::string_view path, std::string_view body,
                             std::string_view headers = {}) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

inline std::string get_text(std::string_view path, std::string_view headers = {}) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "\r\n";
}

inline HttpReplyText ask(std::uint16_t port, std::string_view text) {
  HttpClient client(port);
  client.send(text);
  return client.reply();
}

}  // namespace tandem::testing
