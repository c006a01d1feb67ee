#include "planner/search/least_request_time.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/transformer/architecture.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/search/search.hpp"
#include "planner/search/split_time.hpp"
#include "planner/search/window_search.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::test::least_request_time_test {
namespace {

using planner::LeastRequestTime;
using planner::Plan;
using planner::Split;
using planner::SplitCandidates;
using planner::SplitTime;
using planner::Window;

constexpr double kRounding = 1.0 + 1e-9;

// A plan on random devices that hold everything, its shares of no account.
Plan random_outline(RandomClusters& draw, const std::string& strategy,
                    const std::string& allreduce) {
  planner::Request request{
      .model = small_model({.layers = draw.integer(2, 20),
                            .heads = 8,
                            .kv_heads = std::int64_t{1} << draw.integer(0, 3),
                            .head_dim = 8,
                            .intermediate = 200,
                            .vocab = 300}),
      .cluster = draw.cluster(static_cast<int>(draw.integer(2, 5)), 1e12, 1e12),
      .strategy = strategy,
      .partition = "equal",
      .allreduce = allreduce,
      .workload = {.prompt_tokens = draw.integer(1, 40), .new_tokens = draw.integer(1, 24)},
      .window = {.blocks = 0}};
  if (draw.integer(0, 4) == 0) request.model.family = model::Family::bert;
  if (!request.model.architecture().generates()) request.workload.new_tokens = 0;
  if (strategy == "galaxy") request.tiles = static_cast<std::int32_t>(draw.integer(0, 3));
  Plan plan = std::get<Plan>(planner::make_plan(request));
  plan.devices.clear();
  return plan;
}

// The same with some matrices of some layers in f16.
Plan mixed_outline(RandomClusters& draw, const std::string& strategy,
                   const std::string& allreduce) {
  Plan plan = random_outline(draw, strategy, allreduce);
  for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer) {
    for (const model::WeightMatrix matrix :
         {model::WeightMatrix::query, model::WeightMatrix::up, model::WeightMatrix::down}) {
      if (draw.integer(0, 1) == 0) plan.model.formats.set(matrix, layer, model::WeightFormat::f16);
    }
  }
  for (std::size_t d = 0; d < plan.profiles.size(); ++d)
    plan.profiles[d] = model::for_formats(model::nominal_profile(plan.cluster.devices()[d]),
                                          plan.model.formats, plan.model.cache);
  return plan;
}

// Devices beyond the first two have some of each, or nothing of one.
Split random_split(RandomClusters& draw, const Plan& plan) {
  const auto devices = static_cast<std::size_t>(plan.cluster.size());
  Split split{.heads = std::vector<std::int64_t>(devices),
              .columns = std::vector<std::int64_t>(devices)};
  std::int64_t heads = plan.model.heads;
  std::int64_t columns = plan.model.intermediate;
  for (std::size_t d = devices; d-- > 1;) {
    split.heads[d] = d == 1 ? 1 : draw.integer(0, 1);
    split.columns[d] = split.heads[d] == 0 ? 16 : draw.integer(0, 2) * 8;
    heads -= split.heads[d];
    columns -= split.columns[d];
  }
  split.heads[0] = heads;
  split.columns[0] = columns;
  return split;
}

std::vector<model::Share> shares_of(const Plan& plan, const Split& split) {
  return planner::to_shares(plan.model, plan.master, split);
}

Plan with_windows(Plan plan, const std::vector<model::Share>& shares, RandomClusters& draw,
                  bool streams) {
  for (const model::Share& share : shares) {
    Window window;
    if (streams && draw.integer(0, 2) > 0) {
      window = {.blocks = static_cast<std::int32_t>(draw.integer(1, 4)),
                .retain = static_cast<std::int32_t>(draw.integer(0, 3))};
    }
    plan.devices.push_back(
        {.share = share, .memory = {}, .window = planner::normalized(plan.model, share, window)});
  }
  return plan;
}

// What the search of shares says with the bound and without it, and how often times were asked for.
struct Searched {
  SplitCandidates with;
  SplitCandidates without;
  int asked_with = 0;
  int asked_without = 0;
};

Searched search(const Plan& outline, const planner::Budget& budget) {
  const SplitTime whole = planner::split_time(outline, budget, {.blocks = {}});
  Searched result;
  const auto counted = [&whole](int& count) {
    return [&whole, &count](const Split& split) {
      ++count;
      return whole.time(split);
    };
  };
  result.with =
      planner::split_candidates(budget, {.time = counted(result.asked_with), .least = whole.least});
  result.without =
      planner::split_candidates(budget, {.time = counted(result.asked_without), .least = {}});
  return result;
}

}  // namespace

TEST_CASE("planner/least request time: no prediction is below it, whatever streams") {
  RandomClusters draw(31);
  const std::vector<std::pair<std::string, std::string>> kinds{{"tensor", "star"},
                                                               {"tensor", "ring"},
                                                               {"tensor", "halving"},
                                                               {"galaxy", "ring,star"},
                                                               {"galaxy", "halving,ring"}};
  double loosest = 1.0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    CAPTURE(attempt);
    const std::string& strategy = kinds[static_cast<std::size_t>(attempt) % kinds.size()].first;
    const std::string& sums = kinds[static_cast<std::size_t>(attempt) % kinds.size()].second;
    CAPTURE(strategy);
    CAPTURE(sums);
    const Plan outline = random_outline(draw, strategy, sums);
    LeastRequestTime bound(outline);
    const std::vector<model::Share> shares = shares_of(outline, random_split(draw, outline));
    const bool streams = attempt % 3 > 0;
    const Plan plan = with_windows(outline, shares, draw, streams);
    const double time = planner::predicted_request_time(plan);
    const LeastRequestTime::Least least = bound.in_memory(shares, 1e300);
    const double windowed = bound.streamed(plan, least);
    if (!streams) {
      CHECK(least.total() <= time * kRounding);
      CHECK(windowed == doctest::Approx(least.total()).epsilon(1e-12));
      loosest = std::min(loosest, least.total() / time);
    }
    CHECK(windowed <= time * kRounding);
    CHECK(bound.streamed(plan, {}) <= windowed);
  }
  CHECK(loosest > 0.7);  // else it is of no use
}

TEST_CASE("planner/least request time: no prediction is below it where layers differ in formats") {
  RandomClusters draw(37);
  double loosest = 1.0;
  int mixed = 0;
  for (int attempt = 0; attempt < 60; ++attempt) {
    CAPTURE(attempt);
    const bool galaxy = attempt % 2 == 1;
    const Plan outline =
        mixed_outline(draw, galaxy ? "galaxy" : "tensor", galaxy ? "ring" : "star");
    mixed += outline.model.has_uniform_layers() ? 0 : 1;
    LeastRequestTime bound(outline);
    const std::vector<model::Share> shares = shares_of(outline, random_split(draw, outline));
    const bool streams = attempt % 3 > 0;
    const Plan plan = with_windows(outline, shares, draw, streams);
    const double time = planner::predicted_request_time(plan);
    const LeastRequestTime::Least least = bound.in_memory(shares, 1e300);
    CHECK(bound.streamed(plan, least) <= time * kRounding);
    if (!streams) loosest = std::min(loosest, least.total() / time);
  }
  CHECK(mixed > 50);
  CHECK(loosest > 0.4);  // else it is of no use; f16 is half of f32
}

TEST_CASE("planner/least request time: of a star and nothing that streams it is the prediction") {
  RandomClusters draw(32);
  for (int attempt = 0; attempt < 20; ++attempt) {
    CAPTURE(attempt);
    const Plan outline = random_outline(draw, "tensor", "star");
    LeastRequestTime bound(outline);
    const std::vector<model::Share> shares = shares_of(outline, random_split(draw, outline));
    const Plan plan = with_windows(outline, shares, draw, false);
    CHECK(bound.in_memory(shares, 1e300).total() ==
          doctest::Approx(planner::predicted_request_time(plan)).epsilon(1e-6));
  }
}

TEST_CASE("planner/least request time: a search with it asks for fewer times and finds the same") {
  RandomClusters draw(33);
  int with = 0;
  int without = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    CAPTURE(attempt);
    Plan outline = random_outline(draw, attempt % 2 == 0 ? "tensor" : "galaxy", "star,star");
    const auto devices = static_cast<std::size_t>(outline.cluster.size());
    double bytes = 0.0;
    for (std::int32_t layer = 0; layer < outline.model.layers; ++layer)
      bytes += static_cast<double>(outline.model.attention_bytes(layer, {0, 8}) +
                                   outline.model.ffn_bytes(layer, {0, 200}));
    std::vector<model::Device> limited = outline.cluster.devices();
    for (std::size_t d = 0; d < devices; ++d)
      limited[d].memory = model::Bytes{2e5 + bytes * (attempt < 4 ? 0.5 : 0.9)};
    outline.cluster = {outline.cluster.name(), limited, outline.cluster.routers(),
                       outline.cluster.links(), outline.cluster.edges()};
    for (model::DeviceProfile& profile : outline.profiles) profile.program_bytes = 0.0;
    const planner::Budget budget(outline, std::vector<double>(devices, 4e3),
                                 planner::least_windows(outline, {.blocks = {}}));
    const Searched found = search(outline, budget);
    CHECK(found.with.splits == found.without.splits);
    CHECK(found.with.memory_binds == found.without.memory_binds);
    with += found.asked_with;
    without += found.asked_without;
  }
  CHECK(with * 2 < without);
}

}  // namespace tandem::test::least_request_time_test
