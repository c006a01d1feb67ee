// Log-probabilities in OpenAI's shapes.

#include "serve/token_entry.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::test::token_entry_test {
namespace {

using nlohmann::json;

// Ids 0 to 255 are bytes, 256 has no text of its own.
TEST_CASE("serve/token entry: text, bytes and characters of whole, split and absent texts") {
  const auto tokenizer = exec::byte_tokenizer(300);
  const auto entry = [&](std::int32_t id, double logprob) {
    return serve::token_entry(*tokenizer,
                              {.chosen = {id, logprob}, .best = {{'a', -0.5}, {'b', -2.0}}});
  };
  const std::vector<serve::TokenEntry> entries{
      entry('x', -1.0), entry(0xc3, -0.25), entry(0xa9, -std::numeric_limits<double>::infinity())};
  CHECK(entries[0].chosen.text == "x");
  CHECK(entries[1].chosen.text == "bytes:\\xc3");
  CHECK(entries[1].chosen.bytes == "\xc3");
  CHECK(entries[2].chosen.logprob == -9999.0);
  CHECK(serve::characters_of(entries) == 2);  // "x" and U+00E9

  const json chat = json::parse(serve::chat_logprobs(entries).dump());
  CHECK(chat["refusal"].is_null());
  REQUIRE(chat["content"].size() == 3);
  CHECK(chat["content"][1]["bytes"] == json::array({0xc3}));
  CHECK(chat["content"][0]["logprob"] == -1.0);
  CHECK(chat["content"][0]["top_logprobs"] ==
        json::array({{{"token", "a"}, {"logprob", -0.5}, {"bytes", {97}}},
                     {{"token", "b"}, {"logprob", -2.0}, {"bytes", {98}}}}));

  const json text = json::parse(serve::text_logprobs(entries, 10).dump());
  CHECK(text["tokens"] == json::array({"x", "bytes:\\xc3", "bytes:\\xa9"}));
  CHECK(text["text_offset"] == json::array({10, 11, 12}));
  CHECK(text["token_logprobs"] == json::array({-1.0, -0.25, -9999.0}));
  // The token itself is among its alternatives.
  CHECK(text["top_logprobs"][0] == json({{"a", -0.5}, {"b", -2.0}, {"x", -1.0}}));
}

}  // namespace
}  // namespace tandem::test::token_entry_test
