// POST /v1/plan: what clients ask the planner, and what they are answered.

#include "serve/plan_question.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "model/base/error.hpp"
#include "serve/api_request.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/service_bench.hpp"

namespace tandem::test::plan_question_test {
namespace {

using namespace tandem::testing;
using serve::PlanFound;
using serve::PlanQuestion;

constexpr const char* kPath = "/v1/plan";
const std::string kQuestion = R"({"without": ["b"], "prompt_tokens": 10, "new_tokens": 3})";

}  // namespace

TEST_CASE("serve/plan question: fields are read, and mistakes are named") {
  const PlanQuestion question = serve::parse_plan_question(
      R"({"without": ["a", "b"], "prompt_tokens": 10, "new_tokens": 3, "format": "q4_0"})");
  CHECK(question.without == std::vector<std::string>{"a", "b"});
  CHECK(question.prompt_tokens == 10);
  CHECK(question.new_tokens == 3);
  CHECK(question.format == "q4_0");
  CHECK(serve::parse_plan_question(R"({"prompt_tokens": 1, "new_tokens": 1})").without.empty());
  for (const char* const wrong :
       {"", "[]", "{}", R"({"prompt_tokens": 1})", R"({"prompt_tokens": 0, "new_tokens": 1})",
        R"({"prompt_tokens": 1.5, "new_tokens": 1})", R"({"prompt_tokens": "1", "new_tokens": 1})",
        R"({"prompt_tokens": 1, "new_tokens": 1e30})",
        R"({"prompt_tokens": 1, "new_tokens": 1, "without": "a"})",
        R"({"prompt_tokens": 1, "new_tokens": 1, "without": [1]})",
        R"({"prompt_tokens": 1, "new_tokens": 1, "without": ["a", "a"]})",
        R"({"prompt_tokens": 1, "new_tokens": 1, "format": 4})",
        R"({"prompt_tokens": 1, "new_tokens": 1, "devices": ["a"]})"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(static_cast<void>(serve::parse_plan_question(wrong)), serve::ApiError);
  }
}

TEST_CASE("serve/plan question: without a planner the answer states why") {
  const Home home;
  const Serving serving(home, 4, {}, {}, {}, 1024, 1U << 20U, false,
                        {.reason = "this build has no simulator"});
  const auto reply = ask(serving.port(), post_text(kPath, kQuestion));
  CHECK(reply.status == 501);
  CHECK(reply.body.find("this build has no simulator") != std::string::npos);
  CHECK(ask(serving.port(), get_text(kPath)).status == 405);
}

TEST_CASE("serve/plan question: an answer has the plan, its times and those of the service") {
  const Home home;
  std::optional<planner::Plan> plan;
  PlanQuestion asked;
  const serve::PlannerAccess planner{
      .ask =
          [&](const PlanQuestion& question) {
            asked = question;
            if (question.format == "q3") throw Error("'format': 'q3', expected another");
            PlanFound found{.plan = plan, .present_reason = "too long"};
            found.times = {.new_tokens = 3, .ttft_s = 2.0, .token_latency_s = 0.5};
            return found;
          },
      .interrupt = [] {}};
  const Serving serving(home, 4, {}, {}, {}, 1024, 1U << 20U, false, planner);
  plan = serving.service.plan;
  const json answer = ask(serving.port(), post_text(kPath, kQuestion)).json();
  CHECK(asked.without == std::vector<std::string>{"b"});
  CHECK(answer["question"]["prompt_tokens"] == 10);
  CHECK(answer["plan"]["strategy"] == "local");
  CHECK(answer["plan"]["devices"].size() == 1);
  CHECK(answer["plan"]["times"]["request_s"] == 3.0);  // 2 + 2 * 0.5
  CHECK(answer["present"].is_null());
  CHECK(answer["present_reason"] == "too long");
  CHECK(answer["reason"].is_null());
  const auto refused = ask(
      serving.port(), post_text(kPath, R"({"prompt_tokens": 1, "new_tokens": 1, "format": "q3"})"));
  CHECK(refused.status == 400);
  CHECK(refused.body.find("expected another") != std::string::npos);
}

// A search ends with the client that asked for it, and meanwhile answers go on.
TEST_CASE("serve/plan question: one at a time, and none for a client that has gone") {
  const Home home;
  std::promise<void> begun;
  std::promise<void> interrupted;
  std::atomic<int> searches = 0;
  std::atomic<int> interrupts = 0;
  const serve::PlannerAccess planner{.ask =
                                         [&](const PlanQuestion&) {
                                           if (searches++ == 0) {
                                             begun.set_value();
                                             interrupted.get_future().wait();
                                           }
                                           return PlanFound{.reason = "none"};
                                         },
                                     .interrupt =
                                         [&] {
                                           if (interrupts++ == 0) interrupted.set_value();
                                         }};
  const Serving serving(home, 4, {}, {}, {}, 1024, 1U << 20U, false, planner);
  {
    HttpClient first(serving.port());
    first.send(post_text(kPath, kQuestion));
    begun.get_future().wait();
    CHECK(ask(serving.port(), post_text(kPath, kQuestion)).status == 429);
    CHECK(ask(serving.port(), post_text(kText, completion(kPrompt, 2).dump())).status == 200);
    CHECK(interrupts == 0);
  }
  CHECK(serving.soon([&] { return interrupts == 1; }));
  CHECK(
      serving.soon([&] { return ask(serving.port(), post_text(kPath, kQuestion)).status == 200; }));
  CHECK(searches > 1);
}

}  // namespace tandem::test::plan_question_test
