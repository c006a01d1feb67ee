// Requests served in steps: policies, chunks, capacity; predicted by the analytic evaluator.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::serving_test {
namespace {

using planner::Capacity;
using planner::InferenceRequest;
using planner::RequestScheduler;

std::vector<InferenceRequest> requests_of(
    const std::vector<std::tuple<double, std::int64_t, std::int64_t>>& lengths) {
  std::vector<InferenceRequest> requests;
  for (const auto& [arrival, prompt, tokens] : lengths) {
    requests.push_back({.id = std::string("r").append(std::to_string(requests.size())),
                        .arrival_s = arrival,
                        .prompt_tokens = prompt,
                        .new_tokens = tokens});
  }
  return requests;
}

planner::Plan two_devices() {
  return plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}});
}

model::RunRecorder predicted(const planner::Plan& plan, model::Scheduler& scheduler) {
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder;
}

TEST_CASE("planner/serving: one request has the times of a generation") {
  for (const char* const strategy : {"local", "tensor", "pipeline"}) {
    CAPTURE(strategy);
    planner::Plan plan = two_devices();
    if (std::string_view(strategy) == "local")
      plan = plan_of("local", {}, 0, {.heads = {4}, .columns = {6}});
    if (std::string_view(strategy) == "pipeline") {
      plan.strategy = "pipeline";
      plan.partition = "given";
      plan.allreduce = {};
      plan.layout = {};
      plan.devices[0].share = {{0, 1}, {0, 4}, {0, 6}, true, true};
      plan.devices[1].share = {{1, 2}, {0, 4}, {0, 6}, false, false};
      plan.validate();
    }
    plan.workload = {.prompt_tokens = 7, .new_tokens = 9};
    planner::GenerationSteps steps(plan);
    model::RunRecorder generation(plan.cluster, plan.master, false);
    model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, generation);
    for (const planner::Policy& policy : planner::policies()) {
      if (!planner::serves(policy, 0)) continue;
      CAPTURE(policy.name);
      const auto requests = requests_of({{0.0, 7, 9}});
      RequestScheduler scheduler(requests, policy,
                                 {.capacity = planner::wanted_capacity(requests, policy, 0)});
      const model::RunRecorder recorder = predicted(plan, scheduler);
      model::Result result;
      planner::fill_requests(requests, recorder.served(), result);
      const std::vector<double> expected = generation.metrics().token_times_s;
      REQUIRE(result.metrics.token_times_s.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(result.metrics.token_times_s[i] == doctest::Approx(expected[i]).epsilon(1e-12));
      CHECK(result.requests[0].ttft_s == doctest::Approx(expected[0]).epsilon(1e-12));
      CHECK(recorder.devices()[0].bytes_sent == generation.devices()[0].bytes_sent);
    }
  }
}

// What must hold of any schedule, whatever the policy.
void check_schedule(const std::vector<InferenceRequest>& requests, const Capacity& capacity,
                    std::int64_t chunk, bool several, const model::RunRecorder& recorder) {
  std::map<std::int32_t, std::int64_t> read;
  std::map<std::int32_t, std::int64_t> sampled;
  std::map<std::int32_t, double> known;  // outcome of the sequence's last step
  std::vector<double> outcomes;
  double before = 0.0;
  for (const model::ServedStep& served : recorder.served()) {
    const model::ScheduledStep& step = served.step;
    const auto flying =
        std::ranges::count_if(outcomes, [&](double end) { return end > step.not_before_s; });
    CHECK(flying < std::max<std::int64_t>(1, capacity.steps));
    CHECK(step.ended >= static_cast<std::int32_t>(std::ssize(outcomes) - flying));
    outcomes.push_back(served.sampled_s.empty() ? served.end_s : served.sampled_s.back());
    for (const model::Segment& s : step.batch.segments) {
      CHECK(step.not_before_s >= known[s.sequence]);
      // The chunks of a prompt do not wait for each other.
      if (s.sampled > 0) known[s.sequence] = outcomes.back();
    }
    CHECK(static_cast<std::int64_t>(step.batch.segments.size()) <= planner::in_a_step(capacity));
    CHECK(step.not_before_s >= before);
    before = step.not_before_s;
    CHECK(step.batch.rows() <= capacity.rows);
    CHECK(static_cast<std::int64_t>(step.batch.segments.size()) <= capacity.sequences);
    if (!several) CHECK(step.batch.segments.size() == 1);
    std::int64_t prompt_rows = 0;
    for (const model::Segment& s : step.batch.segments) {
      const InferenceRequest& request = requests.at(static_cast<std::size_t>(s.sequence));
      CHECK(step.not_before_s >= request.arrival_s);
      CHECK(s.past == read[s.sequence]);
      if (s.past < request.prompt_tokens) prompt_rows += s.rows;
      if (s.past >= request.prompt_tokens) CHECK(s.rows == 1);
      read[s.sequence] += s.rows;
      sampled[s.sequence] += s.sampled;
      CHECK(s.sampled == (read[s.sequence] >= request.prompt_tokens ? 1 : 0));
      if (chunk == 0 && s.past == 0) CHECK(s.rows == request.prompt_tokens);
    }
    if (chunk > 0) CHECK(prompt_rows <= chunk);
    std::int64_t positions = 0;
    for (const auto& [sequence, length] : read) {
      const InferenceRequest& request = requests[static_cast<std::size_t>(sequence)];
      if (length < request.positions() || known[sequence] > step.not_before_s)
        positions += planner::reserved_positions(length);
    }
    CHECK(positions <= capacity.positions);
  }
  for (std::size_t r = 0; r < requests.size(); ++r) {
    CHECK(read[static_cast<std::int32_t>(r)] == requests[r].positions());
    CHECK(sampled[static_cast<std::int32_t>(r)] == requests[r].new_tokens);
  }
}

TEST_CASE("planner/serving: random workloads are served whole, within the capacity") {
  std::mt19937 random(7);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 120; ++round) {
    const planner::Plan plan = round % 2 == 0 ? two_devices() : pipeline_of(draw(2, 4));
    std::vector<std::tuple<double, std::int64_t, std::int64_t>> lengths;
    double arrival = 0.0;
    for (int i = draw(1, 7); i > 0; --i) {
      lengths.emplace_back(arrival, draw(1, 30), draw(1, 12));
      if (draw(0, 2) > 0) arrival += draw(0, 50) * 1e-3;
    }
    const auto requests = requests_of(lengths);
    const std::int64_t chunk = draw(0, 1) == 0 ? 0 : draw(1, 9);
    for (const planner::Policy& policy : planner::policies()) {
      if (!planner::serves(policy, chunk)) continue;
      CAPTURE(round);
      CAPTURE(policy.name);
      CAPTURE(chunk);
      Capacity capacity = planner::wanted_capacity(requests, policy, chunk, draw(1, 4));
      if (draw(0, 1) == 0) {  // less than it would use
        const Capacity least = planner::least_capacity(requests, chunk);
        capacity.positions = std::max(least.positions, capacity.positions / 2);
        capacity.sequences = std::max<std::int64_t>(1, capacity.sequences / 2);
        capacity.rows = least.rows + capacity.sequences - 1;
      }
      RequestScheduler scheduler(requests, policy, {.chunk = chunk, .capacity = capacity});
      const model::RunRecorder recorder = predicted(plan, scheduler);
      check_schedule(requests, capacity, chunk, policy.several(), recorder);
      const auto results = planner::request_results(requests, recorder.served());
      for (const model::RequestResult& result : results) {
        CHECK(result.ttft_s > 0.0);
        CHECK(result.queueing_s <= result.ttft_s);
        CHECK(result.end_s >= (result.arrival_s + result.ttft_s) * (1.0 - 1e-12));
      }
      // The recorded steps give the same times again.
      std::vector<model::ScheduledStep> steps;
      for (const model::ServedStep& served : recorder.served()) steps.push_back(served.step);
      model::RecordedScheduler recorded(steps);
      const model::RunRecorder again = predicted(plan, recorded);
      for (std::size_t s = 0; s < steps.size(); ++s)
        CHECK(again.served()[s].sampled_s == recorder.served()[s].sampled_s);
    }
  }
}

TEST_CASE("planner/serving: when requests begin, by policy") {
  const planner::Plan plan = two_devices();
  // The second arrives while the first is served, the third long after both.
  const auto requests = requests_of({{0.0, 8, 20}, {0.05, 8, 20}, {1e4, 8, 2}});
  std::map<std::string_view, std::vector<model::RequestResult>> by_policy;
  for (const planner::Policy& policy : planner::policies()) {
    if (!planner::serves(policy, 0)) continue;
    RequestScheduler scheduler(requests, policy,
                               {.capacity = planner::wanted_capacity(requests, policy, 0)});
    by_policy[policy.name] =
        planner::request_results(requests, predicted(plan, scheduler).served());
  }
  const auto& sequential = by_policy["sequential"];
  CHECK(sequential[1].arrival_s + sequential[1].queueing_s == doctest::Approx(sequential[0].end_s));
  CHECK(sequential[2].queueing_s == 0.0);
  const auto& all = by_policy["static"];
  for (const model::RequestResult& result : all)
    CHECK(result.arrival_s + result.queueing_s == doctest::Approx(1e4));
  const auto& continuous = by_policy["continuous"];
  CHECK(continuous[1].arrival_s + continuous[1].queueing_s < sequential[0].end_s);
  CHECK(continuous[1].end_s < sequential[1].end_s);
  CHECK(continuous[2].queueing_s == 0.0);
}

TEST_CASE("planner/serving: steps that were made are replayed at the same times") {
  const planner::Plan plan = two_devices();
  // Rows for one prompt beside decoding: a static batch waits for the last of its requests, but
  // reads the first one's prompt alone.
  const auto requests = requests_of({{0.0, 4, 3}, {0.5, 4, 2}, {2.0, 4, 2}});
  for (const planner::Policy& policy : planner::policies()) {
    for (const std::int64_t chunk : {0, 3}) {
      if (!planner::serves(policy, chunk)) continue;
      CAPTURE(policy.name);
      CAPTURE(chunk);
      RequestScheduler scheduler(
          requests, policy,
          {.chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk)});
      model::Result made;
      planner::fill_requests(requests, predicted(plan, scheduler).served(), made);
      // A file of the schedule does not say what is freed when.
      model::Result written = made;
      for (model::ScheduledStep& step : written.schedule) step.batch.cache.clear();
      const auto steps = planner::replayed_steps(written.schedule, requests, plan.model, "r.json");
      REQUIRE(steps.size() == made.schedule.size());
      for (std::size_t s = 0; s < steps.size(); ++s)
        CHECK(steps[s].batch == made.schedule[s].batch);
      model::RecordedScheduler again(steps);
      model::Result replayed;
      planner::fill_requests(requests, predicted(plan, again).served(), replayed);
      for (std::size_t r = 0; r < requests.size(); ++r) {
        CHECK(replayed.requests[r].queueing_s == doctest::Approx(made.requests[r].queueing_s));
        CHECK(replayed.requests[r].ttft_s == doctest::Approx(made.requests[r].ttft_s));
        CHECK(replayed.requests[r].end_s == doctest::Approx(made.requests[r].end_s));
      }
      // Of a request that no step has, a replay knows no times.
      const auto one_more = requests_of({{0.0, 4, 3}, {0.5, 4, 2}, {2.0, 4, 2}, {3.0, 4, 2}});
      CHECK_THROWS_WITH_AS(
          (void)planner::replayed_steps(made.schedule, one_more, plan.model, "r.json"),
          doctest::Contains("no rows of request 'r3'"), Error);
    }
  }
}

TEST_CASE("planner/serving: what no run has made is not replayed, but refused by name") {
  const planner::Plan plan = two_devices();
  const auto requests = requests_of({{0.0, 4, 3}, {0.5, 4, 2}});
  RequestScheduler scheduler(
      requests, planner::find_policy("continuous"),
      {.chunk = 3,
       .capacity = planner::wanted_capacity(requests, planner::find_policy("continuous"), 3)});
  model::Result made;
  planner::fill_requests(requests, predicted(plan, scheduler).served(), made);
  const std::vector<model::ScheduledStep> good = made.schedule;
  REQUIRE_NOTHROW((void)planner::replayed_steps(good, requests, plan.model, "r.json"));
  using Steps = std::vector<model::ScheduledStep>;
  using Requests = std::vector<InferenceRequest>;
  const std::vector<std::pair<std::function<void(Steps&, Requests&)>, std::string>> cases{
      {[](Steps&, Requests& r) { std::swap(r[0].arrival_s, r[1].arrival_s); },
       "field 'requests[1].arrival_s' is 0.000000, expected at least 0.5"},
      {[](Steps&, Requests& r) { r[1].id = r[0].id; }, "field 'requests[1].id'"},
      {[](Steps& s, Requests&) { s.back().not_before_s = 0.0; }, ".not_before_s' is 0.000000"},
      {[](Steps& s, Requests&) { s.back().not_before_s = 1e300; }, "and at most 1000000000"},
      {[](Steps&, Requests& r) { r[0].arrival_s = r[1].arrival_s = 0.2; },
       "field 'schedule[0].not_before_s' is 0.000000, expected 0.2"},
      {[](Steps& s, Requests&) { s.back().batch.segments.back().sampled = 0; },
       "1 rows of sequence 1, 0 of them sampled, expected one row and one sample"},
      {[](Steps& s, Requests&) { s[0].batch.segments[0].sampled = 3; }, "3 of them sampled"},
      {[](Steps& s, Requests&) { s[0].batch.segments[0].sampled = 1; },
       "samples 4 rows of request 'r0', expected one for each of its 3 tokens"},
      {[](Steps& s, Requests&) { s.pop_back(); }, "samples 1 rows of request 'r1'"},
  };
  for (std::size_t c = 0; c < cases.size(); ++c) {
    CAPTURE(c);
    Steps steps = good;
    Requests own = requests;
    cases[c].first(steps, own);
    CHECK_THROWS_WITH_AS((void)planner::replayed_steps(steps, own, plan.model, "r.json"),
                         doctest::Contains(cases[c].second.c_str()), Error);
  }
}

TEST_CASE("planner/serving: steps in flight that were made are replayed at the same times") {
  std::mt19937 random(17);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 40; ++round) {
    const planner::Plan plan = pipeline_of(4);
    std::vector<std::tuple<double, std::int64_t, std::int64_t>> lengths;
    double arrival = 0.0;
    for (int i = draw(2, 8); i > 0; --i) {
      lengths.emplace_back(arrival, draw(1, 20), draw(1, 12));
      if (draw(0, 2) > 0) arrival += draw(0, 50) * 1e-3;
    }
    const auto requests = requests_of(lengths);
    for (const planner::Policy& policy : planner::policies()) {
      CAPTURE(round);
      CAPTURE(policy.name);
      const std::int64_t chunk = draw(0, 1) * 5;
      if (!planner::serves(policy, chunk)) continue;
      RequestScheduler scheduler(
          requests, policy,
          {.chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk, 4)});
      const model::RunRecorder first = predicted(plan, scheduler);
      model::Result made;
      planner::fill_requests(requests, first.served(), made);
      model::RecordedScheduler again(
          planner::replayed_steps(made.schedule, requests, plan.model, "r.json"));
      const model::RunRecorder second = predicted(plan, again);
      REQUIRE(second.served().size() == first.served().size());
      for (std::size_t s = 0; s < first.served().size(); ++s) {
        CHECK(second.served()[s].step == first.served()[s].step);
        CHECK(second.served()[s].sampled_s == first.served()[s].sampled_s);
      }
    }
  }
}

TEST_CASE("planner/serving: four steps in flight on four devices are three times as fast as one") {
  const planner::Plan plan = pipeline_of(4);
  const auto rate = [&](std::size_t sequences, std::int64_t steps) {
    const auto requests = requests_of(
        std::vector<std::tuple<double, std::int64_t, std::int64_t>>(sequences, {0.0, 1, 60}));
    const planner::Policy& policy = planner::find_policy("continuous");
    RequestScheduler scheduler(requests, policy,
                               {.capacity = planner::wanted_capacity(requests, policy, 0, steps)});
    model::Result result;
    planner::fill_requests(requests, predicted(plan, scheduler).served(), result);
    return *result.metrics.throughput_tokens_per_s;
  };
  const double one = rate(1, 4);
  CHECK(rate(4, 4) >= 3.0 * one);
  CHECK(rate(4, 4) <= 4.0 * one);
  CHECK(rate(2, 2) >= 1.7 * one);
  // The scheduler's sequences in one step at a time, as before.
  CHECK(rate(4, 1) < rate(4, 4));
}

TEST_CASE("planner/serving: a step has no more sequences than can be announced") {
  const auto requests =
      requests_of(std::vector<std::tuple<double, std::int64_t, std::int64_t>>(4200, {0.0, 1, 1}));
  for (const planner::Policy& policy : planner::policies()) {
    if (!planner::serves(policy, 0)) continue;
    CAPTURE(policy.name);
    CHECK(planner::wanted_capacity(requests, policy, 0).sequences <= planner::kMostSequences);
    // A plan may have been made by hand.
    RequestScheduler scheduler(
        requests, policy, {.capacity = {.rows = 9000, .positions = 1 << 20, .sequences = 9000}});
    std::size_t served = 0;
    std::vector<model::StepOutcome> ended;
    for (std::int32_t made = 0;; ++made) {
      const auto step = scheduler.next(0.0, ended).step;
      if (!step) break;
      CHECK(step->batch.segments.size() <= planner::kMostSequences);
      served += step->batch.segments.size();
      ended = {{.step = made, .tokens = {}}};
    }
    CHECK(served == requests.size());
  }
}

TEST_CASE("planner/serving: a request that does not fit alone is refused by name") {
  const auto requests = requests_of({{0.0, 30, 2}});
  CHECK_THROWS_WITH_AS(
      RequestScheduler(requests, planner::find_policy("continuous"),
                       {.capacity = {.rows = 20, .positions = 64, .sequences = 4}}),
      doctest::Contains("request 'r0': needs steps of 30 rows"), Error);
  // In chunks it does.
  CHECK_NOTHROW(
      RequestScheduler(requests, planner::find_policy("continuous"),
                       {.chunk = 8, .capacity = {.rows = 20, .positions = 64, .sequences = 4}}));
}

TEST_CASE("planner/serving: a token that ends a request makes room for the next") {
  const auto requests = requests_of({{0.0, 2, 10}, {0.0, 3, 10}});
  RequestScheduler scheduler(requests, planner::find_policy("sequential"),
                             {.capacity = planner::least_capacity(requests, 0),
                              .ends = [](std::size_t, std::int32_t token) { return token == 99; }});
  auto step = scheduler.next(0.0, {}).step;
  REQUIRE(step);
  const auto after = [&](double now, std::int32_t number, std::int32_t token) {
    const std::vector<model::StepOutcome> ended{{.step = number, .tokens = {token}}};
    return scheduler.next(now, ended).step;
  };
  step = after(1.0, 0, 5);
  REQUIRE(step);
  CHECK(step->batch.segments[0].sequence == 0);
  CHECK(step->batch.segments[0].past == 2);
  step = after(2.0, 1, 99);
  REQUIRE(step);
  CHECK(step->batch.segments[0].sequence == 1);
  CHECK(step->batch.segments[0].rows == 3);
  CHECK_FALSE(after(3.0, 2, 99));
  CHECK_FALSE(scheduler.has_requests());
}

TEST_CASE("planner/serving: requests are read from lines of JSON, by arrival") {
  const auto requests = planner::parse_requests(
      R"({"id": "late", "arrival_s": 2, "prompt_tokens": 4, "new_tokens": 3})"
      "\n \n"
      R"({"id": "b", "arrival_s": 0.5, "prompt_ids": [1, 2], "new_tokens": 3, "temperature": 0.5,)"
      R"( "top_p": 0.9, "seed": 7, "ignore_eos": true})"
      "\r\n"
      R"({"id": "text", "arrival_s": 0.5, "prompt": "once", "new_tokens": 1, "max_tokens": 9})",
      "w.jsonl");
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].id == "b");
  CHECK(requests[0].prompt_tokens == 2);
  CHECK(requests[0].sampling.temperature == 0.5);
  CHECK(requests[0].sampling.seed == 7);
  CHECK(requests[0].ignore_eos);
  CHECK(requests[1].prompt == "once");
  CHECK(requests[1].prompt_tokens == 0);
  CHECK(requests[1].new_tokens == 1);
  CHECK(requests[1].limit() == 9);
  CHECK(requests[0].limit() == 3);
  CHECK(requests[2].id == "late");
}

TEST_CASE("planner/serving: a bad workload gets one error that names line and field") {
  const std::string good = R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3})";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "no requests"},
      {"\n\n", "no requests"},
      {"nonsense", "w.jsonl, line 1"},
      {"nonsense", "expected a JSON object; correct it"},
      {good + "\n" + good, "line 2: field 'id' is \"a\", expected an id that no line before has"},
      {R"({"id": "", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3})", "expected a name"},
      {R"({"id": "a", "arrival_s": -1, "prompt_tokens": 4, "new_tokens": 3})", "arrival_s"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 0, "new_tokens": 3})", "prompt_tokens"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4})", "new_tokens"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 4, "max_tokens": 3})",
       "field 'max_tokens' is 3, expected an integer from 4 to"},
      {R"({"id": "a", "arrival_s": 0, "new_tokens": 4})", "exactly one of prompt"},
      {R"({"id": "a", "arrival_s": 0, "prompt": "x", "prompt_tokens": 4, "new_tokens": 4})",
       "exactly one of prompt"},
      {R"({"id": "a", "arrival_s": 0, "prompt_ids": [], "new_tokens": 4})", "at least one token"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "top_k": 4})", "top_k"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "top_p": 2})", "top_p"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "top_p": 0})",
       "expected above 0"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "top_p": 0.5})",
       "field 'top_p' is 0.5, expected 1 at temperature 0"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "min_p": 0.5})",
       "field 'min_p' is 0.5, expected 0 at temperature 0"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3,)"
       R"( "repetition_penalty": 0})",
       "expected above 0"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3,)"
       R"( "presence_penalty": 3})",
       "field 'presence_penalty' is 3"},
      {R"({"id": "a", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3, "seed": 7})",
       "field 'seed' is 7, expected 0 at temperature 0"},
      {R"({"id": "a", "id": "b", "arrival_s": 0, "prompt_tokens": 4, "new_tokens": 3})", "id"},
  };
  for (const auto& [text, part] : cases) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)planner::parse_requests(text, "w.jsonl"),
                         doctest::Contains(part.c_str()), Error);
  }
}

}  // namespace
}  // namespace tandem::test::serving_test
