#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::strategy_shards_test {
namespace {

using testing::plan_for;
using testing::SerialExecutor;
using testing::TemporaryFolder;

constexpr std::array<std::int32_t, 11> kPrompt{79, 110, 99, 101, 32, 117, 112, 111, 110, 32, 97};
constexpr int kTokens = 24;

// Seven devices need seven heads; heads * head_dim is not the hidden size.
model::Transformer geometry(std::int64_t kv_heads, bool tied) {
  model::Transformer t = testing::eight_heads();
  t.kv_heads = kv_heads;
  t.tied_embeddings = tied;
  return t;
}

struct Generation {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

Generation run(const planner::Plan& plan, const std::filesystem::path& weights) {
  Generation result;
  SerialExecutor executor(plan, weights);
  result.tokens = executor.generate(kPrompt, kTokens, result.logits);
  return result;
}

// Largest difference of two steps' logits over the largest logit.
double relative_error(const std::vector<std::vector<float>>& a,
                      const std::vector<std::vector<float>>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double largest = 0.0;
    double difference = 0.0;
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double x = static_cast<double>(a[i][j]);
      const double d = std::abs(x - static_cast<double>(b[i][j]));
      largest = std::max(largest, std::abs(x));
      difference = d <= difference ? difference : d;  // keeps NaN
    }
    worst = difference / largest <= worst ? worst : difference / largest;
  }
  return worst;
}

TEST_CASE("exec/strategies: any number of devices and any shares generate the tokens of one") {
  struct Split {
    int devices;
    const char* partition;
  };
  // kv_heads 1, 2 and 4: fewer than devices, so that neighbours hold the same key/value head.
  for (const std::int64_t kv_heads : {8, 2, 4, 1}) {
    const model::Transformer t = geometry(kv_heads, kv_heads == 4);
    const TemporaryFolder folder;
    write_random_weights(t, 17, model::DType::f32, folder.path());
    const auto prompt = static_cast<std::int64_t>(kPrompt.size());
    const Generation one = run(plan_for(t, "local", 1, "equal", prompt, kTokens), folder.path());
    for (const Split& split : {Split{1, "equal"},
                               {2, "equal"},
                               {2, "7:1"},
                               {3, "equal"},
                               {3, "1:2:5"},
                               {4, "equal"},
                               {4, "3:1:3:1"},
                               {5, "equal"},
                               {5, "1:1:1:1:4"},
                               {7, "equal"},
                               {7, "2:1:1:1:1:1:1"}}) {
      CAPTURE(kv_heads);
      CAPTURE(split.devices);
      CAPTURE(split.partition);
      const Generation many = run(
          plan_for(t, "tensor", split.devices, split.partition, prompt, kTokens), folder.path());
      CHECK(many.tokens == one.tokens);
      // Sums of the same terms in other orders: float32's 6e-8 times the length of the longest
      // chain of layers and sums, by which random weights may amplify it.
      CHECK(relative_error(one.logits, many.logits) < 1e-4);
    }
    // Whole layers by device: the same sums in the same order.
    for (const Split& split : {Split{2, "equal"}, {2, "1:2"}, {3, "equal"}}) {
      if (split.devices > t.layers) continue;
      CAPTURE(kv_heads);
      CAPTURE(split.devices);
      CAPTURE(split.partition);
      const Generation many = run(
          plan_for(t, "pipeline", split.devices, split.partition, prompt, kTokens), folder.path());
      CHECK(many.tokens == one.tokens);
      CHECK(many.logits == one.logits);
    }
  }
}

TEST_CASE("exec/strategies: a prompt in pieces ends in the logits of the whole") {
  const model::Transformer t = geometry(2, false);
  const TemporaryFolder folder;
  write_random_weights(t, 17, model::DType::f32, folder.path());
  const planner::Plan plan =
      plan_for(t, "local", 1, "equal", static_cast<std::int64_t>(kPrompt.size()), 1);
  SerialExecutor whole(plan, folder.path());
  const std::vector<std::vector<float>> expected{whole.step(kPrompt)};
  for (const std::size_t piece : {1U, 2U, 3U, 10U}) {
    CAPTURE(piece);
    SerialExecutor executor(plan, folder.path());
    std::vector<float> logits;
    for (std::size_t i = 0; i < kPrompt.size(); i += piece) {
      logits = executor.step(std::span(kPrompt).subspan(i, std::min(piece, kPrompt.size() - i)));
    }
    CHECK(relative_error(expected, {logits}) < 1e-4);
  }
}

TEST_CASE("exec/strategies: greedy text of random weights does not settle on one token") {
  for (const bool tied : {false, true}) {
    const model::Transformer t = geometry(2, tied);
    const TemporaryFolder folder;
    write_random_weights(t, 17, model::DType::f32, folder.path());
    const Generation text =
        run(plan_for(t, "local", 1, "equal", static_cast<std::int64_t>(kPrompt.size()), kTokens),
            folder.path());
    std::map<std::int32_t, int> count;
    for (const std::int32_t token : text.tokens) ++count[token];
    CAPTURE(tied);
    CHECK(count.size() >= kTokens / 4);
  }
}

}  // namespace
}  // namespace tandem::exec::strategy_shards_test
