// SP-NTP or SP-TP: counted bytes, predicted times, the paper's rule, and bytes between servers.

#include "planner/search/sp_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/strategy/common/lowering.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::sp_choice_test {
namespace {

using planner::SpChoice;
using planner::SpRule;

planner::Request request_of(int devices, std::int64_t prompt, std::int64_t kv_heads) {
  return {.model = small_model({.layers = 3, .heads = 8, .kv_heads = kv_heads, .intermediate = 16}),
          .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
          .strategy = "csps",
          .partition = "equal",
          .tiles = 0,
          .workload = {prompt, 3}};
}

TEST_CASE("planner/sp choice: the paper's rule is its inequality of bytes, layer by layer") {
  for (const std::int64_t n : {1, 2, 3, 4, 8, 64}) {
    for (const std::int64_t tokens : {100, 4096, 16'000, 30'000, 1'000'000}) {
      constexpr double kHidden = 4096.0;
      const double others = static_cast<double>(n) - 1.0;
      const auto rows = static_cast<double>(tokens);
      const double tp = 2.0 * rows * kHidden * others;
      const double gathered = 4.0 * kHidden * kHidden * others;
      const double moved = 4.0 * rows * kHidden * others / static_cast<double>(n);
      const SpRule rule = planner::sp_rule(4096, tokens, n);
      CAPTURE(n);
      CAPTURE(tokens);
      if (n > 1) {
        CHECK(rule.attention_says_ntp() == (gathered + moved < tp));
        CHECK(rule.ffn_says_ntp() == (3.0 * gathered + moved < 2.0 * tp));
      }
      if (n == 2) CHECK(!rule.attention_says_ntp());
    }
  }
  SUBCASE("two devices, FFN counted: from 6 h tokens on") {
    CHECK(!planner::sp_rule(100, 599, 2).ffn_says_ntp());
    CHECK(planner::sp_rule(100, 601, 2).ffn_says_ntp());
  }
  SUBCASE("three devices, attention alone: from 2 h N / (N - 2) = 6 h tokens on") {
    CHECK(!planner::sp_rule(100, 599, 3).attention_says_ntp());
    CHECK(planner::sp_rule(100, 601, 3).attention_says_ntp());
  }
}

TEST_CASE("planner/sp choice: counted bytes of equal devices are the closed forms") {
  for (const int devices : {2, 4}) {
    for (const std::int64_t kv_heads : {8, 4}) {
      const planner::Request request = request_of(devices, 16, kv_heads);
      planner::SearchEffort unlimited;
      const SpChoice choice = planner::choose_sp(request, unlimited);
      REQUIRE(choice.ntp.plan);
      REQUIRE(choice.tp.plan);
      const auto n = static_cast<double>(devices);
      const auto h = static_cast<double>(request.model.hidden);
      const auto d = static_cast<double>(request.model.head_dim);
      const auto k = static_cast<double>(kv_heads);
      const double moved = 16.0 * (n - 1.0) / n;  // rows that are elsewhere, of all devices
      // To the others and the last row back; two whole layers; in the last all keys and values,
      // queries and results of one row.
      const double ends = h * moved + h;
      const double ntp = 2.0 * moved * d * (2.0 * 8.0 + 2.0 * k) + moved * d * 2.0 * k +
                         2.0 * d * 8.0 * (n - 1.0) / n;
      CAPTURE(devices);
      CAPTURE(kv_heads);
      CHECK(choice.ntp.prompt_bytes == 4.0 * (ends + ntp));
      CHECK(choice.tp.prompt_bytes == 4.0 * (ends + h * (11.0 * (n - 1.0) * 16.0 + (n - 1.0))));
      // Weights that are elsewhere, which no plan gathers.
      CHECK(choice.gathered_bytes ==
            (n - 1.0) * 3.0 * 4.0 * h * (d * (2.0 * 8.0 + 2.0 * k) + 3.0 * 16.0));
    }
  }
}

TEST_CASE("planner/sp choice: the faster plan is taken, or the one that fits, and said") {
  planner::SearchEffort unlimited;
  const SpChoice two = planner::choose_sp(request_of(2, 16, 8), unlimited);
  REQUIRE(two.ntp.plan);
  REQUIRE(two.tp.plan);
  CHECK(two.takes_ntp == (two.ntp.seconds <= two.tp.seconds));
  CHECK(two.ntp.plan->strategy == "csps");
  CHECK(two.tp.plan->strategy == "galaxy");
  const std::string text = describe(two, planner::Objective::request);
  CHECK(text.find("of two devices the rule never chooses SP-NTP") != std::string::npos);
  CHECK(text.find("taken: " + std::string(two.takes_ntp ? "SP-NTP" : "SP-TP")) !=
        std::string::npos);

  // Less than the whole model, more than half of it.
  planner::Request small = request_of(2, 16, 8);
  std::vector<DeviceSpec> devices(2);
  devices[1].memory_bytes = two.tp.plan->devices[1].memory.total();
  devices[1].disk_bytes_per_s = 0.0;
  small.cluster = star_cluster(devices);
  const SpChoice fits = planner::choose_sp(small, unlimited);
  CHECK(!fits.ntp.plan);
  CHECK(fits.ntp.reason.find("lacks") != std::string::npos);
  REQUIRE(fits.tp.plan);
  CHECK(!fits.takes_ntp);
  CHECK(describe(fits, planner::Objective::request).find("SP-NTP: no plan (device 'd1': lacks") !=
        std::string::npos);
}

TEST_CASE("planner/sp choice: limits end the search of both variants, each with a plan") {
  const planner::Request request = request_of(4, 48, 8);
  planner::SearchEffort unlimited;
  const SpChoice best = planner::choose_sp(request, unlimited);
  CHECK(!unlimited.ended());
  planner::SearchEffort effort({.evaluations = 1});
  const SpChoice first = planner::choose_sp(request, effort);
  CHECK(effort.ended());
  CHECK(effort.evaluations() <= unlimited.evaluations());
  REQUIRE(first.ntp.plan);
  REQUIRE(first.tp.plan);
  CHECK(first.selected().seconds >= best.selected().seconds);
}

TEST_CASE("planner/sp choice: weights that devices cannot all hold are gathered, and said so") {
  planner::Request request = request_of(4, 48, 8);
  request.model =
      small_model({.layers = 12, .heads = 8, .kv_heads = 8, .head_dim = 16, .intermediate = 512});
  request.gather_weights = true;
  const auto gathered = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(gathered));
  request.gather_weights = false;
  std::vector<DeviceSpec> devices(4);
  for (std::size_t d = 0; d < 4; ++d) {
    devices[d].memory_bytes = std::get<planner::Plan>(gathered).devices[d].memory.total();
    devices[d].disk_bytes_per_s = 0.0;
  }
  request.cluster = star_cluster(devices);
  planner::SearchEffort unlimited;
  const SpChoice choice = planner::choose_sp(request, unlimited);
  REQUIRE(choice.ntp.plan);
  CHECK(choice.ntp.plan->gather_weights);
  CHECK(describe(choice, planner::Objective::request).find("SP-NTP, weights gathered: ") !=
        std::string::npos);
  // Those of the graph, weights among them.
  CHECK(choice.ntp.prompt_bytes > 0.9 * choice.gathered_bytes);
}

TEST_CASE("planner/sp choice: hierarchical SP-TP sends (G - 1) S between servers a half") {
  // Of 4 L halves each of S = e R h bytes; the last is of one row.
  constexpr double kRows = 12.0;
  for (const std::vector<std::int32_t>& group : std::vector<std::vector<std::int32_t>>{
           {0, 0, 1, 1}, {0, 0, 0, 1, 1, 1}, {0, 0, 1, 1, 2, 2}}) {
    const auto groups = static_cast<double>(group.back() + 1);
    const std::size_t devices = group.size();
    const std::vector<std::int64_t> ones(devices, 1);
    const ModelSizes sizes{.layers = 2,
                           .heads = static_cast<std::int64_t>(devices),
                           .kv_heads = static_cast<std::int64_t>(devices),
                           .intermediate = static_cast<std::int64_t>(devices)};
    planner::Plan plan = plan_of("galaxy", sizes, 0, {ones, ones});
    plan.layout.group = group;
    for (const char* const name : {"hierarchical", "hierarchical:ring+ring",
                                   "hierarchical:ring+star", "hierarchical:star+ring"}) {
      plan.allreduce = {name, "star"};
      plan.tiles = 0;
      plan.validate();
      const model::TaskGraph graph =
          planner::find_strategy("galaxy").lower(plan, planner::prompt_batch({12, 1}));
      double far = 0.0;
      for (const model::Task& task : graph.tasks()) {
        if (task.kind != model::TaskKind::transfer) continue;
        const bool leaves = group[static_cast<std::size_t>(task.device)] !=
                            group[static_cast<std::size_t>(task.peer)];
        if (leaves) far += static_cast<double>(model::payload_bytes(task));
      }
      const double row = 4.0 * static_cast<double>(plan.model.hidden);
      // Rows of the other groups to begin with, and the sampled one back.
      const double ends = row * (kRows * (groups - 1.0) / groups + 1.0);
      CAPTURE(std::string(name));
      CAPTURE(devices);
      CAPTURE(groups);
      CHECK(far == ends + row * (groups - 1.0) * (7.0 * kRows + 1.0));
    }
  }
}

}  // namespace
}  // namespace tandem::test::sp_choice_test
