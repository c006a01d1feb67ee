// The HTTP server against clients that are slow, broken, hostile or gone.

#include "serve/http_server.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/http_client.hpp"
#include "tests/serve/running_server.hpp"

namespace tandem::test::http_server_test {
namespace {

using testing::ask;
using testing::get_text;
using testing::HttpClient;
using testing::post_text;
using testing::Running;
using testing::TestHandler;
using Milliseconds = std::chrono::milliseconds;

TEST_CASE("serve/http: requests follow one another on a connection, in pieces of any size") {
  const Running running;
  HttpClient client(running.port());
  for (const std::string& body : {std::string("one"), std::string(), std::string(100'000, 'y')}) {
    client.send(post_text("/echo?x=1", body));
    const auto reply = client.reply();
    CHECK(reply.status == 200);
    CHECK(reply.body == body);
  }
  // Byte by byte.
  for (const char byte : post_text("/echo", "slow")) {
    client.send(std::string_view(&byte, 1));
    std::this_thread::sleep_for(Milliseconds(1));
  }
  CHECK(client.reply().body == "slow");
  // Two at once.
  client.send(post_text("/echo", "first") + post_text("/echo", "second"));
  CHECK(client.reply().body == "first");
  CHECK(client.reply().body == "second");
  client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
  CHECK(client.reply().body == "abc");
  client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.reply(/*has_body=*/false).status == 200);
  client.send(get_text("/echo", "Connection: close\r\n"));
  CHECK(client.reply().headers.at("connection") == "close");
  CHECK(client.ends());
}

TEST_CASE("serve/http: a stream's events come in order, to old clients until the end") {
  const Running running;
  HttpClient client(running.port());
  client.send(post_text("/events", "abc"));
  auto reply = client.reply();
  CHECK(reply.headers.at("content-type") == "text/event-stream");
  CHECK(reply.headers.at("transfer-encoding") == "chunked");
  CHECK(reply.whole);
  CHECK(reply.events() == std::vector<std::string>{"a", "b", "c"});
  client.send(post_text("/events", "d"));  // the connection goes on
  CHECK(client.reply().events() == std::vector<std::string>{"d"});
  reply = ask(running.port(), "POST /events HTTP/1.0\r\nContent-Length: 2\r\n\r\nab");
  CHECK_FALSE(reply.headers.contains("transfer-encoding"));
  CHECK(reply.events() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("serve/http: limits have answers of their own") {
  serve::HttpLimits limits{.header_bytes = 2000, .body_bytes = 1000};
  const Running running(limits);
  CHECK(ask(running.port(), post_text("/echo", std::string(1000, 'x'))).status == 200);
  CHECK(ask(running.port(), post_text("/echo", std::string(1001, 'x'))).status == 413);
  CHECK(ask(running.port(), get_text("/echo", "X: " + std::string(3000, 'x') + "\r\n")).status ==
        431);
  // Before the body has been sent.
  CHECK(ask(running.port(),
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n"
            "Expect: 100-continue\r\n\r\n")
            .status == 413);
  CHECK(ask(running.port(),
            "POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"
            "Expect: 100-continue\r\n\r\n")
            .status == 415);
  HttpClient expecting(running.port());
  expecting.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
      "Expect: 100-continue\r\n\r\n");
  CHECK(expecting.reply().status == 100);
  expecting.send("ok");
  CHECK(expecting.reply().body == "ok");
  CHECK(ask(running.port(),
            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            "fff\r\n" +
                std::string(4095, 'x') + "\r\n0\r\n\r\n")
            .status == 413);
  for (const char* const bad :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", "GET /echo HTTP/1.1\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}) {
    CAPTURE(bad);
    const int status = ask(running.port(), bad).status;
    CHECK((status == 400 || status == 505));
  }
}

TEST_CASE("serve/http: bodies in other codings, doubled headers and bad chunks have their status") {
  const Running running;
  const auto status = [&](const std::string& headers, const std::string& body = "0\r\n\r\n") {
    return ask(running.port(), "POST /echo HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body)
        .status;
  };
  const std::string chunked = "Transfer-Encoding: Chunked\r\n";
  for (const char* const coding : {"gzip, chunked", "gzip", "identity", "chunked, chunked", ""}) {
    CAPTURE(coding);
    CHECK(status("Transfer-Encoding: " + std::string(coding) + "\r\n") == 501);
  }
  CHECK(status("Transfer-Encoding: gzip\r\n" + chunked) == 501);
  CHECK(status(chunked) == 200);
  CHECK(status(chunked + "Content-Encoding: gzip\r\n") == 415);
  CHECK(status(chunked + "Content-Encoding: identity\r\n") == 200);
  CHECK(status(chunked + "Origin: http://localhost\r\nOrigin: http://a\r\n") == 400);
  CHECK(status(chunked + "Content-Type: text/plain\r\nContent-Type: a/b\r\n") == 400);
  for (const char* const body : {"xyz\r\n", "2\r\nabc\r\n0\r\n\r\n", "-1\r\n\r\n"}) {
    CAPTURE(body);
    CHECK(status(chunked, body) == 400);
  }
  CHECK(running.handler.handled == 2);
  // What cannot be read after a HEAD has an answer with a body.
  HttpClient client(running.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.reply(/*has_body=*/false).status == 200);
  client.send("nonsense\r\n\r\n");
  const auto reply = client.reply();
  CHECK(reply.status == 400);
  CHECK(reply.whole);
  CHECK_FALSE(reply.body.empty());
}

TEST_CASE("serve/http: slow and silent clients are closed, too many refused") {
  const Running running({.connections = 3,
                         .header_time = Milliseconds(200),
                         .body_time = Milliseconds(200),
                         .idle_time = Milliseconds(400)});
  HttpClient silent(running.port());
  HttpClient half(running.port());
  half.send("POST /echo HTTP/1.1\r\nHost:");
  HttpClient no_body(running.port());
  no_body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  REQUIRE(Running::soon([&] { return running.server.connections() == 3; }));
  const auto refused = HttpClient(running.port()).reply();
  CHECK(refused.status == 503);
  CHECK(silent.ends(Milliseconds(5000)));
  CHECK(half.ends(Milliseconds(5000)));
  CHECK(no_body.ends(Milliseconds(5000)));
  CHECK(running.handler.handled == 0);
  // And nobody else has been harmed.
  CHECK(ask(running.port(), post_text("/echo", "x")).body == "x");
}

TEST_CASE("serve/http: one connection too many gets its answer, whatever it sends") {
  const Running running({.connections = 1});
  HttpClient held(running.port());
  held.send(post_text("/held", "x"));
  REQUIRE(Running::soon([&] { return running.handler.handled == 1; }));
  for (int i = 0; i < 10; ++i) {
    const auto refused = ask(running.port(), post_text("/echo", std::string(1'000'000, 'x')));
    CHECK(refused.status == 503);
    CHECK(refused.whole);
  }
  held.close();
  REQUIRE(Running::soon([&] { return running.server.connections() == 0; }));
  CHECK(ask(running.port(), post_text("/echo", "x")).body == "x");
}

TEST_CASE("serve/http: a client that goes is noticed, while it waits and while it reads") {
  const Running running;
  {
    HttpClient waits(running.port());
    waits.send(post_text("/held", "x"));
    REQUIRE(Running::soon([&] { return running.handler.handled == 1; }));
  }
  CHECK(Running::soon([&] { return running.handler.gone == 1; }));
  {  // Its next request has come, too.
    HttpClient ahead(running.port());
    ahead.send(post_text("/held", "x") + post_text("/echo", "y") + post_text("/echo", "z"));
    REQUIRE(Running::soon([&] { return running.handler.handled == 2; }));
    ahead.send("more");
    std::this_thread::sleep_for(Milliseconds(50));
  }
  CHECK(Running::soon([&] { return running.handler.gone == 2; }));
  // One that reads nothing must not make the server remember everything.
  HttpClient slow(running.port(), 4096);
  slow.send(post_text("/endless", "x"));
  CHECK(Running::soon([&] { return running.handler.gone == 3; }));
  // A handler that forgets a request ends its connection.
  HttpClient forgotten(running.port());
  forgotten.send(post_text("/forgotten", "x"));
  CHECK(forgotten.ends());
  CHECK(Running::soon([&] { return running.server.connections() <= 1; }));
}

TEST_CASE("serve/http: mutated requests end in an answer or a closed connection") {
  const Running running({.header_time = Milliseconds(50), .body_time = Milliseconds(50)});
  const std::string good = post_text("/echo", "hello", "Expect: 100-continue\r\n");
  std::mt19937 random(4);
  for (int i = 0; i < 400; ++i) {
    std::string text = good;
    for (int k = 1 + i % 3; k > 0; --k) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 9);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 9));
          break;
      }
      if (text.empty()) text = "x";
    }
    HttpClient client(running.port());
    client.send(text);
    if (i % 4 == 0) continue;  // gone at once
    CAPTURE(text);
    CHECK((client.ends(Milliseconds(500)) || !client.received().empty()));
  }
  CHECK(ask(running.port(), post_text("/echo", "x")).body == "x");
}

TEST_CASE("serve/http: a port in use is one clear error") {
  TestHandler handler;
  const serve::HttpServer first({.host = "127.0.0.1", .port = 0}, handler);
  CHECK_THROWS_WITH(serve::HttpServer(first.endpoint(), handler),
                    doctest::Contains("expected a free port"));
}

}  // namespace
}  // namespace tandem::test::http_server_test
