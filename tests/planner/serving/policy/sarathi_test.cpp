// Policy sarathi: steps of a budget of rows, in which decoding comes first.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "planner/serving/request_scheduler.hpp"

namespace tandem::test::sarathi_test {
namespace {

using planner::Capacity;
using planner::InferenceRequest;
using planner::RequestScheduler;

struct Lengths {
  double arrival_s = 0.0;
  std::int64_t prompt = 1;
  std::int64_t tokens = 1;
};

std::vector<InferenceRequest> requests_of(const std::vector<Lengths>& lengths) {
  std::vector<InferenceRequest> requests;
  for (const Lengths& l : lengths) {
    requests.push_back({.id = std::string("r").append(std::to_string(requests.size())),
                        .arrival_s = l.arrival_s,
                        .prompt_tokens = l.prompt,
                        .new_tokens = l.tokens});
  }
  return requests;
}

// The steps, one after another, each of a second.
std::vector<model::ScheduledStep> steps_of(const std::vector<InferenceRequest>& requests,
                                           const std::string& policy, std::int64_t chunk,
                                           std::optional<Capacity> capacity = {}) {
  const planner::Policy& with = planner::find_policy(policy);
  RequestScheduler scheduler(
      requests, with,
      {.chunk = chunk,
       .capacity = capacity.value_or(planner::wanted_capacity(requests, with, chunk))});
  std::vector<model::ScheduledStep> steps;
  std::vector<model::StepOutcome> ended;
  double now = 0.0;
  while (true) {
    const model::Decision decision = scheduler.next(now, ended);
    ended.clear();
    if (!decision.step) {
      if (!(decision.until_s < 1e12)) return steps;
      now = decision.until_s;
      continue;
    }
    ended = {{.step = static_cast<std::int32_t>(steps.size()), .tokens = {}}};
    steps.push_back(*decision.step);
    now += 1.0;
  }
}

// Whether each step keeps to the policy: see the cases below.
void check_steps(const std::vector<InferenceRequest>& requests, std::int64_t budget,
                 const std::vector<model::ScheduledStep>& steps) {
  std::vector<std::int64_t> read(requests.size(), 0);
  for (const model::ScheduledStep& step : steps) {
    CHECK(step.batch.rows() <= budget);
    std::map<std::size_t, std::int64_t> rows;
    for (const model::Segment& s : step.batch.segments)
      rows[static_cast<std::size_t>(s.sequence)] = s.rows;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const InferenceRequest& request = requests[r];
      // Whoever decodes has a row in every step until it ends.
      if (read[r] >= request.prompt_tokens && read[r] < request.positions()) CHECK(rows[r] == 1);
      // A prompt is read when those before it have been, or are to their ends in the same step.
      if (read[r] < request.prompt_tokens && rows[r] > 0) {
        for (std::size_t before = 0; before < r; ++before)
          CHECK(read[before] + rows[before] >= requests[before].prompt_tokens);
      }
      read[r] += rows[r];
      CHECK(read[r] <= request.positions());
    }
    // Rows are left over only if no prompt waits for them.
    if (step.batch.rows() == budget) continue;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      if (requests[r].arrival_s <= step.not_before_s) CHECK(read[r] >= requests[r].prompt_tokens);
    }
  }
  for (std::size_t r = 0; r < requests.size(); ++r) CHECK(read[r] == requests[r].positions());
}

}  // namespace

TEST_CASE("planner/sarathi: budget kept, decoding never waits, prompts in order, no row idle") {
  std::mt19937 random(3);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<Lengths> lengths;
    double arrival = 0.0;
    for (int i = draw(1, 12); i > 0; --i) {
      lengths.push_back({arrival, draw(1, 40), draw(1, 12)});
      if (draw(0, 2) > 0) arrival += draw(0, 9);
    }
    const auto requests = requests_of(lengths);
    const std::int64_t budget = draw(1, 16);
    CAPTURE(round);
    CAPTURE(budget);
    check_steps(requests, budget, steps_of(requests, "sarathi", budget));
  }
}

TEST_CASE("planner/sarathi: a request alone takes ceil(P / N) + T - 1 steps") {
  for (const std::int64_t prompt : {1, 7, 8, 9, 40}) {
    for (const std::int64_t tokens : {1, 5}) {
      CAPTURE(prompt);
      CAPTURE(tokens);
      const auto steps = steps_of(requests_of({{0.0, prompt, tokens}}), "sarathi", 8);
      CHECK(std::ssize(steps) == (prompt + 7) / 8 + tokens - 1);
    }
  }
}

TEST_CASE("planner/sarathi: beside D that decode a prompt takes ceil(P / (N - D)) steps") {
  constexpr std::int64_t kBudget = 8;
  constexpr std::int64_t kPrompt = 45;
  for (const std::int64_t decoding : {1, 3, 7}) {
    CAPTURE(decoding);
    std::vector<Lengths> lengths(static_cast<std::size_t>(decoding), Lengths{0.0, 1, 100});
    lengths.push_back({10.0, kPrompt, 1});
    const auto requests = requests_of(lengths);
    const auto reading = [&](const std::string& policy) {
      return std::ranges::count_if(
          steps_of(requests, policy, kBudget), [&](const model::ScheduledStep& step) {
            return std::ranges::any_of(step.batch.segments, [&](const model::Segment& s) {
              return s.sequence == static_cast<std::int32_t>(decoding);
            });
          });
    };
    const std::int64_t left = kBudget - decoding;
    CHECK(reading("sarathi") == (kPrompt + left - 1) / left);
    // A chunk of continuous batching bounds rows of prompts alone.
    CHECK(reading("continuous") == (kPrompt + kBudget - 1) / kBudget);
  }
}

TEST_CASE("planner/sarathi: no more sequences at once than the budget has rows") {
  const auto requests = requests_of(std::vector<Lengths>(9, {0.0, 2, 6}));
  const planner::Policy& policy = planner::find_policy("sarathi");
  const Capacity wanted = planner::wanted_capacity(requests, policy, 4);
  CHECK(wanted.sequences == 4);
  CHECK(wanted.rows == 4);
  check_steps(requests, 4, steps_of(requests, "sarathi", 4));
  // Of each step in flight.
  CHECK(planner::wanted_capacity(requests, policy, 4, 2).sequences == 8);
  // A budget above the longest prompt is for as many prompts as fill it.
  CHECK(planner::wanted_capacity(requests, policy, 100).rows == 9 * 2 + 8);
  CHECK(planner::wanted_capacity(requests, policy, 11).rows == 11);
  CHECK(planner::wanted_capacity(requests, planner::find_policy("continuous"), 11).rows == 11 + 8);
  // A plan with less room in a step.
  Capacity less = wanted;
  less.rows = 5;
  less.sequences = 9;
  less.positions = 9 * 64;
  check_steps(requests, 5, steps_of(requests, "sarathi", 7, less));
}

TEST_CASE("planner/sarathi: steps of continuous with the same chunk are longer") {
  const auto requests = requests_of({{0.0, 30, 9}, {0.0, 20, 9}, {2.0, 25, 9}, {4.0, 9, 9}});
  const auto longest = [&](const std::string& policy) {
    std::int64_t rows = 0;
    for (const model::ScheduledStep& step : steps_of(requests, policy, 8))
      rows = std::max<std::int64_t>(rows, step.batch.rows());
    return rows;
  };
  CHECK(longest("sarathi") == 8);
  CHECK(longest("continuous") == 10);  // a chunk beside two that decode
}

TEST_CASE("planner/sarathi: without a budget there is no schedule") {
  const planner::Policy& policy = planner::find_policy("sarathi");
  CHECK(planner::serves(policy, 8));
  CHECK(!planner::serves(policy, 0));
  CHECK(planner::serves(planner::find_policy("continuous"), 0));
  const auto requests = requests_of({{0.0, 3, 2}});
  CHECK_THROWS_AS(
      RequestScheduler(requests, policy,
                       {.capacity = {.rows = 8, .positions = 64, .sequences = 1, .steps = 1}}),
      std::logic_error);
}

}  // namespace tandem::test::sarathi_test
