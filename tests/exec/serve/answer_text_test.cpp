// The text of answers, whatever the tokens that it comes in.

#include "exec/serve/answer_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec::answer_text_test {
namespace {

struct Told {
  std::string text;
  bool stopped = false;
  std::vector<std::string> parts;
};

Told told(const std::string& text, const std::vector<std::string>& stops) {
  const auto tokenizer = byte_tokenizer(256);
  AnswerText answer(*tokenizer, std::vector<std::int32_t>{'p'}, stops);
  Told all;
  for (const char byte : text) {
    all.parts.push_back(answer.push(static_cast<unsigned char>(byte)));
    all.text += all.parts.back();
    if (answer.stopped()) break;
  }
  all.stopped = answer.stopped();
  if (!all.stopped) all.text += answer.finish();
  return all;
}

TEST_CASE("exec/answer text: ends before a stop text, and keeps back what may begin one") {
  CHECK(told("hello", {}).text == "hello");
  CHECK(told("hello world", {"wor"}).text == "hello ");
  CHECK(told("hello world", {"wor"}).stopped);
  CHECK(told("ababac", {"abac"}).text == "ab");
  CHECK(told("aaab", {"aab"}).text == "a");
  CHECK(told("abcabd", {"abd", "bca"}).text == "a");
  CHECK_FALSE(told("hello wo", {"wor"}).stopped);
  CHECK(told("hello wo", {"wor"}).text == "hello wo");
  CHECK(told("stop", {"stop"}).text.empty());
  const Told kept = told("a\n\nb", {"\n\n\n"});
  CHECK(kept.parts == std::vector<std::string>{"a", "", "", "\n\nb"});
  // A character of several bytes comes whole.
  CHECK(told("\xc3\xa9!", {}).parts == std::vector<std::string>{"", "\xc3\xa9", "!"});
  CHECK(told("\xc3\xa9!", {"\xc3\xa9"}).stopped);
}

TEST_CASE("exec/answer text: random texts end where a search in the whole would end them") {
  std::mt19937 random(2);
  const auto draw = [&](std::size_t least, std::size_t most) {
    std::string text;
    for (std::size_t i = least + random() % (most - least + 1); i > 0; --i)
      text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::string text = draw(0, 12);
    std::vector<std::string> stops;
    for (std::size_t i = random() % 4; i > 0; --i) stops.push_back(draw(1, 4));
    // The stop text that is complete first ends the answer, where it begins first if several are.
    std::size_t end = text.size();
    bool stopped = false;
    for (std::size_t seen = 1; seen <= text.size() && !stopped; ++seen) {
      for (const std::string& stop : stops) {
        const std::size_t at = text.substr(0, seen).find(stop);
        if (at == std::string::npos) continue;
        end = stopped ? std::min(end, at) : at;
        stopped = true;
      }
    }
    CAPTURE(text);
    CAPTURE(stops.size());
    CHECK(told(text, stops).text == text.substr(0, end));
    CHECK(told(text, stops).stopped == stopped);
  }
}

}  // namespace
}  // namespace tandem::exec::answer_text_test
