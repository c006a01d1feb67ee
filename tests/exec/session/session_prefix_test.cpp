// Requests that share the caches of common prefixes, served by master and workers as real
// processes: every request gets the tokens that it gets alone, and reads only what is new.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/session/request_source.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/request_capacity.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_prefix_test {
namespace {

using planner::InferenceRequest;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kMostPrompt = 170;
constexpr std::int64_t kMostTokens = 9;

struct Home {
  explicit Home(int workers) : model(testing::eight_heads()), key(random_key()) {
    model.layers = 3;
    model.max_context = 256;
    write_random_weights(model, 17, model::DType::f32, weights());
    processes = std::make_unique<testing::Workers>(folder.path(), workers, key);
  }
  [[nodiscard]] std::filesystem::path weights() const { return folder.path() / "weights"; }
  [[nodiscard]] planner::Plan plan(const std::string& strategy, int devices) const {
    return testing::plan_for(model, strategy, devices, "equal", kMostPrompt, kMostTokens);
  }
  [[nodiscard]] GenerateOptions options() const {
    GenerateOptions options;
    options.weights = weights();
    options.cache_dir = folder.path() / "cache-0";
    options.workers = processes->endpoints();
    options.key = key;
    return options;
  }
  [[nodiscard]] Tokens alone(const Tokens& prompt, std::int64_t tokens) const {
    planner::Plan local = plan("local", 1);
    local.workload = {.prompt_tokens = std::ssize(prompt), .new_tokens = tokens};
    testing::SerialExecutor serial(local, weights());
    std::vector<std::vector<float>> logits;
    return serial.generate(prompt, static_cast<int>(tokens), logits);
  }

  testing::TemporaryFolder folder;
  model::Transformer model;
  Key key;
  std::unique_ptr<testing::Workers> processes;
};

Tokens random_tokens(std::mt19937& random, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = std::uniform_int_distribution(0, 100)(random);
  return tokens;
}

InferenceRequest request_of(const std::string& id, Tokens prompt, std::int64_t tokens) {
  InferenceRequest request{
      .id = id, .prompt_tokens = std::ssize(prompt), .new_tokens = tokens, .ignore_eos = true};
  request.prompt_ids = std::move(prompt);
  return request;
}

TEST_CASE("exec/session: requests that share a prompt's beginning get the tokens they get alone") {
  const Home home(2);
  std::mt19937 random(12);
  // Five requests with a common beginning of 100 tokens, which ends within a block of the cache;
  // the last one is as the first, so one token of it is read.
  const Tokens system = random_tokens(random, 100);
  std::vector<InferenceRequest> requests;
  for (int i = 0; i < 5; ++i) {
    Tokens prompt = system;
    const Tokens more = random_tokens(random, 5 + 7 * i);
    prompt.insert(prompt.end(), more.begin(), more.end());
    requests.push_back(request_of("r" + std::to_string(i), std::move(prompt), kMostTokens));
  }
  requests.push_back(requests.front());
  requests.back().id = "again";
  std::vector<Tokens> alone;
  for (const InferenceRequest& request : requests)
    alone.push_back(home.alone(request.prompt_ids, request.new_tokens));
  for (const auto& [strategy, devices, policy, chunk, steps] :
       std::vector<std::tuple<std::string, int, std::string, std::int64_t, std::int64_t>>{
           {"local", 1, "continuous", 0, 1},
           {"tensor", 3, "continuous", 40, 1},
           {"tensor", 2, "sequential", 0, 1},
           {"pipeline", 3, "continuous", 32, 3},
           {"pipeline", 3, "recurrent", 0, 3},
           {"galaxy", 3, "sarathi", 48, 1},
           {"csps", 3, "continuous", 0, 1}}) {
    CAPTURE(strategy);
    CAPTURE(policy);
    const planner::Policy& how = planner::find_policy(policy);
    planner::Plan plan = home.plan(strategy, devices);
    plan.capacity = planner::wanted_capacity(requests, how, chunk, steps);
    GenerateOptions options = home.options();
    options.serve = ServeOptions{.requests = requests,
                                 .policy = &how,
                                 .chunk = chunk,
                                 .shares_prefixes = true,
                                 .on_token = {}};
    Interrupt interrupt;
    const Generation done = generate(plan, options, interrupt);
    const model::Result& result = done.run.result;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      CAPTURE(r);
      CHECK(result.requests[r].tokens == alone[r]);
      // One waits for another's prompt to be read unless that brings less than a block.
      if (r > 0) CHECK(result.requests[r].cached_tokens > 100 - 64);
    }
    CHECK(result.requests.back().cached_tokens >= 100);
    CHECK(*result.prefix_hit_rate > 0.55);
    // What a prediction of the same workload does: all arrive at once, so no time decides.
    planner::RequestScheduler scheduler(
        requests, how, {.chunk = chunk, .capacity = plan.capacity, .shares_prefixes = true});
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    planner::GraphCache graphs(plan);
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
    if (steps == 1) {
      REQUIRE(recorder.served().size() == result.schedule.size());
      for (std::size_t s = 0; s < result.schedule.size(); ++s)
        CHECK(recorder.served()[s].step.batch == result.schedule[s].batch);
    }
    const auto replayed = planner::replayed_steps(result.schedule, requests, home.model, "result");
    CHECK_NOTHROW(planner::check_schedule(replayed, plan.capacity, "result"));
  }
}

// Two conversations in turns: each prompt is the one before with its answer and some more tokens.
// A third one is left in the middle of an answer and continues from there.
class Conversations : public RequestSource {
 public:
  explicit Conversations(std::mt19937& random) : random_(random) {}
  News take() override {
    News news;
    if (under_way_ == 0 && turn_ < 8) {
      Tokens& text = texts_[turn_ % 2];
      const Tokens more = random_tokens(random_, 20);
      text.insert(text.end(), more.begin(), more.end());
      prompts.push_back(text);
      tokens.emplace_back();
      cached.push_back(-1);
      news.joined.push_back({.request = request_of("t", text, kMostTokens)});
      ++under_way_;
      ++turn_;
    }
    news.left = std::exchange(left_, {});
    news.closed = turn_ == 8 && under_way_ == 0;
    return news;
  }
  void await(Clock::time_point deadline) override { std::this_thread::sleep_until(deadline); }
  void on_begin(std::size_t request, std::int64_t count) override { cached.at(request) = count; }
  bool on_token(std::size_t request, const ChosenToken& token, bool last) override {
    if (gone_ == request) return true;
    tokens[request].push_back(token.id);
    texts_[request % 2].push_back(token.id);
    if (request == 3 && tokens[request].size() == 4) {  // as a client that goes
      gone_ = request;
      left_.push_back(request);
      --under_way_;
      return true;
    }
    if (last) --under_way_;
    return true;
  }

  std::vector<Tokens> prompts;
  std::vector<Tokens> tokens;
  std::vector<std::int64_t> cached;

 private:
  std::mt19937& random_;
  std::array<Tokens, 2> texts_;
  std::vector<std::size_t> left_;
  std::size_t gone_ = 99;
  std::size_t turn_ = 0;
  int under_way_ = 0;
};

TEST_CASE("exec/session: a conversation's next turn reads only what is new") {
  const Home home(2);
  std::mt19937 random(3);
  for (const auto& [strategy, devices, chunk, steps] :
       std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>>{
           {"local", 1, 0, 1}, {"tensor", 2, 16, 1}, {"pipeline", 3, 8, 3}}) {
    CAPTURE(strategy);
    planner::Plan plan = home.plan(strategy, devices);
    // Memory for two whole conversations and what a turn copies.
    plan.capacity = {.rows = kMostPrompt, .positions = 64 * 6, .sequences = 2, .steps = steps};
    Conversations source(random);
    GenerateOptions options = home.options();
    const planner::Policy& policy = planner::find_policy("continuous");
    options.serve = ServeOptions{.requests = {},
                                 .source = &source,
                                 .policy = &policy,
                                 .chunk = chunk,
                                 .shares_prefixes = true,
                                 .on_token = {}};
    Interrupt interrupt;
    static_cast<void>(generate(plan, options, interrupt));
    REQUIRE(source.prompts.size() == 8);
    for (std::size_t turn = 0; turn < 8; ++turn) {
      CAPTURE(turn);
      const Tokens& own = source.tokens[turn];
      const Tokens alone = home.alone(source.prompts[turn], kMostTokens);
      CHECK(std::equal(own.begin(), own.end(), alone.begin()));
      CHECK(own.size() == (turn == 3 ? 4 : 9));
      // All of the turn before but its last token, which was not fed back.
      const std::int64_t known =
          turn < 2 ? 0 : std::ssize(source.prompts[turn - 2]) + std::ssize(source.tokens[turn - 2]);
      if (turn < 2) CHECK(source.cached[turn] == 0);
      if (turn >= 2) CHECK(source.cached[turn] >= known - 1);
      CHECK(source.cached[turn] <= known);
    }
  }
}

}  // namespace
}  // namespace tandem::exec::session_prefix_test
