// A result is made of sums that devices keep while they run. One set of records is fed to both
// ways: added up by each device, and one by one, as spans, to the recorder that predictions use.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/runtime/run_result.hpp"
#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/run_accounts.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::run_tally_test {
namespace {

std::unique_ptr<FirstSteps> first_steps(StepGraphs& graphs, std::int32_t count) {
  return std::make_unique<FirstSteps>(graphs, count);
}

void check_close(double a, double b) {
  CHECK((std::abs(a - b) <= 1e-9 * std::max({std::abs(a), std::abs(b), 1e-3})));
}

void check_equal(const model::RunRecorder& spans, const model::Result& result) {
  check_close(result.metrics.ttft_s, spans.metrics().ttft_s);
  REQUIRE(result.metrics.token_times_s.size() == spans.metrics().token_times_s.size());
  for (std::size_t i = 0; i < result.metrics.token_times_s.size(); ++i) {
    check_close(result.metrics.token_times_s[i], spans.metrics().token_times_s[i]);
  }
  std::size_t next = 0;
  for (std::size_t d = 0; d < spans.devices().size(); ++d) {
    const model::DeviceMetrics a = spans.devices()[d];
    const model::DeviceMetrics& b = result.devices[d];
    CAPTURE(a.name);
    CHECK(b.bytes_sent == a.bytes_sent);
    CHECK(b.bytes_loaded == a.bytes_loaded);
    check_close(b.busy_cpu_s, a.busy_cpu_s);
    check_close(b.busy_disk_s, a.busy_disk_s);
    check_close(b.busy_channel_s, a.busy_channel_s);
    check_close(b.stall_s, a.stall_s);
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const model::KindMetrics& kind = spans.kinds()[d][static_cast<std::size_t>(k)];
      if (kind.count == 0) continue;
      REQUIRE(next < result.task_kinds.size());
      const model::KindResult& got = result.task_kinds[next++];
      CHECK(got.kind == static_cast<model::TaskKind>(k));
      CHECK(got.device == a.name);
      CHECK(got.metrics.count == kind.count);
      check_close(got.metrics.total_s, kind.total_s);
    }
  }
  CHECK(next == result.task_kinds.size());
  for (std::size_t l = 0; l < result.links.size(); ++l) {
    CHECK(result.links[l].bytes == spans.links()[l].bytes);
  }
  const auto steady = spans.steady(0.01);
  REQUIRE(steady.has_value() == result.steady.has_value());
  if (!steady) return;
  CHECK(result.steady->verdict == steady->verdict);
  check_close(result.steady->stall_fraction, steady->stall_fraction);
  check_close(result.steady->slack_s, steady->slack_s);
}

struct Case {
  int devices = 1;
  std::int32_t window = 0;  // 0: nothing is streamed
  int planned = 5;          // tokens
  int steps = 5;            // of them, until a stop token
};

planner::Plan plan_of(const Case& c) {
  planner::Plan plan =
      testing::plan_for(testing::eight_heads(), c.devices == 1 ? "local" : "tensor", c.devices,
                        c.devices == 3 ? "5:2:1" : "equal", 5, c.planned);
  for (planner::DevicePlan& device : plan.devices) {
    device.window = planner::normalized(plan.model, device.share, {.blocks = c.window});
  }
  return plan;
}

TEST_CASE("exec/tally: sums say what the spans of every task say, and a trace changes nothing") {
  std::uint64_t seed = 0;
  int stalls = 0;
  for (const int devices : {1, 2, 3, 5}) {
    for (const std::int32_t window : {0, 1, 3}) {
      for (const auto& [planned, steps] : {std::pair(1, 1), {2, 2}, {5, 5}, {9, 4}}) {
        const Case c{.devices = devices, .window = window, .planned = planned, .steps = steps};
        CAPTURE(devices);
        CAPTURE(window);
        CAPTURE(steps);
        const planner::Plan plan = plan_of(c);
        StepGraphs graphs(plan, plan.workload);
        const auto accounts = testing::random_accounts(plan, graphs, steps, ++seed);
        for (const double dilation : {1.0, 2.5}) {
          const RunResult traced =
              merge(plan, *first_steps(graphs, steps), accounts, true, dilation);
          model::RunRecorder spans(plan.cluster, plan.master, false);
          for (const model::Span& span : traced.trace.spans) spans.record(span);
          check_equal(spans, traced.result);
          CHECK(traced.result.steady.has_value() == (window > 0 && steps > 1));
          if (traced.result.steady) stalls += traced.result.steady->stall_fraction > 0.01 ? 1 : 0;

          auto untraced = accounts;
          for (DeviceAccount& account : untraced) account.times.clear();
          const RunResult plain =
              merge(plan, *first_steps(graphs, steps), untraced, false, dilation);
          CHECK(plain.trace.spans.empty());
          CHECK(to_json(plain.result) == to_json(traced.result));
        }
      }
    }
  }
  CHECK(stalls > 20);  // or nothing of it would have been compared
}

TEST_CASE("exec/tally: channels of later tokens need not be used, as a text may end at the first") {
  planner::Plan plan = testing::plan_for(testing::eight_heads(), "tensor", 4, "equal", 5, 5);
  for (const auto& [prompt, token] : {std::pair("star", "ring"), {"ring", "star"}}) {
    CAPTURE(prompt);
    plan.allreduce = {.prompt = prompt, .decode = token};
    StepGraphs graphs(plan, plan.workload);
    const auto accounts = testing::random_accounts(plan, graphs, 1, 3);
    const RunResult run = merge(plan, *first_steps(graphs, 1), accounts, true);
    model::RunRecorder spans(plan.cluster, plan.master, false);
    for (const model::Span& span : run.trace.spans) spans.record(span);
    check_equal(spans, run.result);
  }
}

TEST_CASE("exec/tally: of an encoder, whose pass samples nothing") {
  const model::Transformer bert = model::parse_config_json(
      R"({"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 48, "vocab_size": 300,
          "num_attention_heads": 4, "intermediate_size": 100, "max_position_embeddings": 128,
          "type_vocab_size": 2})",
      "test");
  const planner::Plan plan = testing::plan_for(bert, "tensor", 2, "equal", 7, 0);
  StepGraphs graphs(plan, plan.workload);
  const auto accounts = testing::random_accounts(plan, graphs, 1, 3);
  const RunResult run = merge(plan, *first_steps(graphs, 1), accounts, true);
  model::RunRecorder spans(plan.cluster, plan.master, false);
  for (const model::Span& span : run.trace.spans) spans.record(span);
  CHECK(run.result.metrics.ttft_s > 0.0);
  check_equal(spans, run.result);
}

TEST_CASE("exec/tally: takes no more memory with every step") {
  for (const std::int32_t window : {0, 2}) {
    CAPTURE(window);
    constexpr int kSteps = 40;
    const planner::Plan plan =
        plan_of({.devices = 3, .window = window, .planned = kSteps, .steps = kSteps});
    StepGraphs graphs(plan, plan.workload);
    const auto accounts = testing::random_accounts(plan, graphs, kSteps, 5);
    for (std::size_t d = 0; d < accounts.size(); ++d) {
      Tally tally(static_cast<model::DeviceIndex>(d));
      tally.reserve(kSteps, {&graphs.prompt(), &graphs.decode()});
      const double before = tally.allocated_bytes();
      for (int step = 0; step < kSteps; ++step) {
        std::vector<TaskTime> records;
        for (const TaskTime& time : accounts[d].times) {
          if (time.step == step) records.push_back(time);
        }
        tally.add(graphs.at(step), records);
      }
      CHECK(tally.total() == accounts[d].report.tally);
      CHECK(tally.allocated_bytes() == before);
      // A token's own time, and what its loads took, are 24 bytes of it at most.
      CHECK(before <= 24.0 * kSteps + 8.0 * graphs.prompt().size() + 500.0);
    }
  }
}

TEST_CASE("exec/tally: records count as memory where a timeline is asked for, and only there") {
  planner::Plan plan = plan_of({.devices = 3, .planned = 100, .steps = 100});
  const auto fits = [&](bool keep_records) {
    const StepGraphs graphs(plan, plan.workload);
    const RunOptions run{.workload = plan.workload, .keep_records = keep_records};
    try {
      check_record_memory(plan, graphs, std::span(&plan.master, 1), run);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto give = [&](std::size_t d, double bytes) {
    std::vector<model::Device> devices = plan.cluster.devices();
    devices[d].memory = model::Bytes{bytes};
    plan.cluster = model::Cluster(plan.cluster.name(), devices, plan.cluster.routers(),
                                  plan.cluster.links(), plan.cluster.edges());
  };
  const StepGraphs graphs(plan, plan.workload);
  const RunOptions traced{.workload = plan.workload, .keep_records = true};
  const std::vector<double> bytes = record_bytes(plan, graphs, traced);
  const auto of_step = [&](const model::TaskGraph& graph) {
    double records = 0.0;
    const model::Program program(graph);
    for (const model::LaneAction& action : program.actions()) {
      if (action.device == 1 || action.peer == 1) ++records;
    }
    return records;
  };
  CHECK(bytes[1] == 24.0 * (of_step(graphs.prompt()) + 99.0 * of_step(graphs.decode())));
  CHECK(fits(true).empty());
  give(1, plan.devices[1].memory.total() + bytes[1]);
  CHECK(fits(true).empty());
  give(1, plan.devices[1].memory.total() + bytes[1] - 1.0);
  CHECK(testing::has(fits(true), "leave out --trace"));
  CHECK(testing::has(fits(true), plan.cluster.devices()[1].name));
  CHECK(fits(false).empty());
  // The master also makes the timeline of all.
  give(1, 1e12);
  give(0, plan.devices[0].memory.total() + bytes[0] + bytes[1] + bytes[2]);
  CHECK(testing::has(fits(true), plan.cluster.devices()[0].name));
}

}  // namespace
}  // namespace tandem::exec::run_tally_test
