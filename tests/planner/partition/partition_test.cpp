#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "model/base/error.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/partition/share_search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::partition_test {
namespace {

using planner::Budget;
using planner::galaxy_split;
using planner::largest_remainder;
using planner::proportional_shares;
using planner::Split;
using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

TEST_CASE("planner/largest remainder: hand-computed") {
  SUBCASE("10 by 1:1:1 = 3.33 each, the odd one to the first") {
    CHECK(proportional_shares(std::vector{1.0, 1.0, 1.0}, 10) == Counts{4, 3, 3});
  }
  SUBCASE("10 by 5:3:2.5 = 4.76, 2.86, 2.38: both odd ones to the large fractions") {
    CHECK(proportional_shares(std::vector{5.0, 3.0, 2.5}, 10) == Counts{5, 3, 2});
  }
  SUBCASE("a cap sends the odd one to the next: 4.76 capped at 4, 2.86, 2.38") {
    const std::vector<double> quotas{100.0 / 21, 60.0 / 21, 50.0 / 21};
    CHECK(largest_remainder(quotas, 10, Counts{4, 9, 9}) == Counts{4, 3, 3});
  }
  SUBCASE("exact proportions stay exact: 12 by 1:2:3") {
    CHECK(proportional_shares(std::vector{0.1, 0.2, 0.3}, 12) == Counts{2, 4, 6});
  }
  SUBCASE("fewer than there are devices: 2 by 1:1:1") {
    CHECK(proportional_shares(std::vector{1.0, 1.0, 1.0}, 2) == Counts{1, 1, 0});
  }
}

TEST_CASE("planner/largest remainder: in units, unless somebody got nothing") {
  CHECK(proportional_shares(std::vector{1.0, 1.0, 2.0}, 64, 16) == Counts{16, 16, 32});
  CHECK(proportional_shares(std::vector{1.0, 1.0, 1.0}, 64, 16) == Counts{32, 16, 16});
  CHECK(proportional_shares(std::vector{7.0, 1.0}, 64, 16) == Counts{56, 8});
  CHECK(proportional_shares(std::vector{1.0, 1.0, 1.0}, 64, 1) == Counts{22, 21, 21});
}

TEST_CASE("planner/largest remainder: shares sum to the total, each within one of its quota") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    CAPTURE(trial);
    std::vector<double> weights(std::uniform_int_distribution<std::size_t>(1, 17)(random));
    for (double& w : weights) w = std::uniform_real_distribution<double>(0.01, 10.0)(random);
    const auto total = std::uniform_int_distribution<std::int64_t>(0, 30000)(random);
    const Counts shares = proportional_shares(weights, total);
    CHECK(sum(shares) == total);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    int off = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double quota = static_cast<double>(total) * weights[i] / all;
      if (std::abs(static_cast<double>(shares[i]) - quota) >= 1.0) ++off;
    }
    CHECK(off == 0);
  }
}

// A plan without shares, over devices with these budgets.
planner::Plan outline(const ModelSizes& sizes, const std::vector<DeviceSpec>& devices) {
  planner::Plan plan{.strategy = "tensor",
                     .partition = "galaxy",
                     .allreduce = {"star", "star"},
                     .model = small_model(sizes),
                     .cluster = star_cluster(devices),
                     .master = 0,
                     .workload = {.prompt_tokens = 3, .new_tokens = 2},
                     .devices = {},
                     .profiles = {}};
  for (const model::Device& device : plan.cluster.devices()) {
    plan.profiles.push_back(model::nominal_profile(device));
  }
  return plan;
}

// Bytes for messages.
std::vector<double> exchange(std::size_t devices) {
  std::vector<double> result(devices);
  result[0] = 4.0 * 3 * 8 * (static_cast<double>(devices) - 1.0);
  return result;
}

double bytes_of(const planner::Plan& plan, std::size_t device, std::int32_t heads,
                std::int32_t columns) {
  Split split{Counts(plan.profiles.size()), Counts(plan.profiles.size())};
  split.heads[device] = heads;
  split.columns[device] = columns;
  const auto shares = to_shares(plan.model, plan.master, split);
  return Budget(plan, exchange(plan.profiles.size())).use(device, shares[device]).total();
}

TEST_CASE("planner/capacities: twice the rates, twice the capacity") {
  const planner::Plan plan = outline({}, {{1e9}, {2e9}, {0.5e9}});
  const std::vector<double> v = capacities(plan);
  CHECK(v[1] / v[0] == doctest::Approx(2.0));
  CHECK(v[2] / v[0] == doctest::Approx(0.5));
}

bool in_lines(const Split& split) {
  return std::ranges::all_of(split.columns, [](std::int64_t columns) { return columns % 16 == 0; });
}

TEST_CASE("planner/partition: columns begin at cache lines where the model has many") {
  CHECK(planner::column_unit(small_model({.intermediate = 512})) == 16);
  CHECK(planner::column_unit(small_model({.intermediate = 496})) == 1);
  CHECK(planner::column_unit(small_model({.intermediate = 2040})) == 1);
  const ModelSizes sizes{.heads = 8, .kv_heads = 4, .intermediate = 2048};
  std::mt19937 random(29);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    std::vector<DeviceSpec> specs(std::uniform_int_distribution<std::size_t>(1, 5)(random));
    for (DeviceSpec& spec : specs)
      spec.flops_per_s = std::uniform_real_distribution<double>(2e8, 2e9)(random);
    planner::Plan plan = outline(sizes, specs);
    // One device holds little more than its even share, so that memory binds in half of the trials.
    if (trial % 2 == 0)
      specs[0].memory_bytes =
          bytes_of(plan, 0, 8, 2048 / static_cast<std::int32_t>(specs.size()) + 37);
    plan = outline(sizes, specs);
    const Budget budget(plan, exchange(specs.size()));
    const std::vector<double> v = capacities(plan);
    const Split galaxy = galaxy_split(budget, v);
    CHECK(sum(galaxy.columns) == 2048);
    CHECK(in_lines(galaxy));
    CHECK(in_lines(planner::proportional_split(plan.model, v)));
  }
}

TEST_CASE("planner/partition: single columns where whole lines do not fit") {
  // Each of two devices has room for half of the columns and eight more: 1032 and 1016, no
  // multiples of 16, are 1024 each in lines. With eight less on one, only single columns fit.
  const ModelSizes sizes{.heads = 8, .kv_heads = 4, .intermediate = 2048};
  std::vector<DeviceSpec> specs(2);
  planner::Plan plan = outline(sizes, specs);
  for (const std::int32_t spare : {8, 0}) {
    CAPTURE(spare);
    specs[0].memory_bytes = bytes_of(plan, 0, 4, 1016 + spare);
    specs[1].memory_bytes = bytes_of(plan, 1, 4, 1032);
    const planner::Plan tight = outline(sizes, specs);
    const Budget budget(tight, exchange(2));
    const auto split = planner::any_split(budget);
    REQUIRE(split);
    CHECK(budget.fits(*split));
    CHECK(sum(split->columns) == 2048);
    CHECK(in_lines(*split) == (spare == 8));
  }
}

TEST_CASE("planner/galaxy: with ample memory it is the proportional split") {
  std::mt19937 random(11);
  for (int trial = 0; trial < 100; ++trial) {
    CAPTURE(trial);
    std::vector<double> v(std::uniform_int_distribution<std::size_t>(1, 7)(random));
    for (double& x : v) x = std::uniform_real_distribution<double>(0.1, 4.0)(random);
    const ModelSizes sizes{.heads = 8, .kv_heads = 4, .intermediate = 37};
    const planner::Plan plan = outline(sizes, std::vector<DeviceSpec>(v.size()));
    const Split split = galaxy_split(Budget(plan, exchange(v.size())), v);
    CHECK(split == planner::proportional_split(plan.model, v));
  }
}

TEST_CASE("planner/galaxy: what one device cannot hold moves to the others, columns first") {
  // Capacities 1:1:2 over 8 heads and 40 columns: heads 2 2 4, columns 10 10 20.
  const ModelSizes sizes{.heads = 8, .kv_heads = 8, .intermediate = 40};
  const std::vector<double> v{1.0, 1.0, 2.0};
  std::vector<DeviceSpec> specs(3);
  planner::Plan plan = outline(sizes, specs);
  const auto split_with = [&](double bytes) {
    specs[2].memory_bytes = bytes;
    plan = outline(sizes, specs);
    return galaxy_split(Budget(plan, exchange(3)), v);
  };
  SUBCASE("room for 4 heads and 14 columns: 6 columns go, 3 to each of the equal others") {
    CHECK(split_with(bytes_of(plan, 2, 4, 14)) == Split{{2, 2, 4}, {13, 13, 14}});
  }
  SUBCASE("one column less: 7 go, 3.5 to each, the odd one to the first") {
    CHECK(split_with(bytes_of(plan, 2, 4, 13)) == Split{{2, 2, 4}, {14, 13, 13}});
  }
  SUBCASE("room for 2 heads and no column: all columns go, then 2 heads") {
    CHECK(split_with(bytes_of(plan, 2, 2, 0)) == Split{{3, 3, 2}, {20, 20, 0}});
  }
}

TEST_CASE("planner/galaxy: what the first cannot take goes on to the next") {
  // Columns 10 10 20; device 2 holds 14, so 6 go; device 1 has room for 11 only: its 3 become 1.
  const ModelSizes sizes{.heads = 8, .kv_heads = 8, .intermediate = 40};
  std::vector<DeviceSpec> specs(3);
  planner::Plan plan = outline(sizes, specs);
  specs[1].memory_bytes = bytes_of(plan, 1, 2, 11);
  specs[2].memory_bytes = bytes_of(plan, 2, 4, 14);
  plan = outline(sizes, specs);
  const Split split = galaxy_split(Budget(plan, exchange(3)), std::vector{1.0, 1.0, 2.0});
  CHECK(split == Split{{2, 2, 4}, {15, 11, 14}});
}

// Whether any split of heads and columns over the devices fits, by trying all.
bool any_fits(const Budget& budget, Split& split, std::size_t device, std::int64_t heads,
              std::int64_t columns) {
  if (device + 1 == budget.devices()) {
    split.heads[device] = heads;
    split.columns[device] = columns;
    return budget.fits(split);
  }
  for (std::int64_t h = 0; h <= heads; ++h) {
    for (std::int64_t c = 0; c <= columns; ++c) {
      split.heads[device] = h;
      split.columns[device] = c;
      if (any_fits(budget, split, device + 1, heads - h, columns - c)) return true;
    }
  }
  return false;
}

TEST_CASE("planner/galaxy: shares sum to the model and respect every budget") {
  // Random budgets from none to ample, against an exhaustive search. The heuristic may miss a fit
  // (it never moves heads to make room for columns of another device); it must be rare, and what
  // it calls a fit must be one.
  std::mt19937 random(13);
  int feasible = 0;
  int missed = 0;
  int infeasible = 0;
  for (int trial = 0; trial < 400; ++trial) {
    CAPTURE(trial);
    const auto devices = std::uniform_int_distribution<std::size_t>(1, 3)(random);
    const int kv_heads = std::uniform_int_distribution<int>(0, 1)(random) == 0 ? 4 : 2;
    const ModelSizes sizes{.heads = 4, .kv_heads = kv_heads, .intermediate = 7};
    std::vector<DeviceSpec> specs(devices);
    planner::Plan plan = outline(sizes, specs);
    std::vector<double> v;
    for (std::size_t d = 0; d < devices; ++d) {
      v.push_back(std::uniform_real_distribution<double>(0.2, 3.0)(random));
      const double all = bytes_of(plan, d, 4, 7);
      const double scale = std::uniform_real_distribution<double>(0.5, 1.1)(random);
      specs[d].memory_bytes = all * scale;
    }
    plan = outline(sizes, specs);
    const Budget budget(plan, exchange(devices));
    const Split split = galaxy_split(budget, v);
    CHECK(sum(split.heads) == 4);
    CHECK(sum(split.columns) == 7);
    Split best{Counts(devices), Counts(devices)};
    const bool possible = any_fits(budget, best, 0, 4, 7);
    const bool found = budget.fits(split);
    CHECK(found == budget.shortage(split).empty());
    if (found) CHECK(possible);
    feasible += possible ? 1 : 0;
    infeasible += possible ? 0 : 1;
    missed += possible && !found ? 1 : 0;
  }
  CAPTURE(feasible);
  CAPTURE(infeasible);
  CAPTURE(missed);
  CHECK(feasible > 50);
  CHECK(infeasible > 50);
  CHECK(missed * 20 <= feasible);
}

TEST_CASE("planner/proportions: A:B:C, one a device, all above 0") {
  const model::Cluster cluster = star_cluster(std::vector<DeviceSpec>(3));
  CHECK(planner::parse_proportions("3:1:0.5", cluster) == std::vector{3.0, 1.0, 0.5});
  for (const char* bad : {"", ":", "1:2", "1:2:3:4", "1:2:x", "1:2:", "1:-2:3", "1:nan:1",
                          "1:inf:1", "1:2:3 4", "1:1e13:1", "0x1:1:1"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)planner::parse_proportions(bad, cluster), Error);
  }
  CHECK_THROWS_WITH_AS((void)planner::parse_proportions("1:0:2", cluster),
                       doctest::Contains("device 'd1' gets no share"), Error);
}

}  // namespace
}  // namespace tandem::test::partition_test
