// Who may ask the server.

#include "serve/access.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::test::access_test {
namespace {

TEST_CASE("serve/access: loopback and the listening host, whatever the port") {
  for (const auto& [header, own] :
       std::vector<std::pair<std::string, bool>>{{"localhost", true},
                                                 {"LocalHost:8080", true},
                                                 {"127.0.0.1:1", true},
                                                 {"127.8.9.10", true},
                                                 {"[::1]:8080", true},
                                                 {"box.lan:8080", true},
                                                 {"", false},
                                                 {"evil.example", false},
                                                 {"localhost.evil.example", false},
                                                 {"127.0.0.1.evil.example", false},
                                                 {"192.168.0.4", false},
                                                 {"[::1", false},
                                                 {"[::2]", false},
                                                 {"localhost:", true},
                                                 {"localhost:80a", false},
                                                 {"localhost@evil", false},
                                                 {" localhost", false}}) {
    CAPTURE(header);
    CHECK(serve::is_own_host(header, {.listening = "box.lan"}) == own);
  }
  for (const auto& [origin, own] :
       std::vector<std::pair<std::string, bool>>{{"http://localhost:3000", true},
                                                 {"https://[::1]", true},
                                                 {"null", false},
                                                 {"http://", false},
                                                 {"file://localhost", false},
                                                 {"http://evil.example", false},
                                                 {"http://localhost.evil.example:8080", false}}) {
    CAPTURE(origin);
    CHECK(serve::is_own_origin(origin, {.listening = "127.0.0.1"}) == own);
  }
}

TEST_CASE("serve/access: names that are allowed, and numbers where all addresses are listened on") {
  const serve::OwnHosts named{.listening = "192.168.0.4", .names = {"box.lan", "fd00::4"}};
  for (const char* const own :
       {"box.lan:8080", "BOX.lan", "192.168.0.4:1", "[fd00::4]:8080", "localhost"})
    CHECK(serve::is_own_host(own, named));
  for (const char* const foreign :
       {"192.168.0.5", "evil.example", "box.lan.evil.example", "x.box.lan"})
    CHECK_FALSE(serve::is_own_host(foreign, named));
  CHECK(serve::is_own_origin("https://box.lan:8080", named));
  for (const char* const all : {"0.0.0.0", "::"}) {
    CHECK(serve::is_own_host("10.1.2.3:8080", {.listening = all}));
    CHECK(serve::is_own_host("[fe80::1]:8080", {.listening = all}));
    CHECK_FALSE(serve::is_own_host("evil.example", {.listening = all}));
  }
}

TEST_CASE("serve/access: only JSON, only bearers of the token") {
  CHECK(serve::is_json("application/json"));
  CHECK(serve::is_json("Application/JSON ; charset=utf-8"));
  // What a web page may send without asking first.
  CHECK_FALSE(serve::is_json("text/plain"));
  CHECK_FALSE(serve::is_json("application/x-www-form-urlencoded"));
  CHECK_FALSE(serve::is_json("text/plain; application/json"));
  CHECK_FALSE(serve::is_json(""));
  CHECK(serve::bears("Bearer secret", "secret"));
  CHECK(serve::bears("bearer secret", "secret"));
  for (const char* const bad : {"", "secret", "Bearer", "Bearer ", "Bearer secret ",
                                "Bearer secreT", "Bearer secre", "Basic secret"})
    CHECK_FALSE(serve::bears(bad, "secret"));
  CHECK(serve::parse_token("0123456789abcdef\n", "t") == "0123456789abcdef");
  for (const char* const bad : {"", "short", "0123456789abcde\xc3\xa9", "01234567 89abcdef0"})
    CHECK_THROWS_WITH_AS((void)serve::parse_token(bad, "t"),
                         doctest::Contains("expected one line of 16 to 512"), Error);
}

}  // namespace
}  // namespace tandem::test::access_test
