// The HTTP server over TLS, against a client of OpenSSL that trusts its certificate alone.

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "model/base/error.hpp"
#include "serve/tls_context.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/running_server.hpp"
#include "tests/serve/self_signed.hpp"

namespace tandem::test::tls_test {
namespace {

using testing::get_text;
using testing::HttpClient;
using testing::post_text;
using testing::Running;
using testing::SelfSigned;
using Milliseconds = std::chrono::milliseconds;

std::shared_ptr<boost::asio::ssl::context> context_of(const SelfSigned& identity) {
  return serve::tls_context({.certificate = identity.certificate,
                             .certificate_name = "server.pem",
                             .key = identity.key,
                             .key_name = "server.key"});
}

TEST_CASE("serve/tls: requests and streams, of versions 1.2 and 1.3 and no older") {
  const SelfSigned identity;
  const Running running({}, context_of(identity));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    CAPTURE(version);
    SSL_CTX_set_min_proto_version(identity.client.get(), version);
    SSL_CTX_set_max_proto_version(identity.client.get(), version);
    HttpClient client(running.port(), 0, identity.client.get());
    REQUIRE(client.connected());
    CHECK(SSL_get_verify_result(client.tls()) == X509_V_OK);
    CHECK(SSL_version(client.tls()) == version);
    for (const std::string& body : {std::string("one"), std::string(300'000, 'y')}) {
      client.send(post_text("/echo", body));
      CHECK(client.reply().body == body);
    }
    client.send(post_text("/events", "abc"));
    CHECK(client.reply().events() == std::vector<std::string>{"a", "b", "c"});
    client.send(post_text("/echo", "first") + post_text("/echo", "second"));
    CHECK(client.reply().body == "first");
    CHECK(client.reply().body == "second");
    // An answer that ends with the connection is known to be whole.
    client.send("POST /events HTTP/1.0\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nz");
    const auto old = client.reply();
    CHECK(old.events() == std::vector<std::string>{"z"});
    CHECK(client.ended_tls());
  }
  SSL_CTX_set_min_proto_version(identity.client.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(identity.client.get(), TLS1_1_VERSION);
  SSL_CTX_set_security_level(identity.client.get(), 0);
  CHECK_FALSE(HttpClient(running.port(), 0, identity.client.get()).connected());
}

TEST_CASE("serve/tls: refused requests are answered, and bodies that are not read lose nothing") {
  const SelfSigned identity;
  const Running running({.body_bytes = 1000}, context_of(identity));
  HttpClient client(running.port(), 0, identity.client.get());
  client.send(post_text("/echo", std::string(200'000, 'x')));
  CHECK(client.reply().status == 413);
  HttpClient other(running.port(), 0, identity.client.get());
  other.send(get_text("/refused"));
  CHECK(other.reply().status == 415);
  CHECK_FALSE(other.read_some());
  CHECK(other.ended_tls());
}

TEST_CASE("serve/tls: a client that goes is noticed while it is answered") {
  const SelfSigned identity;
  Running running({}, context_of(identity));
  {
    HttpClient client(running.port(), 0, identity.client.get());
    client.send(get_text("/held"));
    CHECK(Running::soon([&] { return running.handler.handled == 1; }));
  }
  CHECK(Running::soon([&] { return running.handler.gone == 1; }));
}

TEST_CASE("serve/tls: HTTP without TLS is answered so, and noise is closed") {
  const SelfSigned identity;
  const Running running({}, context_of(identity));
  HttpClient plain(running.port());
  plain.send(get_text("/echo"));
  const auto reply = plain.reply();
  CHECK(reply.status == 400);
  CHECK(reply.body == "expected HTTPS; ask for https://");
  HttpClient noise(running.port());
  noise.send(std::string(100, '\x7f'));
  CHECK(noise.ends());
}

TEST_CASE("serve/tls: slow handshakes count as connections, and end") {
  const SelfSigned identity;
  const Running running({.connections = 2, .handshake_time = Milliseconds(300)},
                        context_of(identity));
  HttpClient silent(running.port());
  HttpClient half(running.port());
  half.send(std::string_view("\x16\x03\x01\x02\x00\x01", 6));  // a record that does not go on
  HttpClient third(running.port(), 0, identity.client.get());
  REQUIRE(third.connected());
  CHECK(third.reply().status == 503);
  CHECK(silent.ends());
  CHECK(half.ends());
  CHECK(Running::soon([&] {
    HttpClient next(running.port(), 0, identity.client.get());
    next.send(get_text("/echo"));
    return next.reply().status == 200;
  }));
}

TEST_CASE("serve/tls: files that are not what they should be are named") {
  const SelfSigned identity;
  const SelfSigned other;
  const auto refused = [&](const std::string& certificate, const std::string& key,
                           const char* text) {
    CHECK_THROWS_WITH_AS((void)serve::tls_context({.certificate = certificate,
                                                   .certificate_name = "c.pem",
                                                   .key = key,
                                                   .key_name = "k.pem"}),
                         doctest::Contains(text), Error);
  };
  for (const std::string& bad : {std::string(), std::string("nonsense"), identity.key,
                                 identity.certificate.substr(0, identity.certificate.size() / 2)})
    refused(bad, identity.key, "c.pem: no certificate that can be used");
  for (const std::string& bad : {std::string(), std::string("nonsense"), identity.certificate,
                                 identity.key.substr(0, identity.key.size() / 2)})
    refused(identity.certificate, bad, "k.pem: no private key, expected one in PEM");
  refused(identity.certificate, identity.encrypted_key, "k.pem: encrypted");
  refused(identity.certificate, other.key,
          "k.pem: not the private key of the certificate in c.pem");
  CHECK_NOTHROW((void)context_of(identity));
}

}  // namespace
}  // namespace tandem::test::tls_test
