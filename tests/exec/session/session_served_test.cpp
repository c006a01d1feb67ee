// Many requests served by master and workers as real processes: every request gets the tokens that
// it gets alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "exec/compute/shortlist.hpp"
#include "exec/session/request_serving.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/serving/request_capacity.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/stage_ring.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/device_runs.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_served_test {
namespace {

using planner::InferenceRequest;
using testing::TemporaryFolder;
using testing::Workers;

constexpr std::int64_t kMostPrompt = 14;
constexpr std::int64_t kMostTokens = 9;

struct Home {
  explicit Home(int workers, std::int64_t layers = 3,
                const model::Transformer& geometry = testing::eight_heads())
      : model(geometry), key(random_key()) {
    model.layers = layers;
    write_random_weights(model, 17, model::DType::f32, weights());
    processes = std::make_unique<Workers>(folder.path(), workers, key);
  }
  [[nodiscard]] std::filesystem::path weights() const { return folder.path() / "weights"; }

  [[nodiscard]] planner::Plan plan(const std::string& strategy, int devices) const {
    return testing::plan_for(model, strategy, devices, "equal", kMostPrompt, kMostTokens);
  }
  [[nodiscard]] Generation serve(planner::Plan plan, const std::vector<InferenceRequest>& requests,
                                 const planner::Policy& policy, std::int64_t chunk,
                                 const std::vector<std::int64_t>& stops = {},
                                 Pace pace = Pace::real, std::int64_t steps = 1,
                                 double dilation = 1.0) const {
    plan.capacity = planner::wanted_capacity(requests, policy, chunk, steps);
    GenerateOptions options;
    options.dilation = dilation;
    options.keep_spans = true;
    options.weights = weights();
    options.cache_dir = folder.path() / "cache-0";
    options.workers = processes->endpoints();
    options.key = key;
    options.stop_tokens = stops;
    options.pace = pace;
    options.serve =
        ServeOptions{.requests = requests, .policy = &policy, .chunk = chunk, .on_token = {}};
    Interrupt interrupt;
    return generate(plan, options, interrupt);
  }
  [[nodiscard]] std::vector<std::int32_t> alone(const InferenceRequest& request) const {
    planner::Plan local = plan("local", 1);
    local.workload = {.prompt_tokens = request.prompt_tokens, .new_tokens = request.new_tokens};
    testing::SerialExecutor serial(local, weights());
    std::vector<std::vector<float>> logits;
    return serial.generate(request.prompt_ids, static_cast<int>(request.new_tokens), logits);
  }

  TemporaryFolder folder;
  model::Transformer model;
  Key key;
  std::unique_ptr<Workers> processes;
};

std::vector<InferenceRequest> random_requests(std::mt19937& random, int count) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<InferenceRequest> requests;
  double arrival = 0.0;
  for (int i = 0; i < count; ++i) {
    InferenceRequest request{.id = std::string("r").append(std::to_string(i)),
                             .arrival_s = arrival,
                             .prompt_tokens = draw(1, kMostPrompt),
                             .new_tokens = draw(1, kMostTokens)};
    for (std::int64_t t = 0; t < request.prompt_tokens; ++t)
      request.prompt_ids.push_back(draw(0, 100));
    requests.push_back(std::move(request));
    if (draw(0, 1) == 1) arrival += draw(0, 3) * 1e-3;
  }
  return requests;
}

TEST_CASE("exec/session: every policy gives each request the tokens that it gets alone") {
  const Home home(2);
  testing::Sampled taken(4);
  std::mt19937 random(5);
  for (const auto& [strategy, devices] :
       std::vector<std::pair<std::string, int>>{{"local", 1},
                                                {"tensor", 2},
                                                {"tensor", 3},
                                                {"csps", 3},
                                                {"galaxy", 3},
                                                {"pipeline", 2},
                                                {"pipeline", 3}}) {
    const std::vector<InferenceRequest> requests = random_requests(random, 5);
    std::vector<std::vector<std::int32_t>> alone;
    for (const InferenceRequest& request : requests) alone.push_back(home.alone(request));
    for (const planner::Policy& policy : planner::policies()) {
      for (const auto& [chunk, steps] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {0, 1}, {4, 1}, {0, 2}, {4, 3}, {0, 4}}) {
        if (steps > 1 && strategy != "pipeline") continue;
        if (!planner::serves(policy, chunk) || !taken()) continue;
        CAPTURE(steps);
        CAPTURE(strategy);
        CAPTURE(devices);
        CAPTURE(policy.name);
        CAPTURE(chunk);
        const Generation served = home.serve(home.plan(strategy, devices), requests, policy, chunk,
                                             {}, Pace::real, steps);
        const std::vector<model::RequestResult>& results = served.run.result.requests;
        REQUIRE(results.size() == requests.size());
        for (std::size_t r = 0; r < results.size(); ++r) {
          CAPTURE(r);
          CHECK(results[r].tokens == alone[r]);
          CHECK(results[r].ttft_s > 0.0);
          CHECK(results[r].end_s >= results[r].arrival_s + results[r].ttft_s - 1e-9);
        }
        // The steps that were made can be replayed.
        CHECK_NOTHROW((void)planner::replayed_steps(served.run.result.schedule, requests,
                                                    home.model, "result"));
        CHECK(
            model::parse_result_json(model::to_json(served.run.result), "result").schedule.size() ==
            served.run.result.schedule.size());
      }
    }
  }
}

TEST_CASE("exec/session: a cache on several devices beside short requests gives their tokens") {
  model::Transformer geometry = testing::eight_heads();
  geometry.max_context = 1024;
  const Home home(2, 3, geometry);
  testing::Sampled taken(2);
  std::mt19937 random(11);
  const auto request = [&](const char* id, std::int64_t prompt, std::int64_t tokens) {
    InferenceRequest one{.id = id, .prompt_tokens = prompt, .new_tokens = tokens};
    for (std::int64_t t = 0; t < prompt; ++t)
      one.prompt_ids.push_back(std::uniform_int_distribution<std::int32_t>(0, 100)(random));
    return one;
  };
  const std::vector<InferenceRequest> requests{request("long", 410, 9), request("a", 12, 9),
                                               request("b", 70, 4),     request("c", 5, 12),
                                               request("next", 380, 5), request("d", 30, 6)};
  std::vector<std::vector<std::int32_t>> alone;
  for (const InferenceRequest& one : requests) alone.push_back(home.alone(one));
  for (const int devices : {2, 3}) {
    planner::Plan plan = testing::plan_for(home.model, "spread", devices, "equal", 60, 9);
    for (const planner::Policy& policy : planner::policies()) {
      for (const std::int64_t chunk : {0, 50, 128}) {
        if (!planner::serves(policy, chunk) || !taken()) continue;
        CAPTURE(devices);
        CAPTURE(policy.name);
        CAPTURE(chunk);
        const Generation served = home.serve(plan, requests, policy, chunk);
        const std::vector<model::RequestResult>& results = served.run.result.requests;
        REQUIRE(results.size() == requests.size());
        for (std::size_t r = 0; r < results.size(); ++r) {
          CAPTURE(r);
          CHECK(results[r].tokens == alone[r]);
        }
        plan.capacity = planner::wanted_capacity(requests, policy, chunk, 1);
        const std::vector<model::ScheduledStep> steps =
            planner::replayed_steps(served.run.result.schedule, requests, home.model, "result");
        planner::ScheduledSteps scheduled(plan, steps);
        const std::vector<double> sent = testing::predicted_bytes(plan, scheduled);
        bool partitioned = false;
        for (const model::ScheduledStep& step : steps) {
          for (const model::Place& place : step.batch.places)
            partitioned = partitioned || place.partitioned > 0;
        }
        CHECK(partitioned);
        for (std::size_t d = 0; d < sent.size(); ++d) {
          CAPTURE(d);
          CHECK(served.run.result.devices[d].bytes_sent == sent[d]);
        }
        const std::vector<model::ScheduledStep> again =
            model::parse_result_json(model::to_json(served.run.result), "result").schedule;
        REQUIRE(again.size() == steps.size());
        for (std::size_t s = 0; s < steps.size(); ++s) {
          CHECK(again[s].batch.segments == steps[s].batch.segments);
          CHECK(again[s].batch.places == steps[s].batch.places);
        }
      }
    }
  }
}

TEST_CASE("exec/session: longrope rotates each request by its own length") {
  model::Transformer t = testing::eight_heads();
  // Some of the requests are longer, some shorter; what is reserved for all is more.
  t.rope_scaling = model::RopeScaling{.kind = model::RopeScaling::Kind::longrope,
                                      .original_context = 12,
                                      .short_factors = {1.0F, 1.1F, 1.2F},
                                      .long_factors = {2.0F, 5.0F, 9.0F}};
  const Home home(1, 3, t);
  std::mt19937 random(9);
  const std::vector<InferenceRequest> requests = random_requests(random, 6);
  const auto is_long = [&](const InferenceRequest& one) { return t.rotates_long(one.positions()); };
  REQUIRE(std::ranges::any_of(requests, is_long));
  REQUIRE(!std::ranges::all_of(requests, is_long));
  for (const auto& [strategy, devices, chunk, steps] :
       std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>>{
           {"local", 1, 0, 1}, {"tensor", 2, 4, 1}, {"pipeline", 2, 4, 2}}) {
    CAPTURE(strategy);
    const Generation served =
        home.serve(home.plan(strategy, devices), requests, planner::find_policy("continuous"),
                   chunk, {}, Pace::real, steps);
    REQUIRE(served.run.result.requests.size() == requests.size());
    for (std::size_t r = 0; r < requests.size(); ++r)
      CHECK(served.run.result.requests[r].tokens == home.alone(requests[r]));
  }
}

TEST_CASE("exec/session: rounds and groups give each request the tokens that it gets alone") {
  const Home home(2, 6);
  std::mt19937 random(21);
  const std::vector<InferenceRequest> requests = random_requests(random, 5);
  std::vector<std::vector<std::int32_t>> alone;
  for (const InferenceRequest& request : requests) alone.push_back(home.alone(request));
  const planner::Workload workload{.prompt_tokens = kMostPrompt, .new_tokens = kMostTokens};
  testing::Sampled taken(3);
  const auto check = [&](const planner::Plan& plan, std::int64_t chunk, std::int64_t steps) {
    CAPTURE(chunk);
    CAPTURE(steps);
    for (const char* const name : {"continuous", "recurrent"}) {
      if (!taken()) continue;
      CAPTURE(name);
      const Generation served =
          home.serve(plan, requests, planner::find_policy(name), chunk, {}, Pace::real, steps);
      REQUIRE(served.run.result.requests.size() == requests.size());
      for (std::size_t r = 0; r < requests.size(); ++r)
        CHECK(served.run.result.requests[r].tokens == alone[r]);
    }
  };
  for (const std::int64_t chunk : {0, 4}) {
    check(testing::stages_for(home.model, 3, workload, 2), chunk, 1);
    for (const std::int64_t steps : {1, 2}) {
      check(testing::stages_for(home.model, 3, workload, 1, "device-0/device-1,device-2"), chunk,
            steps);
      check(testing::stages_for(home.model, 3, workload, 1, "device-0,device-2/device-1"), chunk,
            steps);
      check(testing::stages_for(home.model, 3, workload, 1, "device-0/device-1,device-2", 0,
                                "galaxy"),
            chunk, steps);
    }
  }
}

// Emulated, so that two cores have time for four devices: what is compared are emulated times.
TEST_CASE("exec/session: four steps in flight on four devices are three times as fast as one") {
  const Home home(3, 4);
  std::mt19937 random(9);
  std::vector<InferenceRequest> requests = random_requests(random, 4);
  for (InferenceRequest& request : requests) {
    request.arrival_s = 0.0;
    request.new_tokens = kMostTokens;
  }
  planner::Plan plan = home.plan("pipeline", 4);
  // Each task takes some milliseconds, far more than this machine is late.
  for (model::DeviceProfile& profile : plan.profiles) {
    for (model::KindRate& rate : profile.rate) rate.overhead_s = 0.0;
    for (const model::TaskKind kind : {model::TaskKind::project_qkv, model::TaskKind::ffn_up})
      profile.rate[static_cast<std::size_t>(kind)].overhead_s = 10e-3;
  }
  const planner::Policy& policy = planner::find_policy("continuous");
  Generation four;
  double rate = 0.0;
  double alone = 0.0;
  // A machine that cannot compute the devices' tasks in their time is late in either run, and then
  // devices wait: the busier it is, the more slowly emulated time has to pass.
  for (const double dilation : {1.0, 8.0, 40.0}) {
    const auto throughput = [](const Generation& done) {
      return *done.run.result.metrics.throughput_tokens_per_s;
    };
    four = home.serve(plan, requests, policy, 0, {}, Pace::nominal, 4, dilation);
    rate = throughput(four);
    alone = throughput(home.serve(plan, {requests[0]}, policy, 0, {}, Pace::nominal, 1, dilation));
    if (rate >= 3.0 * alone && rate <= 4.05 * alone) break;
  }
  CHECK(rate >= 3.0 * alone);
  CHECK(rate <= 4.05 * alone);
  for (std::size_t r = 0; r < requests.size(); ++r)
    CHECK(four.run.result.requests[r].tokens == home.alone(requests[r]));
  // Every device works on several steps at once: on the next one while the master waits for this.
  std::size_t overlaps = 0;
  for (const model::ScheduledStep& step : four.run.result.schedule)
    overlaps +=
        step.ended + 3 == static_cast<std::int32_t>(&step - four.run.result.schedule.data());
  CHECK(overlaps > 20);
}

// Twelve points across the knee: rings of four stages, alike or with one that takes twice as long.
TEST_CASE("exec/session: samples that go round have the rate of the law, below and above the knee" *
          doctest::test_suite("long")) {
  const Home home(3, 4);
  const planner::Policy& policy = planner::find_policy("recurrent");
  for (const double slowest : {1.0, 2.0}) {
    planner::Plan plan = home.plan("pipeline", 4);
    for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
      for (model::KindRate& rate : plan.profiles[d].rate) rate.overhead_s = 0.0;
      // Far more than this machine is late, and as long for a prompt as for a token.
      plan.profiles[d].rate[static_cast<std::size_t>(model::TaskKind::ffn_up)].overhead_s =
          10e-3 * (d == 2 ? slowest : 1.0);
    }
    model::Ring ring = planner::ring_of(plan, 5);
    // Nobody emulates the plan's links here: messages go over this machine's loopback.
    for (model::RingStage& stage : ring.stages)
      stage.overhead_s = stage.wire_s = stage.latency_s = 0.0;
    ring.other = {};
    for (const std::int64_t samples : {1, 2, 3, 4, 5, 6}) {
      CAPTURE(slowest);
      CAPTURE(samples);
      const std::vector<InferenceRequest> requests = planner::samples_of(
          {.id = {}, .prompt_tokens = 1, .new_tokens = 6, .prompt_ids = {3}}, samples);
      const double law = model::token_period(ring, samples) * static_cast<double>(samples);
      double round = 0.0;
      // As above: the busier the machine, the more slowly emulated time has to pass.
      for (const double dilation : {2.0, 8.0, 40.0}) {
        const Generation done =
            home.serve(plan, requests, policy, 0, {}, Pace::nominal, planner::kMostSteps, dilation);
        // The first sample's, once the others have joined it.
        round = done.run.result.requests.front().token_latency.p50;
        if (std::abs(round - law) <= 0.03 * law) break;
      }
      CHECK(std::abs(round - law) <= 0.03 * law);
    }
    CHECK(model::least_samples(ring) == (slowest > 1.0 ? 3 : 4));
  }
}

TEST_CASE("exec/session: steps in flight end at once when a device is lost, or at an interrupt") {
  std::mt19937 random(12);
  std::vector<InferenceRequest> requests = random_requests(random, 6);
  for (InferenceRequest& request : requests) request.new_tokens = 400;
  for (const bool interrupted : {false, true}) {
    CAPTURE(interrupted);
    const Home home(2);
    planner::Plan plan = home.plan("pipeline", 3);
    for (InferenceRequest& request : requests) request.arrival_s = 0.0;
    plan.capacity = planner::wanted_capacity(requests, planner::find_policy("continuous"), 0, 3);
    GenerateOptions options;
    options.weights = home.weights();
    options.cache_dir = home.folder.path() / "cache-0";
    options.workers = home.processes->endpoints();
    options.key = home.key;
    Interrupt interrupt;
    int tokens = 0;
    options.serve = ServeOptions{.requests = requests,
                                 .policy = &planner::find_policy("continuous"),
                                 .chunk = 0,
                                 .on_token = [&](std::size_t, std::int32_t, bool) {
                                   if (++tokens != 40) return;
                                   if (interrupted) interrupt.trip("stopped by the test");
                                   if (!interrupted) kill(home.processes->pid(2), SIGKILL);
                                 }};
    const auto start = Clock::now();
    try {
      static_cast<void>(generate(plan, options, interrupt));
      FAIL("a run that lost a device must end");
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(what.find(interrupted ? "stopped by the test" : "device-2") != std::string::npos);
    }
    CHECK(testing::seconds_since(start) < 30.0);
    // The device that is left serves the next run.
    CHECK(home.processes->alive(1));
  }
}

// The latest arrival that a workload may have, where emulated time passes slowly: beyond what the
// clock can say.
TEST_CASE("exec/session: a request that arrives in the far future is waited for") {
  const ServeOptions options{.requests = {{.id = "late",
                                           .arrival_s = 1e9,
                                           .prompt_tokens = 1,
                                           .new_tokens = 1,
                                           .prompt_ids = {1}}},
                             .policy = &planner::find_policy("continuous"),
                             .on_token = {}};
  for (const double dilation : {1.0, 1000.0}) {
    CAPTURE(dilation);
    RequestServing serving(options, {}, {.rows = 1, .positions = 64, .sequences = 1}, dilation);
    const Clock::time_point begin = Clock::now();
    ServingHands hands;
    hands.wait_until = [&](Clock::time_point when, const std::string& what) {
      CHECK_FALSE(what.empty());
      CHECK(when - begin >= std::chrono::seconds(1'000'000'000));
      throw Error("as late as that");
    };
    CHECK(testing::error_of([&] { serving.run(begin, hands); }) == "as late as that");
  }
}

TEST_CASE("exec/session: the steps that are left are told from the tokens a step has made") {
  constexpr std::int32_t kStop = 1;
  std::vector<InferenceRequest> requests;
  for (const char* id : {"a", "b"})
    requests.push_back({.id = id, .prompt_tokens = 1, .new_tokens = 6, .prompt_ids = {1}});
  const ServeOptions options{
      .requests = requests, .policy = &planner::find_policy("continuous"), .on_token = {}};
  for (const bool stops : {false, true}) {
    CAPTURE(stops);
    RequestServing serving(options, {kStop}, {.rows = 4, .positions = 1024, .sequences = 2}, 1.0);
    std::vector<std::int64_t> left;
    ServingHands hands;
    hands.wait_until = [](Clock::time_point, const std::string&) {};
    hands.announce = [](std::int32_t, const model::Batch&, const std::vector<std::int32_t>&) {};
    hands.after_step = [](std::int32_t) {};
    hands.on_token = [](std::size_t, std::int32_t, bool) {};
    hands.await_finish = [](Clock::time_point) { return std::nullopt; };
    hands.execute = [&](std::int32_t step, const model::Batch& batch, std::span<const std::int32_t>,
                        const SampleToken& sample, Clock::time_point) {
      left.push_back(serving.steps_left());
      DeviceRun::Served served;
      for (std::size_t i = 0; i < batch.segments.size(); ++i) {
        // The second request's third token ends it.
        const bool last = stops && step == 2 && i == 1;
        const std::array<float, 2> logits{0.0F, last ? 1.0F : -1.0F};
        CHECK(sample(Scores(logits)) == (last ? kStop : 0));
        served.sampled_ns.push_back(step);
      }
      return std::optional(served);
    };
    serving.run(Clock::now(), hands);
    // Two requests of 6 tokens: 12 steps of a token each, as far as the first knows; then two a
    // step. With one of them at its end after three steps, 3 tokens at 2 a step, then 2 at 7 / 4
    // and 1 at 8 / 5.
    const std::vector<std::int64_t> expected = stops ? std::vector<std::int64_t>{12, 5, 4, 2, 2, 1}
                                                     : std::vector<std::int64_t>{12, 5, 4, 3, 2, 1};
    std::string told;
    for (const std::int64_t steps : left) told += std::to_string(steps) + " ";
    CAPTURE(told);
    CHECK(left == expected);
  }
}

TEST_CASE("exec/session: a request ends at a stop token unless it ignores them") {
  const Home home(1);
  std::mt19937 random(6);
  std::vector<InferenceRequest> requests = random_requests(random, 3);
  for (InferenceRequest& request : requests) request.new_tokens = kMostTokens;
  const std::vector<std::int32_t> first = home.alone(requests[0]);
  requests[2].prompt_ids = requests[0].prompt_ids;
  requests[2].prompt_tokens = requests[0].prompt_tokens;
  requests[2].ignore_eos = true;
  const Generation served = home.serve(home.plan("tensor", 2), requests,
                                       planner::find_policy("continuous"), 0, {first[3]});
  const auto stop = std::ranges::find(first, first[3]);
  CHECK(served.run.result.requests[0].tokens == std::vector<std::int32_t>(first.begin(), stop + 1));
  CHECK(served.run.result.requests[2].tokens == first);
}

TEST_CASE("exec/session: a request that arrives later is waited for") {
  const Home home(1);
  std::mt19937 random(8);
  std::vector<InferenceRequest> requests = random_requests(random, 2);
  requests[1].arrival_s = 0.6;
  // An emulated device must not take the time that it idles as time in which it could have begun.
  for (const Pace pace : {Pace::real, Pace::measured, Pace::nominal}) {
    CAPTURE(static_cast<int>(pace));
    const Generation served = home.serve(home.plan("tensor", 2), requests,
                                         planner::find_policy("continuous"), 0, {}, pace);
    const std::vector<model::RequestResult>& results = served.run.result.requests;
    CHECK(results[0].end_s < 0.6);
    CHECK(results[1].ttft_s > 0.0);
    CHECK(results[1].end_s > 0.6);
    CHECK(results[1].tokens == home.alone(requests[1]));
  }
}

}  // namespace
}  // namespace tandem::exec::session_served_test
