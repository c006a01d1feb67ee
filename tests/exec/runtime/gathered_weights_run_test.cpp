// Weights that travel to who computes with all of them, really executed.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "exec/weights/source/layout.hpp"
#include "model/graph/memory.hpp"
#include "planner/search/search.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/sparse_runs.hpp"

namespace tandem::testing::gathered_weights_run_test {
namespace {

using model::Family;
using model::WeightBlock;
using model::WeightFormat;

planner::Plan gathered(const model::Transformer& t, int devices, const std::string& partition,
                       std::int64_t prompt, std::int32_t tiles = 0) {
  planner::Request request{.model = t,
                           .cluster = star_of(devices),
                           .strategy = devices == 1 ? "local" : "csps",
                           .partition = partition,
                           .gather_weights = devices > 1,
                           .workload = {prompt, kSparseTokens}};
  if (devices > 1) request.tiles = tiles;
  return std::get<planner::Plan>(make_plan(request));
}

// Against one device, and against devices that are simulated in the order of tasks.
void check_run(const model::Transformer& t, const planner::Plan& plan, double tolerance = 1e-4) {
  const Ran local = in_order(gathered(t, 1, "auto", plan.workload.prompt_tokens));
  const Ran serial = in_order(plan);
  CHECK(serial.tokens == local.tokens);
  CHECK(apart(serial.logits, local.logits) < tolerance);
  const Ran ran = executed(plan);
  CHECK(ran.tokens == serial.tokens);
  CHECK(ran.logits == serial.logits);
  CHECK(ran.sent == predicted_bytes(plan));
}

TEST_CASE("exec/gathered weights: one device's tokens and logits, of prompts of any length") {
  const model::Transformer t = eight_heads();
  for (const std::int64_t prompt : {1, 2, 3, 4, 7, 16, 17, 33, 64, 65}) {
    for (const auto& [devices, partition] :
         {std::pair{2, "equal"}, {2, "5:3"}, {3, "1:2:5"}, {4, "2:1:3:2"}}) {
      CAPTURE(prompt);
      CAPTURE(std::string(partition));
      check_run(t, gathered(t, devices, partition, prompt, static_cast<std::int32_t>(prompt % 3)));
    }
  }
}

TEST_CASE("exec/gathered weights: biases are added once, and norms of heads and sums are there") {
  for (const Family family :
       {Family::qwen2, Family::qwen3, Family::gemma2, Family::gpt2, Family::opt}) {
    model::Transformer t = eight_heads();
    t.family = family;
    t.max_context = 64;
    if (!t.architecture().gated) {
      t.hidden = 48;
      t.kv_heads = t.heads;
      t.activation = model::Activation::gelu;
    }
    t.tied_embeddings = true;
    CAPTURE(static_cast<int>(family));
    check_run(t, gathered(t, 3, "1:2:5", 17));
    check_run(t, gathered(t, 2, "equal", 5));
  }
}

TEST_CASE("exec/gathered weights: travel in the format that they are stored in") {
  testing::Sampled taken(5);
  for (const WeightFormat format : {WeightFormat::f16, WeightFormat::bf16, WeightFormat::q8_0,
                                    WeightFormat::q4_0, WeightFormat::q4_k, WeightFormat::q6_k}) {
    const model::Transformer t = in_blocks(eight_heads(), format);
    CAPTURE(t.formats.text());
    // As of tensor: heads that cut a long block of `out` have their inputs rounded in two parts.
    const double tolerance = model::block_of(format).elements > 32 ? 2e-2 : 1e-4;
    if (taken()) check_run(t, gathered(t, 2, "3:5", 17), tolerance);
    if (taken()) check_run(t, gathered(t, 4, "equal", 9), tolerance);
  }
}

TEST_CASE("exec/gathered weights: a block is as large as it is said to lie in memory") {
  std::vector<model::Transformer> all{eight_heads()};
  for (const Family family :
       {Family::qwen2, Family::qwen3, Family::gemma2, Family::gpt2, Family::bert}) {
    all.push_back(eight_heads());
    all.back().family = family;
    if (all.back().architecture().gated) continue;
    all.back().kv_heads = all.back().heads;
    all.back().activation = model::Activation::gelu;
    all.back().token_types = family == Family::bert ? 2 : 0;
  }
  for (const WeightFormat format : {WeightFormat::q8_0, WeightFormat::q4_k})
    all.push_back(in_blocks(eight_heads(), format));
  for (const model::Transformer& t : all) {
    const auto unit = static_cast<std::int32_t>(t.column_block());
    for (const model::Range heads : {model::Range{0, 3}, {3, 8}, {2, 3}}) {
      const model::Range columns{heads.begin * unit, heads.end * unit};
      model::Share share;
      share.layers = {1, 2};
      share.heads = heads;
      share.columns = columns.intersect({0, static_cast<std::int32_t>(t.intermediate)});
      if (share.columns.empty()) continue;
      for (const exec::LayoutBlock& block : exec::layout_of(t, share).blocks) {
        CAPTURE(static_cast<int>(t.family));
        CAPTURE(heads.begin);
        CHECK(block.bytes ==
              static_cast<std::uint64_t>(model::block_extent(
                  t, block.kind, 1,
                  block.kind == WeightBlock::attention ? share.heads : share.columns)));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing::gathered_weights_run_test
