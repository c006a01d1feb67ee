#pragma once

// The plan: the file that the simulator replays and the executor runs.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/release_rule.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/collective/proximity.hpp"
#include "planner/plan/capacity.hpp"
#include "planner/plan/decode_moves.hpp"
#include "planner/plan/sparse_attention.hpp"
#include "planner/plan/window.hpp"
#include "planner/plan/workload.hpp"

namespace tandem::planner {

// How a strategy that splits makes its sums: names with parameters, as collective/collective.hpp
// parses them.
struct AllreduceChoice {
  std::string prompt{};
  std::string decode{};
  bool operator==(const AllreduceChoice&) const = default;
};

inline constexpr std::int32_t kMostTiles = 64;

// Plan::group_strategy of groups whose prompts are computed as `galaxy` does.
inline constexpr std::string_view kGalaxyGroups = "galaxy";

struct DevicePlan {
  model::Share share;
  model::MemoryUse memory;  // predicted peak
  Window window{};          // of the weights, if they do not stay in memory
  bool operator==(const DevicePlan&) const = default;
};

// Self-contained: `simulate` and `worker` need nothing but this. Invariant after validate(): shares
// are within the model and add up to it as the strategy demands; one device plan and one profile a
// device of the cluster.
struct Plan {
  std::string strategy;       // a name of the table of strategies
  std::string partition;      // how the shares were found; empty where the strategy splits nothing
  AllreduceChoice allreduce;  // both empty where the strategy splits nothing
  Proximity layout{};         // of the sums, likewise
  // Into how many tiles each device's rows of a prompt are cut, so that products overlap with
  // messages (strategy/galaxy.cpp); 0: none do, and where the strategy knows of no tiles.
  std::int32_t tiles = 0;
  DecodeMoves decode_moves = DecodeMoves::queries;  // others where Strategy::moves has them
  // Whether devices that divide the work hold no more than they compute of a new token, and have
  // each layer's other weights come for a prompt (Sharding::gather_weights).
  bool gather_weights = false;
  // How groups of a pipeline compute prompts: kGalaxyGroups, or empty, as `tensor` does.
  std::string group_strategy{};
  model::Transformer model;
  model::Cluster cluster;
  model::DeviceIndex master = 0;
  Workload workload;
  Capacity capacity{};  // memory is reserved for so much besides; zeros: for the workload alone
  std::vector<DevicePlan> devices;             // by DeviceIndex
  std::vector<model::DeviceProfile> profiles;  // by DeviceIndex, slowdown applied
  // When a streamed block's memory is free: after its compute, or after the all-reduce that
  // follows.
  model::ReleaseRule release = model::ReleaseRule::early;
  model::WireFormat wire = model::WireFormat::f32;  // in which activations travel
  // Of a split LM head: how many of its best logits of a row each device sends, with their softmax
  // (model/graph/candidates.hpp); 0: all its logits.
  std::int32_t candidates = 0;
  std::optional<SparseAttention> sparse{};  // of prompts, where the strategy knows of it
  // Throws Error (field, value, expected, remedy) unless the invariant holds. Asks the plan's
  // strategy, and so is defined with the strategies: planner/strategy/plan_validation.cpp.
  void validate() const;
  // All that memory is reserved for: the workload's and the capacity's, whichever is larger.
  [[nodiscard]] Capacity reserved() const { return larger(workload.capacity(), capacity); }
  // Whether some device has weights come from its disk as it computes.
  [[nodiscard]] bool streams() const {
    return std::ranges::any_of(devices,
                               [](const DevicePlan& device) { return device.window.streams(); });
  }
  [[nodiscard]] model::CostModel cost_model() const { return {model, profiles}; }
  bool operator==(const Plan&) const = default;
};

// JSON, schema "tandem.plan/7", two-space indented, stable key order: equal plans give equal bytes.
[[nodiscard]] std::string to_json(const Plan& plan);
// Validated. Throws Error naming `source`, the field, its value, what was expected and the remedy.
[[nodiscard]] Plan parse_plan_json(std::string_view text, std::string_view source);
// SHA-256 of to_json(plan): the plan's identity on the wire and in result files.
[[nodiscard]] std::string plan_sha256(const Plan& plan);

}  // namespace tandem::planner
