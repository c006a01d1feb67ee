// What one change of a plan's devices or links does.

#include "advice/whatif.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "advice/prediction.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/platform/platform.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::whatif_test {
namespace {

using Kind = WhatIfChange::Kind;

class NoProgress : public Progress {
 public:
  void expect(std::size_t total) override { expected = total; }
  void advance(std::size_t parts) override { done += parts; }
  std::size_t expected = 0;
  std::size_t done = 0;
};

model::Cluster home4() {
  return sim::read_platform(tandem::testing::in_sources("scenarios/platforms/home4.xml").string())
      .cluster;
}

planner::Request request_for(model::Cluster cluster, const std::string& strategy) {
  return {.model = model::test::named_model("tinyllama-1.1b"),
          .cluster = std::move(cluster),
          .strategy = strategy,
          .workload = {.prompt_tokens = 16, .new_tokens = 8}};
}

planner::Plan planned(const planner::Request& request) {
  auto answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(answer));
  return std::get<planner::Plan>(std::move(answer));
}

const WhatIfChange& find(const WhatIf& answer, Kind kind, const std::string& subject) {
  const auto found = std::ranges::find_if(answer.changes, [&](const WhatIfChange& change) {
    return change.kind == kind && change.subject == subject;
  });
  REQUIRE(found != answer.changes.end());
  return *found;
}

WhatIf asked(const planner::Plan& plan, EvaluatorKind evaluator = EvaluatorKind::analytic) {
  NoProgress progress;
  WhatIf answer = what_if(plan, evaluator, progress);
  CHECK(progress.expected == answer.changes.size());
  CHECK(progress.done == answer.changes.size());
  return answer;
}

double request_s(const planner::Plan& plan) {
  const model::Metrics metrics =
      predict(plan, {.evaluator = EvaluatorKind::analytic}).result.metrics;
  return metrics.token_times_s.back();
}

}  // namespace

TEST_CASE("study/whatif: each change takes what a plan for the changed cluster takes") {
  const planner::Request request = request_for(home4(), "tensor");
  const planner::Plan plan = planned(request);
  const WhatIf answer = asked(plan);
  const auto check = [&](Kind kind, const std::string& subject, const planner::Request& changed) {
    CAPTURE(subject);
    const double expected = std::min(request_s(planned(changed)), answer.unchanged_s);
    CHECK(std::abs(*find(answer, kind, subject).request_s / expected - 1.0) < 1e-9);
  };
  planner::Request changed = request;
  changed.cluster = with_links(request.cluster, [](model::Link& link) {
    if (link.name == "wifi-laptop") link.latency = model::Seconds{0.5 * link.latency.value()};
  });
  check(Kind::latency, "wifi-laptop", changed);
  changed = request;
  changed.cluster = with_devices(request.cluster, [](model::Device& device) {
    if (device.name != "mini-pc") return;
    device.flop_rate = model::FlopsPerSecond{2.0 * device.flop_rate.value()};
    device.memory_bandwidth = model::BytesPerSecond{2.0 * device.memory_bandwidth.value()};
  });
  check(Kind::speed, "mini-pc", changed);
  CHECK(std::abs(answer.planned_s / request_s(plan) - 1.0) < 1e-9);
  CHECK(answer.unchanged_s <= answer.planned_s);
  for (const WhatIfChange& change : answer.changes) {  // what is better in itself slows nothing
    CAPTURE(to_text(change));
    CHECK(answer.gain(change) >= 0.0);
  }
  const auto possible = [](const WhatIfChange& change) { return change.request_s.has_value(); };
  CHECK(std::ranges::is_partitioned(answer.changes, possible));
  for (std::size_t i = 1; i < answer.changes.size() && possible(answer.changes[i]); ++i)
    CHECK(*answer.changes[i - 1].request_s <= *answer.changes[i].request_s);
}

TEST_CASE("study/whatif: devices that are alike have the same answers, and only they") {
  const model::Cluster near = with_links(model::test::star(4), [](model::Link& link) {
    link.bandwidth = model::BytesPerSecond{1e8};
    if (link.name == "d3-link") link.latency = model::Seconds{1e-2};
  });
  const planner::Request request = request_for(near, "tensor");
  const WhatIf answer = asked(planned(request));
  for (const Kind kind : {Kind::add, Kind::speed, Kind::memory}) {
    const auto of = [&](const char* name) { return *find(answer, kind, name).request_s; };
    CAPTURE(to_text(find(answer, kind, "d1")));
    CHECK(of("d1") == doctest::Approx(of("d2")).epsilon(1e-9));
    // There is enough memory, and the farthest device decides how long sums take.
    if (kind != Kind::memory && kind != Kind::add)
      CHECK(std::abs(of("d1") / of("d3") - 1.0) > 1e-6);
  }
  for (const char* const name : {"d1", "d2", "d3"}) {
    CAPTURE(name);
    planner::Request changed = request;
    changed.cluster = with_copy(near, name);
    const double added = *find(answer, Kind::add, name).request_s;
    const double expected = std::min(request_s(planned(changed)), answer.unchanged_s);
    CHECK(std::abs(added / expected - 1.0) < 1e-9);
  }
}

// Of shares by memory alone one planned anew may be slower, and a second device that is far away
// is of no use.
TEST_CASE("study/whatif: what is bought never counts as a loss, against any plan without it") {
  const model::Cluster far = with_links(home4(), [](model::Link& link) {
    link.latency = model::Seconds{20.0 * link.latency.value()};
  });
  for (const char* const strategy : {"tensor", "pipeline"}) {
    CAPTURE(strategy);
    WhatIf answer = asked(planned(request_for(far, strategy)));
    for (const double faster : {1.0, 0.9, 0.5}) {
      answer.compare_with(faster * answer.planned_s);
      CHECK(answer.unchanged_s <= faster * answer.planned_s);
      for (const WhatIfChange& change : answer.changes) {
        CAPTURE(to_text(change));
        if (change.request_s) CHECK(answer.gain(change) >= 0.0);
      }
    }
  }
}

TEST_CASE("study/whatif: a model that streams asks for memory" * doctest::test_suite("long")) {
  const model::Cluster small = with_devices(
      home4(), [](model::Device& device) { device.memory = model::parse_bytes("480MiB", "test"); });
  planner::Request request = request_for(small, "tensor");
  request.model = request.model.first_layers(8);
  request.window.blocks.reset();
  const planner::Plan plan = planned(request);
  REQUIRE(std::ranges::any_of(
      plan.devices, [](const planner::DevicePlan& device) { return device.window.streams(); }));
  const WhatIf answer = asked(plan);
  double memory = 0.0;
  for (const WhatIfChange& change : answer.changes) {
    if (change.kind == Kind::memory) memory = std::max(memory, answer.gain(change));
  }
  CHECK(memory > 0.05);
}

TEST_CASE("study/whatif: SimGrid answers, too, also of other strategies" *
          doctest::test_suite("long")) {
  for (const char* const strategy : {"pipeline", "galaxy", "sp", "local"}) {
    CAPTURE(strategy);
    const model::Cluster roomy = with_devices(home4(), [](model::Device& device) {
      device.memory = model::parse_bytes("16GiB", "test");
    });
    const WhatIf answer = asked(planned(request_for(roomy, strategy)), EvaluatorKind::simgrid);
    for (const WhatIfChange& change : answer.changes) {
      CAPTURE(to_text(change));
      CAPTURE(change.obstacle);
      CHECK(change.request_s.has_value());
    }
  }
}

// Two pairs of devices, each pair's own network far nearer than the way between them.
TEST_CASE("study/whatif: a plan of groups keeps them, whoever comes or goes") {
  planner::Request request = request_for(home4(), "pipeline");
  request.groups = "desktop,mini-pc/laptop,board";
  request.allreduce = "ring";
  request.group_strategy = "galaxy";
  request.tiles = 1;
  const planner::Plan plan = planned(request);
  REQUIRE(planner::group_names(plan) == request.groups);
  const WhatIf answer = asked(plan);
  const auto check = [&](Kind kind, const std::string& subject, const planner::Request& changed) {
    CAPTURE(subject);
    const double expected = std::min(request_s(planned(changed)), answer.unchanged_s);
    CHECK(std::abs(*find(answer, kind, subject).request_s / expected - 1.0) < 1e-9);
  };
  planner::Request changed = request;
  changed.cluster = with_copy(request.cluster, "board");
  changed.groups = "desktop,mini-pc/laptop,board,board-2";
  check(Kind::add, "board", changed);
  CHECK(std::abs(answer.planned_s / request_s(plan) - 1.0) < 1e-9);
}

TEST_CASE("study/whatif: a plan of several rounds is held against one with other rounds" *
          doctest::test_suite("long")) {
  planner::Request request = request_for(home4(), "pipeline");
  request.cluster = with_devices(request.cluster, [](model::Device& device) {
    device.memory = model::parse_bytes("600MiB", "test");
  });
  request.rounds = 3;
  request.window.blocks.reset();
  const planner::Plan plan = planned(request);
  REQUIRE(planner::has_rounds(plan));
  const WhatIf answer = asked(plan);
  planner::Request changed = request;
  changed.rounds.reset();
  changed.cluster = with_devices(request.cluster, [](model::Device& device) {
    if (device.name == "board") device.memory = model::Bytes{2.0 * device.memory.value()};
  });
  const double expected = std::min(request_s(planned(changed)), answer.unchanged_s);
  CHECK(std::abs(*find(answer, Kind::memory, "board").request_s / expected - 1.0) < 1e-9);
  CHECK(std::abs(answer.planned_s / request_s(plan) - 1.0) < 1e-9);
  CHECK(answer.unchanged_s <= answer.planned_s);
}

TEST_CASE("study/whatif: another device has links of its own, and shares what is shared") {
  const model::Cluster home = home4();
  const model::Cluster more = with_copy(home, "desktop");
  REQUIRE(more.size() == 5);
  CHECK(more.devices()[4].name == "desktop-2");
  CHECK(more.links().size() == home.links().size() + 1);
  const auto route = [&](const char* from, const char* to) {
    return more.route(more.find(from), more.find(to));
  };
  CHECK(route("desktop-2", "board").latency == route("desktop", "board").latency);
  CHECK(route("desktop-2", "board").bandwidth == route("desktop", "board").bandwidth);
  CHECK(route("desktop-2", "desktop").hops.size() == 2);
  const model::Cluster radio = with_copy(home, "laptop");  // Wi-Fi is one medium
  CHECK(radio.links().size() == home.links().size());
  CHECK(without_device(more, "desktop-2").devices() == home.devices());
  CHECK_THROWS_AS(static_cast<void>(without_device(home, "nobody")), Error);
}

}  // namespace tandem::study::whatif_test
