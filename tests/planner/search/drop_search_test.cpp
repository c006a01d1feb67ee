// Levels and ratios by objective, beside all that there are.

#include "planner/search/drop_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "planner/search/objective.hpp"
#include "tests/support/loss_fixture.hpp"
#include "tests/support/rooms.hpp"

namespace tandem::test::drop_search_test {
namespace {

using planner::DropBounds;
using planner::DropChoice;
using planner::Infeasible;
using planner::LossModel;
using planner::Request;

// Messages take most of a prompt's time.
Request request() {
  model::Transformer model =
      small_model({.layers = 7, .heads = 8, .kv_heads = 4, .head_dim = 8, .intermediate = 16});
  model.max_context = 2000;
  return {.model = model,
          .cluster = rooms({0, 0, 1, 1}, {1e-3}, 1e-4, 1e6),
          .strategy = "csps",
          .partition = "equal",
          .workload = {400, 8}};
}

LossModel loss_of(const Request& of) {
  return planner::parse_loss_model(loss_json(of.model).dump(), "loss.json");
}

double ttft(const planner::Plan& plan) {
  return planner::predicted_time(plan, planner::Objective::ttft, model::evaluate_analytic);
}

DropChoice chosen(const Request& of, const DropBounds& bounds) {
  return std::get<DropChoice>(planner::choose_drop(of, loss_of(of), bounds));
}
DropChoice oracle(const Request& of, const DropBounds& bounds) {
  return std::get<DropChoice>(planner::choose_drop_exhaustively(of, loss_of(of), bounds));
}

TEST_CASE("planner/drop search: the least time within a loss is that of exhaustive search") {
  const Request of = request();
  const LossModel loss = loss_of(of);
  double worst = 0.0;
  struct Grid {
    std::optional<std::int32_t> levels{};
    double step;
    std::vector<double> bounds;
  };
  for (const Grid& grid : {Grid{.step = 0.3, .bounds = {0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5}},
                           Grid{.levels = 3, .step = 0.15, .bounds = {0.04, 0.15}}}) {
    double before = std::numeric_limits<double>::infinity();
    for (const double bound : grid.bounds) {
      CAPTURE(bound);
      const DropBounds bounds{.loss = bound, .levels = grid.levels, .step = grid.step};
      const DropChoice found = chosen(of, bounds);
      const DropChoice best = oracle(of, bounds);
      CHECK(found.taken.loss <= bound + 1e-9);
      CHECK(found.taken.ttft_s >= best.taken.ttft_s * (1.0 - 1e-9));
      CHECK(found.taken.ttft_s <= best.taken.ttft_s * 1.01);
      CHECK(found.evaluated < best.evaluated);
      worst = std::max(worst, found.taken.ttft_s / best.taken.ttft_s - 1.0);
      // More may be lost: no later.
      CHECK(found.taken.ttft_s <= before * (1.0 + 1e-9));
      before = found.taken.ttft_s;
      // The plan is what is said of it.
      CHECK(ttft(found.plan) == doctest::Approx(found.taken.ttft_s));
      if (found.plan.sparse)
        CHECK(loss.loss(*found.plan.sparse) == doctest::Approx(found.taken.loss));
      CHECK(found.dense.loss == 0.0);
      CHECK(found.taken.ttft_s <= found.dense.ttft_s);
    }
  }
  MESSAGE("the search's times exceed the least by at most ", 100.0 * worst, "%");
}

TEST_CASE("planner/drop search: a loss of 0 drops what costs nothing") {
  const DropChoice found = chosen(request(), {.loss = 0.0, .levels = 3});
  CHECK(found.taken.loss == 0.0);
  REQUIRE(found.taken.levels == 3);
  // Of the second band the farther level, up to its knot.
  CHECK(found.taken.drop == std::vector<std::vector<double>>{{0.0, 0.0}, {0.0, 0.44}});
  CHECK(found.taken.ttft_s < found.dense.ttft_s);
}

TEST_CASE("planner/drop search: the least loss within a time") {
  const Request of = request();
  const double dense = chosen(of, {.loss = 0.0, .step = 0.3}).dense.ttft_s;
  const double least = chosen(of, {.loss = 10.0, .step = 0.3}).taken.ttft_s;
  double before = std::numeric_limits<double>::infinity();
  for (const double part : {0.0, 0.1, 0.3, 0.5, 0.8, 1.0}) {
    const double bound = least + part * (dense - least);
    CAPTURE(bound);
    const DropChoice found = chosen(of, {.ttft_s = bound, .step = 0.3});
    const DropChoice best = oracle(of, {.ttft_s = bound, .step = 0.3});
    CHECK(found.taken.ttft_s <= bound);
    CHECK(found.taken.loss >= best.taken.loss - 1e-9);
    CHECK(found.taken.loss <= best.taken.loss + 0.005);
    CHECK(found.taken.loss <= before + 1e-9);
    before = found.taken.loss;
  }
  CHECK(before == 0.0);
  const auto none = planner::choose_drop(of, loss_of(of), {.ttft_s = 0.9 * least, .step = 0.3});
  REQUIRE(std::holds_alternative<Infeasible>(none));
  CHECK(std::get<Infeasible>(none).reason.find("the least time to the first token is") !=
        std::string::npos);
}

TEST_CASE("planner/drop search: levels that are given are kept, others are refused") {
  const Request of = request();
  for (const std::int32_t levels : {2, 3}) {
    const DropChoice found = chosen(of, {.loss = 0.2, .levels = levels, .step = 0.3});
    CHECK(found.taken.levels == levels);
    CHECK(found.plan.sparse->levels() == levels);
  }
  CHECK_THROWS_WITH_AS(chosen(of, {.loss = 0.2, .levels = 4}),
                       doctest::Contains("measured with up to 3 levels, not with 4"), Error);
  Request fewer = of;
  fewer.cluster = rooms({0, 0, 1}, {1e-3});
  CHECK_THROWS_WITH_AS(chosen(fewer, {.loss = 0.2}), doctest::Contains("measured on 4 devices"),
                       Error);
  Request other = of;
  other.model.layers = 8;
  CHECK_THROWS_WITH_AS(planner::choose_drop(other, loss_of(of), {.loss = 0.2}),
                       doctest::Contains("another model"), Error);
  Request by_rank = of;
  by_rank.strategy = "galaxy";
  CHECK_THROWS_WITH_AS(chosen(by_rank, {.loss = 0.2}),
                       doctest::Contains("strategy 'galaxy', expected 'csps'"), Error);
}

TEST_CASE("planner/drop search: plans that lack memory are not taken") {
  Request of = request();
  const DropChoice roomy = chosen(of, {.loss = 10.0, .levels = 3, .step = 0.3});
  of.memory_limit = model::Bytes{roomy.plan.devices[0].memory.total() - 1.0};
  const auto tight =
      planner::choose_drop(of, loss_of(of), {.loss = 10.0, .levels = 3, .step = 0.3});
  if (const auto* found = std::get_if<DropChoice>(&tight)) {
    for (std::size_t d = 0; d < found->plan.devices.size(); ++d)
      CHECK(found->plan.devices[d].memory.total() <= of.memory_limit->value());
  }
  of.memory_limit = model::Bytes{1000.0};
  CHECK(std::holds_alternative<Infeasible>(
      planner::choose_drop(of, loss_of(of), {.loss = 10.0, .step = 0.3})));
}

}  // namespace
}  // namespace tandem::test::drop_search_test
