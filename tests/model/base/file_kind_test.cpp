#include "model/base/file_kind.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::file_kind_test {

TEST_CASE("model/file kind: every kind is known by how it begins") {
  CHECK(kind_of_file("{\"schema\": \"tandem.plan/9\", \"model\": {\"model_type\": \"llama\"}}") ==
        kPlanKind);
  CHECK(kind_of_file("{\n  \"schema\": \"tandem.result/7\"") == kResultKind);
  CHECK(kind_of_file("{\"schema\": \"tandem.profile/3\"") == kProfileKind);
  CHECK(kind_of_file("{\"schema\": \"tandem.profiles/1\"") == kProfileKind);
  CHECK(kind_of_file("{\"traceEvents\": []}") == kTraceKind);
  CHECK(kind_of_file("{\"model_type\": \"llama\"}") == kConfigKind);
  CHECK(kind_of_file("{\"id\": \"a\", \"arrival_s\": 0}\n") == kWorkloadKind);
  CHECK(kind_of_file("<?xml version='1.0'?>\n<platform version=\"4.1\">") == kPlatformKind);
  CHECK(kind_of_file("# workers\n\nlaptop 10.0.0.2:7392 # fast\n") == kHostsKind);
  CHECK(kind_of_file("laptop\tlocal") == kHostsKind);
  CHECK(kind_of_file(std::string_view("GGUF\3\0\0\0", 8)) == "a GGUF file");
}

TEST_CASE("model/file kind: the outermost object of JSON decides, in any order of keys") {
  CHECK(kind_of_file("{\"profiles\": [{\"schema\": \"tandem.profile/3\", \"model_type\": 1}], "
                     "\"schema\": \"tandem.plan/7\"}") == kPlanKind);
  CHECK(kind_of_file("{\"model\": {\"model_type\": \"llama\"}, \"text\": \"tandem.plan/7\"}")
            .empty());
}

TEST_CASE("model/file kind: what is none of them is left to its parser") {
  for (const std::string text :
       {"", " ", "{", "{}", "[1]", "nonsense", "laptop here", "laptop 10.0.0.2:port", "laptop :80",
        "<html>", "a b c:1", "\xff\xfe", "#", "laptop \"a:1"}) {
    CAPTURE(text);
    CHECK(kind_of_file(text).empty());
    expect_kind(text, "f", kPlanKind);
  }
}

TEST_CASE("model/file kind: another kind than the wanted one is an error that names both") {
  expect_kind("laptop local", "hosts.txt", kHostsKind);
  CHECK(model::test::error_of([] { expect_kind("laptop local", "hosts.txt", kPlanKind); }) ==
        "hosts.txt: a list of hosts, expected a plan; check the path");
}

}  // namespace tandem::model::file_kind_test
