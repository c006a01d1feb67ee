// The executor does on every device what the predictors charge to it, in the same order.

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/runtime/lane_programs.hpp"
#include "model/predict/program.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/relay_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::program_run_test {
namespace {

using model::TaskKind;
using Done = std::vector<std::pair<TaskKind, model::TaskIndex>>;

// What the cpu lane of `device` does, by the predictors.
Done charged(const model::Program& program, model::DeviceIndex device) {
  Done done;
  for (const model::LaneAction& action : program.actions()) {
    if (action.lane == model::LaneKind::cpu && action.device == device)
      done.emplace_back(action.kind, action.task);
  }
  return done;
}

// What its computing thread does.
Done executed(const model::TaskGraph& graph, model::DeviceIndex device) {
  Done done;
  for (const Action& action : make_lane_programs(graph, device).actions) {
    switch (action.kind) {
      case Action::Kind::run:
        done.emplace_back(graph.tasks()[static_cast<std::size_t>(action.task)].kind, action.task);
        break;
      case Action::Kind::capture:
        done.emplace_back(TaskKind::capture, action.task);
        break;
      case Action::Kind::deliver:
        done.emplace_back(TaskKind::deliver, action.task);
        break;
      case Action::Kind::await:
        break;
    }
  }
  return done;
}

// How many of the devices' actions were compared.
std::size_t check_order(const model::TaskGraph& graph, model::DeviceIndex devices) {
  const model::Program program(graph);
  std::size_t compared = 0;
  for (model::DeviceIndex d = 0; d < devices; ++d) {
    CAPTURE(d);
    const Done expected = charged(program, d);
    CHECK(executed(graph, d) == expected);
    compared += expected.size();
  }
  // Everything comes after what it waits for, and the message after its capture.
  for (model::ActionIndex i = 0; i < program.size(); ++i) {
    for (const model::ActionIndex d : program.dependencies(i)) REQUIRE(d < i);
  }
  return compared;
}

std::size_t check_plan(const planner::Request& request) {
  const auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  const auto& plan = std::get<planner::Plan>(made);
  planner::GenerationSteps steps(plan);
  std::size_t compared = 0;
  for (std::int32_t i = 0; i < 2; ++i) compared += check_order(steps.graph(i), plan.cluster.size());
  return compared;
}

TEST_CASE("exec/program: computing threads act in the order that the predictors charge") {
  std::size_t compared = 0;
  for (const std::string strategy : {"tensor", "pipeline"}) {
    for (int devices = 1; devices <= 5; ++devices) {
      for (const std::string partition : {"equal", "galaxy"}) {
        if (strategy == "pipeline" && partition == "galaxy") continue;
        for (const std::int32_t window : {0, 3}) {
          for (const std::string& allreduce : test::kAllreduces) {
            if (strategy == "pipeline" && allreduce != "star") continue;
            CAPTURE(strategy);
            CAPTURE(devices);
            CAPTURE(partition);
            CAPTURE(window);
            CAPTURE(allreduce);
            planner::Request request{.model = testing::eight_heads(),
                                     .cluster = testing::star_of(devices),
                                     .strategy = strategy,
                                     .partition = partition,
                                     .allreduce = allreduce,
                                     .workload = {.prompt_tokens = 5, .new_tokens = 3}};
            request.model.layers = 5;
            request.window.blocks = window;
            if (window > 0) {
              std::vector<model::Device> all = request.cluster.devices();
              for (model::Device& device : all) device.disk_bandwidth = model::BytesPerSecond{1e9};
              request.cluster = {"disks", all, request.cluster.routers(), request.cluster.links(),
                                 request.cluster.edges()};
            }
            compared += check_plan(request);
          }
        }
      }
    }
  }
  CHECK(compared > 10'000);
}

TEST_CASE("exec/program: the same on 300 random graphs, with fewer dependencies than needed") {
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::array kBuffers{model::BufferKind::none, model::BufferKind::hidden,
                                model::BufferKind::partial, model::BufferKind::receive};
  std::size_t compared = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const std::size_t devices = 2 + below(3);
    model::TaskGraph graph(model::Batch{{{.rows = 3}}});
    for (std::size_t i = 5 + below(40); i > 0; --i) {
      model::Task task;
      task.device = static_cast<model::DeviceIndex>(below(devices));
      const auto row = static_cast<std::int32_t>(below(3));
      task.rows = {row, 3};
      task.columns = {0, 1 + static_cast<std::int32_t>(below(8))};
      task.input.kind = kBuffers.at(below(kBuffers.size()));
      task.output.kind = kBuffers.at(below(kBuffers.size()));
      if (below(2) == 0) {
        task.kind = TaskKind::transfer;
        task.lane = model::LaneKind::channel;
        task.peer = static_cast<model::DeviceIndex>(
            (static_cast<std::size_t>(task.device) + 1 + below(devices - 1)) % devices);
      }
      std::vector<model::TaskIndex> dependencies;
      for (model::TaskIndex j = 0; j < graph.size(); ++j) {
        const model::Task& before = graph.tasks()[static_cast<std::size_t>(j)];
        if ((before.device == task.device || before.peer == task.device) && below(8) == 0)
          dependencies.push_back(j);
      }
      if (graph.size() > 0 && below(4) == 0) {
        tandem::test::try_relay(
            graph, static_cast<model::TaskIndex>(below(static_cast<std::size_t>(graph.size()))),
            static_cast<model::DeviceIndex>(below(devices)), task, dependencies);
      }
      graph.add(task, dependencies);
    }
    compared += check_order(graph, static_cast<model::DeviceIndex>(devices));
  }
  CHECK(compared > 5'000);
}

}  // namespace
}  // namespace tandem::exec::program_run_test
