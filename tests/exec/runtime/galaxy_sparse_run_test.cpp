// Sparse attention of galaxy, really executed: each device with its own heads over all rows. The
// logits of a slow reference, those of dense galaxy where nothing is dropped, the predicted bytes.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/sparse_runs.hpp"

namespace tandem::exec::galaxy_sparse_run_test {
namespace {

using model::Range;
using planner::SparseRequest;
using testing::apart;
using testing::check_counts_more_than_once;
using testing::check_runs_as_ruled;
using testing::executed;
using testing::five_layers;
using testing::in_order;
using testing::predicted_bytes;
using testing::Ran;
using testing::wanted_logits;

planner::Plan planned(const model::Transformer& geometry, int devices, std::int64_t prompt,
                      std::optional<SparseRequest> sparse, const std::string& partition = "equal",
                      model::WireFormat wire = model::WireFormat::f32) {
  return testing::sparse_plan("galaxy", geometry, devices, prompt, sparse, partition, wire);
}

// Pairs of heads share keys and values.
model::Transformer paired() {
  model::Transformer t = five_layers();
  t.kv_heads = t.heads / 2;
  return t;
}

// As many heads of keys and values as of queries, so that any device may have any of them.
model::Transformer ungrouped() {
  model::Transformer t = five_layers();
  t.kv_heads = t.heads;
  return t;
}

planner::Plan checked(planner::Plan plan) {
  plan = planner::with_predicted_memory(std::move(plan));
  plan.validate();
  return plan;
}

TEST_CASE("exec/galaxy sparse: with nothing dropped gives dense galaxy's bits") {
  for (const std::int64_t prompt : {1, 2, 3, 4, 65}) {
    const Ran alone = in_order(planned(five_layers(), 1, prompt, {}));
    // Key/value heads that several devices compute, too.
    for (const auto& given : std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {3, 3}, {4, 3}}) {
      const int devices = given.first;
      const int levels = given.second;
      CAPTURE(prompt);
      CAPTURE(devices);
      CAPTURE(levels);
      const planner::Plan plan =
          planned(five_layers(), devices, prompt, SparseRequest{.levels = levels, .drop = 0.0});
      planner::Plan dense = plan;
      dense.sparse.reset();
      const Ran ran = executed(plan);
      CHECK(ran.tokens == alone.tokens);
      CHECK(apart(ran.logits, alone.logits) < 1e-4);
      CHECK(ran.logits == in_order(checked(dense)).logits);
      CHECK(ran.sent == predicted_bytes(plan));
      CHECK(ran.sent == predicted_bytes(dense));
    }
  }
}

TEST_CASE("exec/galaxy sparse: keeps the rows, and gives the logits, that the rules say") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
    bool grouped;
  };
  testing::Sampled taken(7);
  for (const double drop : {0.25, 0.5, 0.9}) {
    for (const Given& given :
         {Given{2, 2, "equal", true}, Given{2, 2, "5:2", false}, Given{3, 3, "1:3:2", false},
          Given{3, 2, "1:2:1", true}, Given{4, 3, "equal", true}, Given{4, 2, "2:1:3:1", false}}) {
      for (const std::int64_t prompt : {2, given.devices - 1, given.devices, 11, 65}) {
        if (!taken()) continue;
        CAPTURE(drop);
        CAPTURE(given.devices);
        CAPTURE(given.levels);
        CAPTURE(std::string(given.partition));
        CAPTURE(prompt);
        const planner::Plan plan =
            planned(given.grouped ? paired() : ungrouped(), given.devices, prompt,
                    SparseRequest{.levels = given.levels, .drop = drop}, given.partition);
        const Ran ran = in_order(plan);
        CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
        planner::Plan dense = plan;
        dense.sparse.reset();
        CHECK(predicted_bytes(plan) == predicted_bytes(dense));
      }
    }
  }
}

TEST_CASE("exec/galaxy sparse: what is dropped is another result, with any prompt that is long") {
  const planner::Plan plan = planned(paired(), 4, 33, SparseRequest{.levels = 3, .drop = 0.5});
  planner::Plan dense = plan;
  dense.sparse.reset();
  CHECK(apart(in_order(plan).logits, in_order(checked(dense)).logits) > 1e-3);
}

TEST_CASE("exec/galaxy sparse: devices without heads, or without columns, have no rows") {
  testing::Sampled taken(3);
  for (const bool overlap : {false, true}) {
    for (const std::int64_t prompt : {1, 2, 3, 21}) {
      for (const int without : {0, 1, 2, 3}) {
        if (!taken()) continue;
        planner::Plan plan = planned(ungrouped(), 4, prompt,
                                     SparseRequest{.levels = 3, .drop = 0.6, .overlap = overlap});
        // The first and another device have all heads, a third has no columns; one alone has rows,
        // in the last case.
        const std::vector<std::vector<Range>> heads{{{0, 4}, {4, 8}, {8, 8}, {8, 8}},
                                                    {{0, 0}, {0, 3}, {3, 8}, {8, 8}},
                                                    {{0, 2}, {2, 2}, {2, 6}, {6, 8}},
                                                    {{0, 4}, {4, 8}, {8, 8}, {8, 8}}};
        const auto all = static_cast<std::int32_t>(plan.model.intermediate);
        const std::vector<std::vector<Range>> columns{{{0, 8}, {8, 16}, {16, 24}, {24, all}},
                                                      {{0, 8}, {8, 16}, {16, 24}, {24, all}},
                                                      {{0, 8}, {8, 24}, {24, 24}, {24, all}},
                                                      {{0, 8}, {8, 8}, {8, 24}, {24, all}}};
        for (std::size_t d = 0; d < 4; ++d) {
          plan.devices[d].share.heads = heads[static_cast<std::size_t>(without)][d];
          plan.devices[d].share.columns = columns[static_cast<std::size_t>(without)][d];
        }
        plan = checked(std::move(plan));
        CAPTURE(overlap);
        CAPTURE(prompt);
        CAPTURE(without);
        check_runs_as_ruled(plan);
      }
    }
  }
}

TEST_CASE("exec/galaxy sparse: levels that overlap give the logits that the rules say") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
    bool grouped;
    double drop;
  };
  testing::Sampled taken(5);
  // Of the third, where nothing is dropped, some key/value heads are of two devices.
  for (const Given& given : {Given{2, 2, "5:2", false, 0.0}, Given{3, 3, "1:3:2", false, 0.5},
                             Given{3, 3, "equal", true, 0.0}, Given{4, 3, "equal", true, 0.0},
                             Given{4, 3, "2:1:3:1", false, 0.3}, Given{4, 2, "equal", true, 0.9}}) {
    for (const std::int64_t prompt : {given.devices - 1, 11, 33}) {
      if (!taken()) continue;
      CAPTURE(given.devices);
      CAPTURE(given.levels);
      CAPTURE(given.drop);
      CAPTURE(prompt);
      const planner::Plan plan =
          planned(given.grouped ? paired() : ungrouped(), given.devices, prompt,
                  SparseRequest{.levels = given.levels, .drop = given.drop, .overlap = true},
                  given.partition);
      check_counts_more_than_once(plan, check_runs_as_ruled(plan));
    }
  }
}

TEST_CASE("exec/galaxy sparse: heads and levels that drop apart keep the rows that the rules say") {
  for (const auto& given : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {4, 3}}) {
    const int devices = given.first;
    const int levels = given.second;
    for (const bool overlap : {false, true}) {
      for (const std::int64_t prompt : {devices, 33}) {
        CAPTURE(devices);
        CAPTURE(overlap);
        CAPTURE(prompt);
        const model::Transformer geometry = paired();
        planner::Plan plan =
            planned(geometry, devices, prompt,
                    SparseRequest{.levels = levels, .drop = 0.0, .overlap = overlap},
                    devices == 3 ? "1:2:1" : "equal");
        const auto heads = static_cast<std::size_t>(geometry.kv_heads);
        // Some drop nothing at level 2 and something at the next; some never.
        for (std::size_t layer = 2; layer < 4; ++layer) {
          for (std::size_t level = 0; level < plan.sparse->drop[layer].size(); ++level) {
            std::vector<double>& parts = plan.sparse->drop[layer][level].parts;
            parts.clear();
            for (std::size_t h = 0; h < heads; ++h)
              parts.push_back((h + layer) % 4 == 0   ? 0.0
                              : (h + layer) % 2 == 0 ? 0.5 * static_cast<double>(level)
                                                     : 0.6 + 0.2 * static_cast<double>(level));
          }
        }
        plan = checked(std::move(plan));
        check_runs_as_ruled(plan);
      }
    }
  }
}

TEST_CASE(
    "exec/galaxy sparse: devices beside one another give the bits of the serial order, whatever "
    "joins their rows and is sent") {
  for (const char* const allreduce : {"ring,star", "star", "halving,ring"}) {
    for (const model::WireFormat wire : {model::WireFormat::f32, model::WireFormat::f16}) {
      CAPTURE(std::string(allreduce));
      CAPTURE(to_string(wire));
      planner::Plan plan =
          planned(paired(), 4, 33, SparseRequest{.levels = 3, .drop = 0.6}, "equal", wire);
      plan.allreduce = planner::parse_allreduce_choice(allreduce);
      plan = checked(std::move(plan));
      const Ran ran = executed(plan);
      CHECK(ran.logits == in_order(plan).logits);
      CHECK(ran.sent == predicted_bytes(plan));
      if (wire == model::WireFormat::f32)
        CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
    }
  }
}

TEST_CASE("exec/galaxy sparse: a narrow cache is gathered as it is attended to") {
  for (const auto& [format, limit] :
       {std::pair{model::CacheFormat::f16, 5e-3}, {model::CacheFormat::q8_0, 5e-2}}) {
    CAPTURE(to_string(format));
    const planner::Plan plan = planned(testing::with_cache(paired(), format), 4, 21,
                                       SparseRequest{.levels = 3, .drop = 0.5});
    const Ran ran = in_order(plan);
    CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < limit);
    CHECK(executed(plan).sent == predicted_bytes(plan));
  }
}

}  // namespace
}  // namespace tandem::exec::galaxy_sparse_run_test
