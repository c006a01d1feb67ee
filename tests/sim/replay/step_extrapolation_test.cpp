// Runs that are extrapolated, held against the same runs evaluated step by step.

#include "model/predict/step_extrapolation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace tandem::sim::testing::step_extrapolation_test {
namespace {

using planner::Plan;

constexpr std::int64_t kTokens = 90;

// Counts the graphs that are asked for.
class Counted : public model::Steps {
 public:
  explicit Counted(model::Steps& steps) : steps_(steps) {}
  [[nodiscard]] std::int32_t count() const override { return steps_.count(); }
  const TaskGraph& graph(std::int32_t i) override {
    ++asked;
    return steps_.graph(i);
  }
  [[nodiscard]] bool any_order() const override { return steps_.any_order(); }
  int asked = 0;

 private:
  model::Steps& steps_;
};

model::DeviceProfile measured(const model::Device& device, double factor) {
  model::DeviceProfile profile = model::nominal_profile(device);
  for (auto& rate : profile.rate) {
    rate.overhead_s = 3e-6 * factor;
    rate.points = {{.intensity = 1.0, .seconds_per_byte = 1.1e-9 * factor},
                   {.intensity = 4.0, .seconds_per_byte = 1.7e-9 * factor},
                   {.intensity = 64.0, .seconds_per_byte = 9e-9 * factor}};
  }
  return profile;
}

struct Case {
  std::string strategy;
  std::int32_t window = 0;
  bool late = false;
  bool profiled = false;
  double link_Bps = 1e6;
  double disk_Bps = 2e8;
};

Plan plan_of(const Case& c) {
  const test::ModelSizes sizes{
      .layers = 3, .heads = 6, .kv_heads = 3, .head_dim = 16, .intermediate = 203, .vocab = 301};
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int d = 0; d < 3; ++d) {
    model::Device made = device("d" + std::to_string(d));
    made.memory_bandwidth = model::BytesPerSecond{1e9 / (1.0 + 0.7 * d)};
    made.disk_bandwidth = model::BytesPerSecond{c.disk_Bps / (1.0 + 0.3 * d)};
    devices.push_back(made);
    links.push_back(link("l" + std::to_string(d), 1e-4 * (d + 1), c.link_Bps * (d + 1),
                         model::Sharing::split_duplex));
    edges.push_back({made.name, "r", {{d, model::Direction::up}}, true});
  }
  planner::Request request{.model = test::small_model(sizes),
                           .cluster = {"three", devices, {"r"}, links, edges},
                           .strategy = c.strategy,
                           .workload = {.prompt_tokens = 4, .new_tokens = kTokens}};
  request.model.max_context = 4096;
  request.partition = "equal";
  request.window.blocks = c.window;
  request.release = c.late ? model::ReleaseRule::late : model::ReleaseRule::early;
  if (c.profiled) {
    for (std::size_t d = 0; d < devices.size(); ++d)
      request.profiles.push_back(measured(devices[d], 1.0 + 0.6 * static_cast<double>(d)));
  }
  auto result = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(result));
  return std::get<Plan>(std::move(result));
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

void check_equal(const model::RunRecorder& a, const model::RunRecorder& b) {
  const auto times = a.metrics().token_times_s;
  const auto others = b.metrics().token_times_s;
  CHECK(near(a.metrics().ttft_s, b.metrics().ttft_s));
  REQUIRE(times.size() == others.size());
  for (std::size_t i = 0; i < times.size(); ++i) CHECK(near(times[i], others[i]));
  const auto gaps = a.metrics().token_latencies_s();
  const auto other_gaps = b.metrics().token_latencies_s();
  for (std::size_t i = 0; i < gaps.size(); ++i) CHECK(near(gaps[i], other_gaps[i]));
  for (std::size_t d = 0; d < a.devices().size(); ++d) {
    const model::DeviceMetrics x = a.devices()[d];
    const model::DeviceMetrics y = b.devices()[d];
    CHECK(near(x.bytes_sent, y.bytes_sent));
    CHECK(near(x.bytes_loaded, y.bytes_loaded));
    CHECK(near(x.busy_cpu_s, y.busy_cpu_s));
    CHECK(near(x.busy_disk_s, y.busy_disk_s));
    CHECK(near(x.busy_channel_s, y.busy_channel_s));
    CHECK(near(x.stall_s, y.stall_s));
    for (std::size_t k = 0; k < a.kinds()[d].size(); ++k) {
      CHECK(a.kinds()[d][k].count == b.kinds()[d][k].count);
      CHECK(near(a.kinds()[d][k].total_s, b.kinds()[d][k].total_s));
    }
  }
  for (std::size_t i = 0; i < a.links().size(); ++i)
    CHECK(near(a.links()[i].bytes, b.links()[i].bytes));
  const auto steady = a.steady(1e-9);
  const auto other = b.steady(1e-9);
  REQUIRE(steady.has_value() == other.has_value());
  if (!steady) return;
  CHECK(steady->verdict == other->verdict);
  CHECK(std::abs(steady->stall_fraction - other->stall_fraction) <= 1e-9);
  CHECK(std::abs(steady->slack_s - other->slack_s) <= 1e-9 * times.back());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool profiled : {false, true}) {
    for (const double link_Bps : {1e5, 1e9}) {
      for (const char* strategy : {"local", "tensor", "pipeline"}) {
        all.push_back({.strategy = strategy, .profiled = profiled, .link_Bps = link_Bps});
        for (const std::int32_t window : {1, 2, 3}) {
          for (const double disk_Bps : {2e7, 2e8, 2e9}) {
            all.push_back({strategy, window, window % 2 == 0, profiled, link_Bps, disk_Bps});
          }
        }
      }
    }
  }
  return all;
}

using Evaluate = void(const model::Cluster&, const model::CostModel&, model::Steps&,
                      model::RunRecorder&);

// Of every so many cases. Returns the graphs asked for, of the steps.
double check_all(Evaluate* every_step, Evaluate* extrapolation, std::size_t one_in = 1) {
  int evaluated = 0;
  int most = 0;
  int runs = 0;
  const std::vector<Case> all = cases();
  for (std::size_t i = 0; i < all.size(); i += one_in) {
    const Case& c = all[i];
    CAPTURE(c.strategy);
    CAPTURE(c.window);
    CAPTURE(c.late);
    CAPTURE(c.profiled);
    CAPTURE(c.link_Bps);
    CAPTURE(c.disk_Bps);
    const Plan plan = plan_of(c);
    planner::GenerationSteps steps(plan);
    model::RunRecorder every(plan.cluster, plan.master, false);
    every_step(plan.cluster, plan.cost_model(), steps, every);
    Counted counted(steps);
    model::RunRecorder extrapolated(plan.cluster, plan.master, false);
    extrapolation(plan.cluster, plan.cost_model(), counted, extrapolated);
    check_equal(every, extrapolated);
    evaluated += counted.asked;
    most = std::max(most, counted.asked);
    ++runs;
  }
  CAPTURE(most);
  return evaluated / static_cast<double>(runs * kTokens);
}

}  // namespace

TEST_CASE(
    "model/step extrapolation: analytic runs are as step by step to 1e-9, in a third of the "
    "steps") {
  const double asked = check_all(model::evaluate_analytic, model::extrapolate_analytic);
  CHECK(asked < 1.0 / 3.0);
}

TEST_CASE("sim/replay: extrapolated runs are as step by step to 1e-9") {
  (void)check_all(evaluate_fair, extend_fair);
  (void)check_all(replay, replay_extrapolated, 7);
}

TEST_CASE("model/step extrapolation: a decision counts as alike only if it is the right one") {
  // 2 waits for 0 and 1.
  TaskGraph graph(one_row());
  graph.add(addition(0, 1), {});
  graph.add(addition(1, 1), {});
  graph.add(addition(2, 1), {0, 1});
  model::Decisions first;
  model::Decisions second;
  const model::StepState idle{{0.0, 0.0, 0.0}, {}};
  const auto times = [](double a, double b) {
    const double start = std::max(a, b);
    return model::StepTimes{{0, 1, 2}, {a, b, start + 1.0}, {a, b, start + 1.0}};
  };
  CHECK(model::decide(model::Program(graph), idle, times(1.0, 2.0), nullptr, first));
  CHECK(first.start == std::vector<std::int32_t>{-1, -1, 1});
  CHECK(model::decide(model::Program(graph), idle, times(1.5, 2.0), &first, second));
  CHECK(model::decide(model::Program(graph), idle, times(2.0, 2.0), &first, second));
  CHECK(!model::decide(model::Program(graph), idle, times(2.1, 2.0), &first, second));
  CHECK(second.start == std::vector<std::int32_t>{-1, -1, 0});
  CHECK(!model::decide(model::Program(graph), {{0.0, 0.0, 2.5}, {}}, times(1.5, 2.0), &first,
                       second));
}

}  // namespace tandem::sim::testing::step_extrapolation_test
