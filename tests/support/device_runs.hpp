#pragma once

// A plan's generation with every device on a thread, and what it is held against.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/session/master.hpp"
#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/memory_transport.hpp"

namespace tandem::testing {

struct Ran {
  std::vector<std::vector<float>> logits;  // of each step, where all are there
  std::vector<std::int32_t> tokens;
  std::vector<double> sent;  // bytes, by device
};

// Warmed up before, as runs are. `shard_of` makes a device's weights, of its number. Memory is to
// be what the plan says, of all that the master connects to.
template <class ShardOf>
Ran executed(const planner::Plan& plan, const std::vector<std::int32_t>& prompt,
             const ShardOf& shard_of, const exec::SamplingOptions& sampling = {}) {
  MemoryNetwork network({.max_delay = std::chrono::microseconds(50), .seed = 9});
  Ran ran{.logits = {}, .tokens = {}, .sent = std::vector<double>(plan.devices.size())};
  std::vector<bool> starts = exec::workers_of(plan);
  starts[static_cast<std::size_t>(plan.master)] = true;
  const auto errors = on_each_device(
      plan.devices.size(),
      [&](model::DeviceIndex self) {
        const auto d = static_cast<std::size_t>(self);
        MemoryTransport transport(network, self);
        exec::DeviceRun device(plan, {.self = self, .run = {.workload = plan.workload}},
                               {shard_of(d), nullptr}, &transport);
        exec::Sampler sampler(sampling);
        const auto sample = [&](const exec::Scores& scores) {
          if (scores.whole())
            ran.logits.emplace_back(scores.logits().begin(), scores.logits().end());
          ran.tokens.push_back(sampler.sample(scores));
          return ran.tokens.back();
        };
        std::vector<std::int32_t> tokens = prompt;
        for (int i = 0; i < plan.workload.steps(); ++i) {
          const std::int32_t token =
              device.step(i, self == plan.master ? tokens : std::vector<std::int32_t>{}, sample);
          tokens = {token};
        }
        const exec::DeviceReport report = device.report();
        ran.sent[d] = report.bytes_sent;
        const model::MemoryUse& got = report.peak_memory;
        const model::MemoryUse& said = plan.devices[d].memory;
        if (!starts[d]) return;
        if (got.kv_cache != said.kv_cache || got.activations != said.activations ||
            got.buffers > said.buffers)
          throw Error("memory is not as predicted");
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  return ran;
}

// By device, of all steps.
inline std::vector<double> predicted_bytes(const planner::Plan& plan, model::Steps& steps) {
  std::vector<double> sent(plan.devices.size());
  for (std::int32_t i = 0; i < steps.count(); ++i) {
    const model::TaskGraph& graph = steps.graph(i);
    for (const model::Task& task : graph.tasks()) {
      if (task.kind == model::TaskKind::transfer)
        sent[static_cast<std::size_t>(task.device)] +=
            model::work_of(plan.model, graph.batch(), task).bytes_wire;
    }
  }
  return sent;
}
inline std::vector<double> predicted_bytes(const planner::Plan& plan) {
  planner::GenerationSteps steps(plan);
  return predicted_bytes(plan, steps);
}

}  // namespace tandem::testing
