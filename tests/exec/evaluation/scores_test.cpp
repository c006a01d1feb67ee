// Probabilities, intervals and the files of questions.

#include "exec/evaluation/scores.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "exec/evaluation/questions.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::scores_test {
namespace {

using doctest::Approx;
using testing::error_of;
using testing::has;

TEST_CASE("exec/evaluation: a token's probability is the softmax of its logit") {
  SUBCASE("equal logits of 7 tokens: -log2 7 bits each, and the first is the choice") {
    const std::vector<float> logits(7, 0.25F);
    for (std::int32_t token = 0; token < 7; ++token) {
      const TokenScore score = score_token(logits, token);
      CHECK(score.log2_probability == Approx(-std::log2(7.0)).epsilon(1e-14));
      CHECK(score.first_choice == (token == 0));
    }
  }
  SUBCASE("logits 0 and ln 3: a quarter and three quarters") {
    const std::vector<float> logits{0.0F, static_cast<float>(std::log(3.0))};
    CHECK(score_token(logits, 0).log2_probability == Approx(-2.0).epsilon(1e-7));
    CHECK(score_token(logits, 1).log2_probability == Approx(std::log2(0.75)).epsilon(1e-7));
    CHECK(score_token(logits, 1).first_choice);
  }
  SUBCASE("logits far beyond what exp can hold") {
    const std::vector<float> logits{1e5F, -1e5F};
    CHECK(score_token(logits, 0).log2_probability == Approx(0.0));
    CHECK(score_token(logits, 1).log2_probability == Approx(-2e5 / std::log(2.0)));
  }
  SUBCASE("logits that are no numbers") {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {infinity, -infinity, std::nanf("")}) {
      const std::vector<float> logits{0.0F, bad, 1.0F};
      CHECK(has(error_of([&] { static_cast<void>(score_token(logits, 0)); }), "not a finite"));
    }
  }
}

TEST_CASE("exec/evaluation: bits add up, and one wrong token spoils an answer") {
  const PassageScores scores{{-1.5, true}, {-0.25, true}};
  CHECK(bits_of(scores) == 1.75);
  CHECK(all_first_choices(scores));
  CHECK_FALSE(all_first_choices({{-1.0, true}, {-0.1, false}}));
}

TEST_CASE("exec/evaluation: Wilson's interval") {
  SUBCASE("81 of 263 is 0.2553 to 0.3662 (Newcombe, Statistics in Medicine 17, 1998, table I)") {
    CHECK(wilson_interval(81, 263).low == Approx(0.2553).epsilon(2e-4));
    CHECK(wilson_interval(81, 263).high == Approx(0.3662).epsilon(2e-4));
  }
  SUBCASE("none of n: 0 to z^2 / (n + z^2)") {
    for (const std::int64_t n : {1, 2, 7, 100}) {
      const double z2 = 1.959963984540054 * 1.959963984540054;
      CHECK(wilson_interval(0, n).low == 0.0);
      CHECK(wilson_interval(0, n).high == Approx(z2 / (static_cast<double>(n) + z2)));
    }
  }
  SUBCASE("wrong answers mirror right ones, and the proportion lies within") {
    for (std::int64_t right = 0; right <= 11; ++right) {
      CAPTURE(right);
      const Interval interval = wilson_interval(right, 11);
      CHECK(interval.low == Approx(1.0 - wilson_interval(11 - right, 11).high));
      CHECK(interval.low <= static_cast<double>(right) / 11.0);
      CHECK(static_cast<double>(right) / 11.0 <= interval.high);
    }
  }
}

TEST_CASE("exec/evaluation: JSON Lines, one object a line") {
  const auto documents =
      parse_documents("{\"text\":\"a\"}\r\n\n  \n{\"text\":\"\\u00e9\",\"x\":[]}", "held.jsonl");
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].text == "a");
  CHECK(documents[1].text == "\xc3\xa9");
  CHECK(documents[1].line == 4);
  const auto questions =
      parse_questions("{\"answer\":\" B.\",\"prompt\":\"A\",\"distance\":64}\n", "recall.jsonl");
  REQUIRE(questions.size() == 1);
  CHECK(questions[0].distance == 64);
  CHECK(questions[0].prompt == "A");
  CHECK(questions[0].answer == " B.");
}

TEST_CASE("exec/evaluation: what is no question costs one error that names its line") {
  const std::string good = "{\"distance\":1,\"prompt\":\"p\",\"answer\":\"a\"}\n";
  struct Case {
    const char* line;
    const char* expected;
  };
  for (const Case& c :
       {Case{"[1]", "expected a JSON object"}, Case{"{\"text\":", "expected a JSON object"},
        Case{"{} {}", "expected a JSON object"}, Case{"{}", "distance: missing"},
        Case{"{\"text\":\"\xff\"}", "expected a JSON object"},
        Case{R"({"distance":-1})", "distance: -1"}, Case{R"({"distance":1.5})", "distance: 1.5"},
        Case{R"({"distance":99999999999999999999})", "distance: "},
        Case{R"({"distance":1,"answer":"a"})", "prompt: missing"},
        Case{R"({"distance":1,"prompt":7,"answer":"a"})", "prompt: no text"},
        Case{R"({"distance":1,"prompt":"p","answer":""})", "answer: no text"}}) {
    CAPTURE(c.line);
    const std::string error =
        error_of([&] { static_cast<void>(parse_questions(good + "\n" + c.line, "r.jsonl")); });
    CHECK(has(error, "r.jsonl:3: "));
    CHECK(has(error, c.expected));
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  CHECK(has(error_of([&] {
              static_cast<void>(parse_questions("{\"distance\":" + deep + "}", "r.jsonl"));
            }),
            "nested deeper"));
  for (const char* empty : {"", "\n", " \r\n\t"}) {
    CHECK(has(error_of([&] { static_cast<void>(parse_documents(empty, "h.jsonl")); }),
              "h.jsonl: empty"));
  }
  CHECK(has(error_of([&] { static_cast<void>(parse_documents("{\"text\":3}", "h.jsonl")); }),
            "h.jsonl:1: text: no text"));
}

TEST_CASE("exec/evaluation: every token of a document is scored but the first") {
  SUBCASE("which is the beginning of the sequence") {
    const auto bytes = byte_tokenizer(258, 257);
    const DocumentPassage made = passage_of(Document{"abc", 1}, *bytes, 8, "h");
    CHECK(made.passage.tokens == std::vector<std::int32_t>{257, 'a', 'b', 'c'});
    CHECK(made.passage.scored == 3);
    CHECK(made.bytes == 3);
  }
  SUBCASE("or given: its byte does not count") {
    const auto bytes = byte_tokenizer(256);
    const DocumentPassage made = passage_of(Document{"abc", 1}, *bytes, 8, "h");
    CHECK(made.passage.tokens == std::vector<std::int32_t>{'a', 'b', 'c'});
    CHECK(made.passage.scored == 2);
    CHECK(made.bytes == 2);
  }
  SUBCASE("and it must fit the context") {
    const auto bytes = byte_tokenizer(258, 257);
    CHECK(passage_of(Document{"1234567", 1}, *bytes, 8, "h").bytes == 7);
    const std::string error = error_of([&] {
      static_cast<void>(passage_of(Document{"12345678", 5}, *bytes, 8, "h.jsonl"));
    });
    CHECK(has(error, "h.jsonl:5: 9 tokens, expected at most the model's 8"));
    const auto plain = byte_tokenizer(256);
    CHECK(has(error_of([&] {
                static_cast<void>(passage_of(Document{"1", 5}, *plain, 8, "h"));
              }),
              "h:5: 1 tokens, expected at least 2"));
  }
}

TEST_CASE("exec/evaluation: of a question the answer is scored") {
  const auto bytes = byte_tokenizer(258, 257);
  const Question question{.distance = 2, .prompt = "ab", .answer = " cd", .line = 1};
  const Passage passage = passage_of(question, *bytes, 6, "r");
  CHECK(passage.tokens == std::vector<std::int32_t>{257, 'a', 'b', ' ', 'c', 'd'});
  CHECK(passage.scored == 3);
  CHECK(has(error_of([&] { static_cast<void>(passage_of(question, *bytes, 5, "r.jsonl")); }),
            "r.jsonl:1: 6 tokens"));
}

}  // namespace
}  // namespace tandem::exec::scores_test
