#include "model/base/word_list.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tandem::model::word_list_test {

using Words = std::vector<std::string>;

TEST_CASE("model/word list: parts have no blanks around them, and missing parts are empty") {
  CHECK(split_list("a,b") == Words{"a", "b"});
  CHECK(split_list(" laptop-1,  mini pc\t, b\n") == Words{"laptop-1", "mini pc", "b"});
  CHECK(split_list("a,,b,") == Words{"a", "", "b", ""});
  CHECK(split_list("") == Words{""});
  CHECK(split_list("   ") == Words{""});
  CHECK(split_list("a, b / c", '/') == Words{"a, b", "c"});
}

TEST_CASE(
    "model/word list: a guess ignores case, and completes a word before it replaces letters") {
  const std::vector<std::string_view> models{"gpt2", "llama-2-70b", "llama-3.1-70b", "llama-3.1-8b",
                                             "tandem-tiny"};
  CHECK(did_you_mean("tandem-tny", models) == ", did you mean 'tandem-tiny'?");
  CHECK(did_you_mean("LLAMA-3.1-70B", models) == ", did you mean 'llama-3.1-70b'?");
  CHECK(did_you_mean("llama3-70b", models) == ", did you mean 'llama-3.1-70b'?");
  CHECK(did_you_mean("llama270b", models) == ", did you mean 'llama-2-70b'?");
  CHECK(did_you_mean("gtp2", models) == ", did you mean 'gpt2'?");
  CHECK(did_you_mean("", models).empty());
  CHECK(did_you_mean("x", models).empty());
  CHECK(did_you_mean("mixtral-8x22b", models).empty());
  CHECK(did_you_mean("cores", {"id", "speed", "core"}) == ", did you mean 'core'?");
  CHECK(did_you_mean("a", {}).empty());
}

}  // namespace tandem::model::word_list_test
