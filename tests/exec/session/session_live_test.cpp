// Requests that join and leave while master and workers serve others, as real processes: those that
// stay get the tokens that they get alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/session/request_source.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/serving/request_capacity.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_live_test {
namespace {

using planner::InferenceRequest;

constexpr std::int64_t kMostPrompt = 14;
constexpr std::int64_t kMostTokens = 9;

// Requests join one by one, each after some tokens of the others; every third leaves after a token.
class Trickle : public RequestSource {
 public:
  Trickle(std::vector<InferenceRequest> requests, std::vector<std::size_t> leaving)
      : requests_(std::move(requests)), leaving_(std::move(leaving)), tokens(requests_.size()) {}
  News take() override {
    News news;
    if (joined_ < requests_.size() && (seen_ >= 2 || under_way_ == 0)) {
      seen_ = 0;
      ++under_way_;
      news.joined.push_back({.request = requests_[joined_++]});
    }
    news.left = std::exchange(left_, {});
    news.closed = joined_ == requests_.size() && under_way_ == 0;
    return news;
  }
  void await(Clock::time_point deadline) override { std::this_thread::sleep_until(deadline); }
  void on_begin(std::size_t /*request*/, std::int64_t cached) override { CHECK(cached == 0); }
  bool on_token(std::size_t request, const ChosenToken& token, bool last) override {
    ++seen_;
    tokens[request].push_back(token.id);
    const bool leaves = std::ranges::find(leaving_, request) != leaving_.end();
    if (leaves && tokens[request].size() == 1 && !last) {
      left_.push_back(request);  // by itself, as a client that goes
      --under_way_;
      return true;
    }
    CHECK_FALSE((leaves && tokens[request].size() > 1));
    if (last) --under_way_;
    return true;
  }

 private:
  std::vector<InferenceRequest> requests_;
  std::vector<std::size_t> leaving_;
  std::vector<std::size_t> left_;
  std::size_t joined_ = 0;
  int under_way_ = 0;
  int seen_ = 0;

 public:
  std::vector<std::vector<std::int32_t>> tokens;
};

TEST_CASE("exec/session: requests that join while others are served get their own tokens") {
  const testing::TemporaryFolder folder;
  model::Transformer model = testing::eight_heads();
  model.layers = 3;
  const Key key = random_key();
  const std::filesystem::path weights = folder.path() / "weights";
  write_random_weights(model, 17, model::DType::f32, weights);
  const testing::Workers workers(folder.path(), 2, key);
  std::mt19937 random(9);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  std::vector<InferenceRequest> requests;
  std::vector<std::vector<std::int32_t>> alone;
  planner::Plan local = testing::plan_for(model, "local", 1, "equal", kMostPrompt, kMostTokens);
  for (int i = 0; i < 7; ++i) {
    InferenceRequest request{
        .id = "r", .prompt_tokens = draw(1, kMostPrompt), .new_tokens = draw(2, kMostTokens)};
    for (std::int64_t t = 0; t < request.prompt_tokens; ++t)
      request.prompt_ids.push_back(static_cast<std::int32_t>(draw(0, 100)));
    local.workload = {.prompt_tokens = request.prompt_tokens, .new_tokens = request.new_tokens};
    testing::SerialExecutor serial(local, weights);
    std::vector<std::vector<float>> logits;
    alone.push_back(
        serial.generate(request.prompt_ids, static_cast<int>(request.new_tokens), logits));
    requests.push_back(std::move(request));
  }
  for (const auto& [strategy, devices, policy, chunk, steps] :
       std::vector<std::tuple<std::string, int, std::string, std::int64_t, std::int64_t>>{
           {"local", 1, "continuous", 0, 1},
           {"tensor", 2, "sequential", 4, 1},
           {"tensor", 3, "static", 0, 1},
           {"pipeline", 3, "continuous", 4, 3},
           {"pipeline", 2, "recurrent", 0, 4},
           {"galaxy", 3, "sarathi", 6, 1}}) {
    CAPTURE(strategy);
    CAPTURE(policy);
    const planner::Policy& how = planner::find_policy(policy);
    planner::Plan plan =
        testing::plan_for(model, strategy, devices, "equal", kMostPrompt, kMostTokens);
    plan.capacity = planner::wanted_capacity(std::span(requests).first(4), how, chunk, steps);
    plan.capacity.positions = 64 * plan.capacity.sequences;
    plan.capacity.rows = std::max(plan.capacity.rows, kMostPrompt + 4);
    const std::vector<std::size_t> leaving{2, 5};
    Trickle source(requests, leaving);
    GenerateOptions options;
    options.weights = weights;
    options.cache_dir = folder.path() / "cache-0";
    options.workers = workers.endpoints();
    options.key = key;
    options.serve = ServeOptions{
        .requests = {}, .source = &source, .policy = &how, .chunk = chunk, .on_token = {}};
    Interrupt interrupt;
    static_cast<void>(generate(plan, options, interrupt));
    for (std::size_t r = 0; r < requests.size(); ++r) {
      CAPTURE(r);
      if (std::ranges::find(leaving, r) == leaving.end())
        CHECK(source.tokens[r] == alone[r]);
      else
        CHECK(source.tokens[r] == std::vector<std::int32_t>{alone[r][0]});
    }
  }
}

}  // namespace
}  // namespace tandem::exec::session_live_test
