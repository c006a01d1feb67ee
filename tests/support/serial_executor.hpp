#pragma once

// Executes a task graph in the order of its indices, all devices in this process: the execution
// that defines a graph's results. Transfers are copies; there are no threads, lanes or sockets.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/compute/sampling.hpp"
#include "exec/weights/shard.hpp"
#include "model/base/error.hpp"
#include "model/graph/accesses.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::testing {

// `count` equal devices around one router, enough memory for any test.
inline model::Cluster star_of(int count) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) {
    const std::string name = "device-" + std::to_string(i);
    model::Device device;
    device.name = name;
    device.flop_rate = model::FlopsPerSecond{1e11};
    device.memory_bandwidth = model::BytesPerSecond{1e10};
    device.memory = model::Bytes{1e10};
    devices.push_back(device);
    links.push_back({"link-" + std::to_string(i), model::Seconds{1e-3}, model::BytesPerSecond{1e8},
                     model::Sharing::shared});
    edges.push_back({name, "router", {{i, model::Direction::none}}, true});
  }
  return {"star", devices, {"router"}, links, edges};
}

// The plan of `strategy` over `count` devices; `partition` as in `tandem plan`. Throws Error if
// there is none.
inline planner::Plan plan_for(const model::Transformer& transformer, const std::string& strategy,
                              int count, const std::string& partition, std::int64_t prompt_tokens,
                              std::int64_t new_tokens) {
  planner::Request request{.model = transformer,
                           .cluster = star_of(count),
                           .strategy = strategy,
                           .partition = partition,
                           .workload = {prompt_tokens, new_tokens}};
  auto plan = planner::make_plan(request);
  if (const auto* infeasible = std::get_if<planner::Infeasible>(&plan)) {
    throw Error(infeasible->reason);
  }
  return std::get<planner::Plan>(std::move(plan));
}

// A pipeline of so many rounds, or of groups, through windows of so many blocks (0: none).
inline planner::Plan stages_for(const model::Transformer& transformer, int count,
                                const planner::Workload& workload, std::int32_t rounds,
                                const std::string& groups = "", std::int32_t window = 0,
                                const std::string& group_strategy = "") {
  const model::Cluster star = star_of(count);
  std::vector<model::Device> devices = star.devices();
  for (model::Device& device : devices) device.disk_bandwidth = model::BytesPerSecond{1e9};
  const planner::Request request{
      .model = transformer,
      .cluster = {"star", devices, {"router"}, star.links(), star.edges()},
      .strategy = "pipeline",
      .partition = "equal",
      .workload = workload,
      .window = {.blocks = window, .retain = 0},
      .rounds = rounds,
      .groups = groups,
      .group_strategy = group_strategy};
  auto plan = planner::make_plan(request);
  if (const auto* infeasible = std::get_if<planner::Infeasible>(&plan))
    throw Error(infeasible->reason);
  return std::get<planner::Plan>(std::move(plan));
}

class SerialExecutor {
 public:
  // Slices every device's shard out of the folder `weights`. `plan` must outlive this.
  SerialExecutor(const planner::Plan& plan, const std::filesystem::path& weights)
      : SerialExecutor(plan, [&] {
          std::vector<exec::Shard> shards;
          for (const planner::DevicePlan& device : plan.devices)
            shards.push_back(exec::Shard::slice(weights, plan.model, device.share));
          return shards;
        }()) {}
  // Of shards that are there.
  SerialExecutor(const planner::Plan& plan, std::vector<exec::Shard> shards) : plan_(&plan) {
    const auto tokens =
        static_cast<std::int32_t>(plan.workload.prompt_tokens + plan.workload.new_tokens);
    // Parts of a cache are those of the plan's own prompt.
    const planner::Capacity room =
        planner::sharding_of(plan).splits_positions()
            ? plan.reserved()
            : planner::Capacity{.rows = tokens, .positions = tokens, .sequences = 1};
    const std::vector<model::DeviceStorage> storage =
        planner::storage_of(plan, planner::extents_of(room));
    for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      const exec::ComputeLimits limits{.max_rows = tokens,
                                       .cache_positions = tokens,
                                       .buffers = storage[static_cast<std::size_t>(d)].buffers,
                                       .threads = 1};
      devices_.emplace_back(plan.model, std::move(shards.at(static_cast<std::size_t>(d))), limits);
      if (plan.model.rotates_long(plan.workload.positions())) devices_.back().rotate_long({0});
    }
  }

  // Called after each task.
  std::function<void(const model::Task&)> after{};
  // Rows and columns of a buffer of a device.
  [[nodiscard]] std::vector<float> read(model::DeviceIndex d, model::BufferRef buffer,
                                        model::Range rows, model::Range columns) const {
    std::vector<float> values(static_cast<std::size_t>(rows.size()) *
                              static_cast<std::size_t>(columns.size()));
    devices_[static_cast<std::size_t>(d)].read_rows(buffer, rows, columns, values);
    return values;
  }

  // One step of the only sequence: `ids` follow the positions of earlier steps. Returns the logits
  // of the last of them.
  std::vector<float> step(std::span<const std::int32_t> ids) {
    const auto rows = static_cast<std::int32_t>(ids.size());
    model::Batch batch{{{0, past_, rows}}};
    if (std::exchange(rewound_, false)) {
      const bool all = past_ == 0;
      batch.cache = {{.kind = all ? model::CacheOpKind::free : model::CacheOpKind::truncate,
                      .sequence = 0,
                      .positions = past_}};
    }
    std::vector<float> logits = execute(batch, ids).first;
    past_ += rows;
    if (logits.empty()) throw std::logic_error("the graph samples nothing");
    return logits;
  }

  // Forgets all but the first `positions` of the sequence: the next step continues there.
  void rewind(std::int32_t positions) {
    past_ = positions;
    rewound_ = true;
  }
  // What the last transfer carried.
  [[nodiscard]] std::span<const std::byte> payload() const { return payload_; }

  // The pass of an encoder: the hidden states of all rows, [ids, hidden].
  std::vector<float> encode(std::span<const std::int32_t> ids) {
    const auto rows = static_cast<std::int32_t>(ids.size());
    const auto [logits, result] =
        execute({{{.sequence = 0, .past = 0, .rows = rows, .sampled = 0}}}, ids);
    if (!logits.empty() || result.kind == model::BufferKind::none)
      throw std::logic_error("the graph is not an encoder's");
    const auto hidden = static_cast<std::int32_t>(plan_->model.hidden);
    std::vector<float> states(static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden));
    device(plan_->master).read_rows(result, {0, rows}, {0, hidden}, states);
    return states;
  }

  // The prompt in one step, then `count` - 1 further steps, greedily. Appends every step's logits
  // to `logits`.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, int count,
                                     std::vector<std::vector<float>>& logits) {
    exec::Sampler greedy({});
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> next(prompt.begin(), prompt.end());
    for (int i = 0; i < count; ++i) {
      logits.push_back(step(next));
      next = {greedy.sample(logits.back())};
      tokens.push_back(next.front());
    }
    return tokens;
  }

 private:
  // Logits of the last sampled row, and where the final norm left its rows.
  std::pair<std::vector<float>, model::BufferRef> execute(const model::Batch& batch,
                                                          std::span<const std::int32_t> ids) {
    const model::TaskGraph graph = planner::find_strategy(plan_->strategy).lower(*plan_, batch);
    for (std::size_t d = 0; d < devices_.size(); ++d)
      devices_[d].begin(batch, model::cached_rows(graph, static_cast<model::DeviceIndex>(d)));
    device(plan_->master).set_tokens(ids);
    std::vector<float> logits;
    model::BufferRef normed;
    for (const model::Task& task : graph.tasks()) {
      if (task.kind == model::TaskKind::sample) {
        const std::span<const float> values = device(task.device).logits();
        logits.assign(values.begin(), values.end());
      } else if (task.lane == model::LaneKind::channel) {
        transfer(graph.batch(), task);
      } else if (task.lane == model::LaneKind::cpu) {
        device(task.device).execute(graph.batch(), task);
      }
      if (after) after(task);
      const bool last =
          task.kind == model::TaskKind::norm && task.block == model::WeightBlock::head;
      if (last) normed = task.output;
    }
    return {logits, normed};
  }

  exec::Compute& device(model::DeviceIndex d) { return devices_[static_cast<std::size_t>(d)]; }

  void transfer(const model::Batch& batch, const model::Task& task) {
    payload_.resize(static_cast<std::size_t>(model::payload_bytes(task)));
    device(task.device).capture(batch, task, payload_);
    device(task.peer).deliver(batch, task, payload_);
  }

  const planner::Plan* plan_;
  std::vector<exec::Compute> devices_;
  std::vector<std::byte> payload_;
  std::int32_t past_ = 0;
  bool rewound_ = false;
};

}  // namespace tandem::testing
