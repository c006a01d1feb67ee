#include "serve/request_target.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tandem::test::request_target_test {
namespace {

TEST_CASE("serve/target: paths, absolute URIs and the server as a whole") {
  struct Case {
    std::string target;
    std::string path;
    std::string authority;
  };
  for (const Case& one : std::vector<Case>{{"/", "/", ""},
                                           {"/v1/models?x=1", "/v1/models", ""},
                                           {"/a#b", "/a", ""},
                                           {"*", "*", ""},
                                           {"http://localhost:8080/v1?x", "/v1", "localhost:8080"},
                                           {"HTTPS://box.lan", "/", "box.lan"},
                                           {"http://[::1]:1?x", "/", "[::1]:1"},
                                           {"http://a@localhost/", "/", "a@localhost"},
                                           {"//evil.example/x", "//evil.example/x", ""}}) {
    CAPTURE(one.target);
    const auto target = serve::parse_target(one.target);
    REQUIRE(target);
    CHECK(target->path == one.path);
    CHECK(target->authority == one.authority);
  }
  for (const char* const bad :
       {"", "v1/models", "localhost:80", "http://", "http:///x", "ftp://a/", "**", "http:/a"})
    CHECK_FALSE(serve::parse_target(bad));
}

}  // namespace
}  // namespace tandem::test::request_target_test
