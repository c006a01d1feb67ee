// The LM head split over devices, really executed: the logits of a head at the master.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "planner/plan/window.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_runs.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::head_run_test {
namespace {

using planner::HeadPlacement;
using testing::predicted_bytes;
using testing::Ran;
using testing::TemporaryFolder;

constexpr int kTokens = 4;

struct Given {
  const char* strategy;
  int devices;
  const char* partition;
  const char* allreduce;
};
constexpr Given kAll[] = {{"tensor", 2, "equal", "star"},      {"tensor", 3, "1:2:5", "ring"},
                          {"tensor", 5, "equal", "halving"},   {"tensor", 4, "equal", "tree"},
                          {"galaxy", 3, "1:2:5", "ring,star"}, {"csps", 3, "1:2:5", "star"},
                          {"pipeline", 3, "equal", ""}};

// Matrices of whole cache lines, so that blocks have no padding but at their ends.
model::Transformer whole_lines() {
  model::Transformer t = testing::eight_heads();
  t.hidden = 48;
  t.head_dim = 8;
  return t;
}

planner::Plan planned(const model::Transformer& geometry, const Given& given, HeadPlacement head,
                      std::int64_t prompt = 11, std::int32_t candidates = 0,
                      std::int32_t window = 0) {
  planner::Request request{.model = geometry,
                           .cluster = testing::star_of(given.devices),
                           .strategy = given.strategy,
                           .partition = given.partition,
                           .workload = {prompt, kTokens},
                           .head = head,
                           .candidates = candidates};
  request.window = {.blocks = window, .retain = std::nullopt};
  if (*given.allreduce != 0) request.allreduce = given.allreduce;
  return std::get<planner::Plan>(make_plan(request));
}

std::vector<std::int32_t> prompt_of(std::int64_t size) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < size; ++i) ids.push_back((17 + i * 31) % 250);
  return ids;
}

Ran executed(const planner::Plan& plan, const std::filesystem::path& weights,
             const SamplingOptions& sampling = {}) {
  const auto shard_of = [&](std::size_t device) {
    const model::Share& share = plan.devices[device].share;
    Shard shard = Shard::slice(weights, plan.model, share);
    if (shard.bytes() !=
        weight_bytes(plan.model, share) + planner::page_padding(plan.model, share, {}))
      throw Error("weights are not as predicted: " + std::to_string(shard.bytes()) + " on " +
                  std::to_string(device));
    return shard;
  };
  return testing::executed(plan, prompt_of(plan.workload.prompt_tokens), shard_of, sampling);
}

TEST_CASE("exec/head: a split head's logits have the bits of one at the master") {
  model::Transformer tied = whole_lines();
  tied.tied_embeddings = true;
  model::Transformer capped = whole_lines();
  capped.family = model::Family::gemma2;
  capped.activation = model::Activation::gelu_tanh;
  capped.tied_embeddings = true;
  capped.embedding_scale = std::sqrt(static_cast<double>(capped.hidden));
  capped.score_cap = 50.0;
  capped.logit_cap = 3.0;
  model::Transformer divided = whole_lines();
  divided.family = model::Family::granite;
  divided.logit_divisor = 16.0;
  divided.embedding_scale = 12.0;
  divided.residual_scale = 0.22;
  divided.attention_scale = 0.5;
  const std::pair<const char*, model::Transformer> models[] = {
      {"untied", whole_lines()}, {"tied", tied}, {"capped", capped}, {"divided", divided}};
  testing::Sampled taken(3);
  for (const auto& [name, geometry] : models) {
    const TemporaryFolder folder;
    write_random_weights(geometry, 17, model::DType::f32, folder.path());
    for (const Given& given : kAll) {
      if (!taken()) continue;
      CAPTURE(std::string(name));
      CAPTURE(std::string(given.strategy));
      CAPTURE(std::string(given.allreduce));
      const planner::Plan plan = planned(geometry, given, HeadPlacement::split);
      const Ran ran = executed(plan, folder.path());
      CHECK(ran.logits.size() == kTokens);
      CHECK(ran.sent == predicted_bytes(plan));
      std::vector<std::vector<float>> serial;
      testing::SerialExecutor(plan, folder.path())
          .generate(prompt_of(plan.workload.prompt_tokens), kTokens, serial);
      CHECK(ran.logits == serial);
      const planner::Plan whole = planned(geometry, given, HeadPlacement::master);
      std::vector<std::vector<float>> at_master;
      testing::SerialExecutor(whole, folder.path())
          .generate(prompt_of(plan.workload.prompt_tokens), kTokens, at_master);
      CHECK(ran.logits == at_master);
    }
  }
}

TEST_CASE("exec/head: tokens chosen from candidates are those of a head at the master") {
  const model::Transformer geometry = whole_lines();
  const TemporaryFolder folder;
  write_random_weights(geometry, 17, model::DType::f32, folder.path());
  const SamplingOptions warm{.temperature = 1.5, .top_p = 0.95, .seed = 3, .top_k = 12};
  for (const Given& given : kAll) {
    CAPTURE(std::string(given.strategy));
    CAPTURE(given.devices);
    const planner::Plan whole = planned(geometry, given, HeadPlacement::master);
    for (const SamplingOptions& sampling : {SamplingOptions{}, warm}) {
      CAPTURE(sampling.temperature);
      const Ran at_master = executed(whole, folder.path(), sampling);
      CHECK(at_master.tokens.size() == kTokens);
      // One is enough of the likeliest; and more than any device has rows.
      for (const std::int32_t candidates : {sampling.temperature > 0.0 ? 12 : 1, 300}) {
        CAPTURE(candidates);
        const planner::Plan plan = planned(geometry, given, HeadPlacement::split, 11, candidates);
        const Ran ran = executed(plan, folder.path(), sampling);
        CHECK(ran.tokens == at_master.tokens);
        CHECK(ran.logits.empty());
        CHECK(ran.sent == predicted_bytes(plan));
      }
    }
  }
}

TEST_CASE("exec/head: rows of the head in any format have the same bits") {
  for (const model::WeightFormat format : {model::WeightFormat::bf16, model::WeightFormat::q8_0,
                                           model::WeightFormat::q4_0, model::WeightFormat::q6_k}) {
    for (const bool tied : {false, true}) {
      CAPTURE(to_string(format));
      CAPTURE(tied);
      model::Transformer geometry = testing::in_blocks(testing::small_llama(), format);
      geometry.tied_embeddings = tied;
      const TemporaryFolder folder;
      write_random_weights(geometry, 5, model::DType::f32, folder.path());
      const Given given{"tensor", 3, "1:2:2", "star"};
      const Ran split = executed(planned(geometry, given, HeadPlacement::split, 3), folder.path());
      const Ran whole = executed(planned(geometry, given, HeadPlacement::master, 3), folder.path());
      CHECK(split.logits == whole.logits);
    }
  }
}

}  // namespace
}  // namespace tandem::exec::head_run_test
