#include "planner/bounds/bound.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "planner/collective/collective.hpp"
#include "planner/memory/session_memory.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/search/allreduce_search.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/pipeline.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::test::bound_test {
namespace {

using Counts = std::vector<std::int64_t>;

// Measured-like profiles: overheads, and rates that neither rise nor fall evenly with the rows.
model::DeviceProfile rough_profile(RandomClusters& random, const model::Device& device) {
  model::DeviceProfile profile = model::nominal_profile(device);
  for (model::KindRate& rate : profile.rate) {
    if (rate.points.empty()) continue;
    rate.overhead_s = random.number(1e-8, 1e-5);
    const double base = rate.points.front().seconds_per_byte;
    rate.points.clear();
    double seconds = base;
    for (const double intensity : {1.0, 2.0, 4.0, 8.0}) {
      seconds *= random.number(0.8, 2.2);
      rate.points.push_back({.intensity = intensity, .seconds_per_byte = seconds});
    }
  }
  return profile;
}

Counts dealt(RandomClusters& random, std::int64_t total, std::size_t parts) {
  Counts counts(parts, 0);
  for (std::int64_t i = 0; i < total; ++i)
    ++counts[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(parts) - 1))];
  return counts;
}

// All counts that sum to `total`.
std::vector<Counts> compositions(std::int64_t total, std::size_t parts) {
  if (parts == 1) return {{total}};
  std::vector<Counts> all;
  for (std::int64_t first = 0; first <= total; ++first) {
    for (Counts rest : compositions(total - first, parts - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

struct Tally {
  int plans = 0;
  int beaten = 0;
  int clusters = 0;
  double gap = 0.0;  // of the best plan of each cluster, summed
  double widest = 0.0;
};

class Trial {
 public:
  Trial(RandomClusters& random, const std::string& strategy, int devices)
      : random_(&random), plan_(made(random, strategy, devices)) {}

  static planner::Plan made(RandomClusters& random, const std::string& strategy, int devices) {
    const std::int64_t heads = random.integer(2, 5);
    const bool encodes = random.integer(0, 3) == 0;
    const std::int64_t scale = random.integer(0, 1) == 0 ? 2 : 32;
    const planner::Strategy& known = planner::find_strategy(strategy);
    planner::Plan plan{
        .strategy = strategy,
        .partition = "given",
        .allreduce = known.sharding.splits_heads() ? planner::AllreduceChoice{"star", "star"}
                                                   : planner::AllreduceChoice{},
        .tiles = known.sharding.exchanges_rows() ? 1 : 0,
        .model = small_model({.layers = random.integer(devices, devices + 2),
                              .heads = heads,
                              .kv_heads = random.integer(0, 1) == 0 ? heads : 1,
                              .head_dim = scale,
                              .intermediate = 6}),
        .cluster = random.cluster(devices, 1e12, 2e12),
        .master = 0,
        .workload = {.prompt_tokens = random.integer(1, 9), .new_tokens = random.integer(1, 4)},
        .devices = {},
        .profiles = {}};
    if (encodes) {
      plan.model.family = model::Family::bert;
      plan.model.kv_heads = heads;
      plan.model.activation = model::Activation::gelu;
      plan.workload.new_tokens = 0;
    }
    const bool rough = random.integer(0, 1) == 0;
    for (const model::Device& device : plan.cluster.devices())
      plan.profiles.push_back(rough ? rough_profile(random, device)
                                    : model::nominal_profile(device));
    return plan;
  }

  // Every split with a random collective, master and number of tiles; on few devices every master.
  void run(Tally& tally) {
    const auto devices = static_cast<std::size_t>(plan_.cluster.size());
    const bool layers = planner::sharding_of(plan_).splits_layers();
    for (const Counts& heads :
         compositions(layers ? plan_.model.layers : plan_.model.heads, devices)) {
      if (layers) {
        if (std::ranges::find(heads, 0) == heads.end()) take_layers(heads);
        continue;
      }
      for (int i = 0; i < 6; ++i) {
        const Counts columns = dealt(*random_, 6, devices);
        take({heads, columns});
      }
    }
    REQUIRE(least_ < 1e300);
    tally.plans += plans_;
    tally.beaten += beaten_;
    ++tally.clusters;
    const double gap = least_ / bound_ - 1.0;
    tally.gap += gap;
    tally.widest = std::max(tally.widest, gap);
  }

 private:
  void take(const planner::Split& split) {
    bool both = false;
    for (std::size_t d = 0; d < split.heads.size(); ++d) {
      if (split.heads[d] == 0 && split.columns[d] == 0) return;
      both = both || (split.heads[d] > 0 && split.columns[d] > 0);
    }
    if (!both && plan_.strategy == "galaxy") return;
    const auto& all = planner::collectives();
    const auto any = [&] {
      return all[static_cast<std::size_t>(random_->integer(0, std::ssize(all) - 1))].name;
    };
    plan_.master = static_cast<model::DeviceIndex>(random_->integer(0, plan_.cluster.size() - 1));
    plan_.allreduce = {any(), any()};
    if (plan_.strategy == "galaxy") plan_.tiles = static_cast<std::int32_t>(random_->integer(0, 4));
    const auto layouts = planner::layouts(plan_.cluster, plan_.master);
    plan_.layout = layouts[static_cast<std::size_t>(
        random_->integer(0, static_cast<std::int64_t>(layouts.size()) - 1))];
    plan_.devices.clear();
    for (const model::Share& share : planner::to_shares(plan_.model, plan_.master, split))
      plan_.devices.push_back({.share = share, .memory = {}});
    judge();
  }
  void take_layers(const Counts& layers) {
    plan_.master = static_cast<model::DeviceIndex>(random_->integer(0, plan_.cluster.size() - 1));
    plan_.devices.clear();
    for (const model::Share& share :
         planner::layer_shares(plan_.model, planner::stage_order(plan_), plan_.master, layers))
      plan_.devices.push_back({.share = share, .memory = {}});
    judge();
  }
  void judge() {
    plan_.validate();
    if (bound_ < 0.0) bound_ = planner::request_bound(plan_)->lower_bound_s;
    const double time = planner::predicted_request_time(plan_);
    least_ = std::min(least_, time);
    ++plans_;
    if (time >= bound_ * (1.0 - 1e-9)) return;
    ++beaten_;
    CAPTURE(plan_.strategy);
    CAPTURE(plan_.allreduce.prompt);
    CAPTURE(plan_.allreduce.decode);
    CAPTURE(plan_.tiles);
    CAPTURE(plan_.master);
    CHECK(time >= bound_);
  }

  RandomClusters* random_;
  planner::Plan plan_;
  double bound_ = -1.0;
  double least_ = 1e301;
  int plans_ = 0;
  int beaten_ = 0;
};

TEST_CASE("planner/bound: no split, collective, tiles or master beats it" *
          doctest::test_suite("long")) {
  for (const char* strategy : {"tensor", "galaxy", "pipeline"}) {
    RandomClusters random(61);
    Tally tally;
    for (int trial = 0; trial < 80; ++trial) {
      CAPTURE(trial);
      Trial(random, strategy, static_cast<int>(random.integer(2, 4))).run(tally);
    }
    CAPTURE(strategy);
    CHECK(tally.beaten == 0);
    CHECK(tally.plans > 270);
    MESSAGE(std::string(strategy) << ": " << tally.plans << " plans on " << tally.clusters
                                  << " clusters, the best of each "
                                  << 100.0 * tally.gap / tally.clusters
                                  << "% above the bound on average, " << 100.0 * tally.widest
                                  << "% at most");
  }
}

TEST_CASE("planner/bound: alone, it is what the device takes") {
  for (const char* strategy : {"tensor", "pipeline"}) {
    RandomClusters random(5);
    Tally tally;
    Trial(random, strategy, 1).run(tally);
    CHECK(tally.gap < 0.05);
  }
}

}  // namespace
}  // namespace tandem::test::bound_test
