// Sparse attention of csps, really executed: the logits of a slow reference, one device's where
// nothing is dropped, and the predicted bytes.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/sparse_runs.hpp"

namespace tandem::exec::csps_sparse_run_test {
namespace {

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
                      std::optional<planner::SparseRequest> sparse,
                      const std::string& partition = "equal",
                      model::WireFormat wire = model::WireFormat::f32,
                      planner::DecodeMoves moves = planner::DecodeMoves::queries) {
  return testing::sparse_plan("csps", geometry, devices, prompt, sparse, partition, wire, moves);
}

TEST_CASE("exec/sparse: with nothing dropped gives one device's logits and tokens") {
  for (const std::int64_t prompt : {1, 2, 3, 4, 65}) {
    const Ran alone = in_order(planned(five_layers(), 1, prompt, {}));
    for (const auto& [devices, levels] :
         std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {3, 3}, {4, 3}}) {
      CAPTURE(prompt);
      CAPTURE(devices);
      CAPTURE(levels);
      const planner::Plan plan = planned(five_layers(), devices, prompt,
                                         planner::SparseRequest{.levels = levels, .drop = 0.0});
      const Ran ran = executed(plan);
      CHECK(ran.tokens == alone.tokens);
      CHECK(apart(ran.logits, alone.logits) < 1e-4);
      CHECK(ran.sent == predicted_bytes(plan));
    }
  }
}

TEST_CASE("exec/sparse: keeps the rows, and gives the logits, that the rules say") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
  };
  testing::Sampled taken(7);
  for (const double drop : {0.25, 0.5, 0.9}) {
    for (const Given& given : {Given{2, 2, "equal"}, Given{2, 2, "5:2"}, Given{3, 3, "1:3:2"},
                               Given{4, 3, "equal"}, Given{4, 2, "2:1:3:1"}}) {
      for (const std::int64_t prompt : {given.devices - 1, given.devices, 11, 65}) {
        if (!taken()) continue;
        CAPTURE(drop);
        CAPTURE(given.devices);
        CAPTURE(given.levels);
        CAPTURE(std::string(given.partition));
        CAPTURE(prompt);
        const planner::Plan plan =
            planned(five_layers(), given.devices, prompt,
                    planner::SparseRequest{.levels = given.levels, .drop = drop}, given.partition);
        const Ran ran = in_order(plan);
        CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
      }
    }
  }
}

TEST_CASE(
    "exec/sparse: levels that overlap give the logits that the rules say, and send what is "
    "predicted") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
    double drop;
  };
  testing::Sampled taken(4);
  for (const Given& given :
       {Given{2, 2, "5:2", 0.0}, Given{3, 3, "1:3:2", 0.5}, Given{4, 3, "equal", 0.0},
        Given{4, 3, "2:1:3:1", 0.3}, Given{4, 2, "equal", 0.9}}) {
    for (const std::int64_t prompt : {given.devices - 1, 11, 33}) {
      if (!taken()) continue;
      CAPTURE(given.devices);
      CAPTURE(given.levels);
      CAPTURE(given.drop);
      CAPTURE(prompt);
      const planner::Plan plan = planned(
          five_layers(), given.devices, prompt,
          planner::SparseRequest{.levels = given.levels, .drop = given.drop, .overlap = true},
          given.partition);
      check_counts_more_than_once(plan, check_runs_as_ruled(plan));
    }
  }
}

TEST_CASE("exec/sparse: tiles of levels give the bits, and send the bytes, of none") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
    double drop;
    bool overlap;
    bool apart;
  };
  testing::Sampled taken(3);
  for (const Given& given :
       {Given{2, 2, "5:2", 0.0, false, false}, Given{3, 3, "1:3:2", 0.5, false, false},
        Given{4, 3, "2:1:3:1", 0.9, false, false}, Given{4, 3, "equal", 0.3, true, false},
        Given{4, 3, "equal", 0.3, false, true}}) {
    for (const std::int64_t prompt : {given.devices, 33}) {
      if (!taken()) continue;
      CAPTURE(given.devices);
      CAPTURE(given.drop);
      CAPTURE(given.overlap);
      CAPTURE(given.apart);
      CAPTURE(prompt);
      model::Transformer geometry = five_layers();
      geometry.kv_heads = 4;
      planner::Plan plan =
          planned(geometry, given.devices, prompt,
                  planner::SparseRequest{
                      .levels = given.levels, .drop = given.drop, .overlap = given.overlap},
                  given.partition);
      if (given.apart) plan.sparse->drop[2].front().parts = {0.3, 0.0, 0.5, 0.6};
      if (given.apart) plan.sparse->drop[2].back().parts = {0.9, 0.6, 0.7, 0.6};
      const Ran whole = in_order(plan);
      for (const std::int32_t tiles : {1, 2, 3, 4}) {
        CAPTURE(tiles);
        plan.sparse->set_tiles({tiles});
        if (tiles == 4 && given.levels == 3) plan.sparse->set_tiles({1, 4});
        plan = planner::with_predicted_memory(std::move(plan));
        plan.validate();
        CHECK(check_runs_as_ruled(plan).logits == whole.logits);
      }
    }
  }
}

TEST_CASE("exec/sparse: heads that drop apart keep the rows that the rules say") {
  for (const auto& [devices, levels] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {4, 3}}) {
    for (const bool overlap : {false, true}) {
      for (const std::int64_t prompt : {devices, 33}) {
        CAPTURE(devices);
        CAPTURE(overlap);
        CAPTURE(prompt);
        model::Transformer geometry = five_layers();
        geometry.kv_heads = 4;
        planner::Plan plan =
            planned(geometry, devices, prompt,
                    planner::SparseRequest{.levels = levels, .drop = 0.0, .overlap = overlap});
        const auto heads = static_cast<std::size_t>(geometry.kv_heads);
        for (std::size_t layer = 2; layer < 4; ++layer) {
          for (std::size_t level = 0; level < plan.sparse->drop[layer].size(); ++level) {
            std::vector<double>& parts = plan.sparse->drop[layer][level].parts;
            parts.clear();
            for (std::size_t h = 0; h < heads; ++h)
              parts.push_back((h + layer) % 2 == 0 ? 0.3 * static_cast<double>(level)
                                                   : 0.6 + 0.2 * static_cast<double>(level));
          }
        }
        plan = planner::with_predicted_memory(std::move(plan));
        plan.validate();
        check_runs_as_ruled(plan);
      }
    }
  }
}

TEST_CASE(
    "exec/sparse: devices beside one another give the bits of the serial order, and send what is "
    "predicted") {
  for (const auto& [devices, levels] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {4, 3}}) {
    for (const double drop : {0.3, 0.8}) {
      CAPTURE(devices);
      CAPTURE(drop);
      const planner::Plan plan = planned(five_layers(), devices, 33,
                                         planner::SparseRequest{.levels = levels, .drop = drop});
      const Ran ran = executed(plan);
      const Ran serial = in_order(plan);
      CHECK(ran.logits == serial.logits);
      CHECK(ran.sent == predicted_bytes(plan));
    }
  }
}

TEST_CASE("exec/sparse: activations travel in the wire type, and the bits are the serial order's") {
  const Ran alone = in_order(planned(five_layers(), 1, 33, {}));
  for (const model::WireFormat wire : {model::WireFormat::f16, model::WireFormat::q8_0}) {
    CAPTURE(to_string(wire));
    const auto made = [&](double drop, model::WireFormat travels) {
      return planned(five_layers(), 4, 33, planner::SparseRequest{.levels = 3, .drop = drop},
                     "equal", travels);
    };
    for (const double drop : {0.0, 0.6}) {
      CAPTURE(drop);
      const planner::Plan plan = made(drop, wire);
      const Ran ran = executed(plan);
      CHECK(ran.logits == in_order(plan).logits);
      CHECK(ran.sent == predicted_bytes(plan));
      for (std::size_t d = 0; d < ran.sent.size(); ++d)
        CHECK(ran.sent[d] < predicted_bytes(made(drop, model::WireFormat::f32))[d]);
      // Of the first token: later ones follow other tokens, where rounding turned one.
      if (drop == 0.0)
        CHECK(apart({ran.logits.front()}, {alone.logits.front()}) <
              (wire == model::WireFormat::f16 ? 0.01 : 0.1));
    }
  }
}

TEST_CASE("exec/sparse: new tokens that the master computes alone see what those see that ask") {
  for (const std::int64_t prompt : {2, 33}) {
    const auto of = [&](planner::DecodeMoves moves) {
      return planned(five_layers(), 3, prompt, planner::SparseRequest{.levels = 2, .drop = 0.5},
                     "1:3:2", model::WireFormat::f32, moves);
    };
    const planner::Plan plan = of(planner::DecodeMoves::keys_once);
    const Ran ran = executed(plan);
    const Ran asking = in_order(of(planner::DecodeMoves::queries));
    CAPTURE(prompt);
    CHECK(ran.tokens == asking.tokens);
    CHECK(apart(ran.logits, asking.logits) < 1e-5);
    CHECK(ran.sent == predicted_bytes(plan));
  }
}

TEST_CASE("exec/sparse: a narrow cache is gathered as it is attended to") {
  for (const auto& [format, limit] :
       {std::pair{model::CacheFormat::f16, 1e-3}, {model::CacheFormat::q8_0, 1e-2}}) {
    CAPTURE(to_string(format));
    const model::Transformer t = testing::with_cache(five_layers(), format);
    const Ran alone = in_order(planned(t, 1, 21, {}));
    const planner::Plan plan = planned(t, 3, 21, planner::SparseRequest{.levels = 2, .drop = 0.0});
    const Ran ran = in_order(plan);
    CHECK(ran.tokens == alone.tokens);
    CHECK(apart(ran.logits, alone.logits) < limit);
    CHECK(executed(plan).sent == predicted_bytes(plan));
  }
}

}  // namespace
}  // namespace tandem::exec::csps_sparse_run_test
