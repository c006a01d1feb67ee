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

// The algorithms of a strategy's sums: names with parameters, as collective/collective.hpp parses
// them.
struct AllreduceChoice {
  std::string prompt{};
  std::string decode{};
  bool operator==(const AllreduceChoice&) const = default;
};

inline constexpr std::int32_t kMostTiles = 64;

// Plan::group_strategy of pipelines whose groups compute prompts as `galaxy` does.
inline constexpr std::string_view kGalaxyGroups = "galaxy";

struct DevicePlan {
  model::Share share;
  model::MemoryUse memory;  // predicted peak
  Window window{};          // of the weights, if some are streamed
  bool operator==(const DevicePlan&) const = default;
};

// Self-contained: `simulate` and `worker` need nothing else. Invariant after validate(): shares are
// within the model and cover it as the strategy requires; one device plan and one profile for each
// device of the cluster.
struct Plan {
  std::string strategy;       // a name of the table of strategies
  std::string partition;      // method that found the shares; empty if the strategy splits nothing
  AllreduceChoice allreduce;  // both empty if the strategy splits nothing
  Proximity layout{};         // of the sums; empty if the strategy splits nothing
  // Number of tiles into which each device's rows of a prompt are split, so that products overlap
  // with messages (strategy/galaxy.cpp); 0: no tiles.
  std::int32_t tiles = 0;
  DecodeMoves decode_moves = DecodeMoves::queries;  // other values where Strategy::moves has them
  // Whether devices that divide the work hold only the weights that they use for a new token, and
  // receive each layer's other weights for a prompt (Sharding::gather_weights).
  bool gather_weights = false;
  // How groups of a pipeline compute prompts: kGalaxyGroups, or empty: as `tensor` does.
  std::string group_strategy{};
  model::Transformer model;
  model::Cluster cluster;
  model::DeviceIndex master = 0;
  Workload workload;
  Capacity capacity{};                         // of a service; zeros: of the workload alone
  std::vector<DevicePlan> devices;             // by DeviceIndex
  std::vector<model::DeviceProfile> profiles;  // by DeviceIndex, slowdown applied
  // When a streamed block's memory is released: after its compute, or after the all-reduce that
  // follows.
  model::ReleaseRule release = model::ReleaseRule::early;
  model::WireFormat wire = model::WireFormat::f32;  // in which activations travel
  // Split LM head: number of each row's best logits that a device sends, with their softmax
  // (model/graph/candidates.hpp); 0: all its logits.
  std::int32_t candidates = 0;
  std::optional<SparseAttention> sparse{};  // of prompts, where the strategy supports it
  // Throws Error (field, value, expected, remedy) unless the invariant holds. Calls the plan's
  // strategy, and is therefore defined with the strategies: planner/strategy/plan_validation.cpp.
  void validate() const;
  // Returns the reserved capacity: the workload's, or that of a service, which may read prompts in
  // chunks and so has steps of fewer rows than a prompt.
  [[nodiscard]] Capacity reserved() const {
    Capacity all = larger(workload.capacity(), capacity);
    if (capacity.rows > 0) all.rows = capacity.rows;
    return all;
  }
  // Returns whether some device reads weights from its disk while it computes.
  [[nodiscard]] bool streams() const {
    return std::ranges::any_of(devices,
                               [](const DevicePlan& device) { return device.window.streams(); });
  }
  [[nodiscard]] model::CostModel cost_model() const { return {model, profiles}; }
  bool operator==(const Plan&) const = default;
};

// JSON, schema "tandem.plan/7", two-space indented, stable key order: equal plans give equal bytes.
[[nodiscard]] std::string to_json(const Plan& plan);
// Parses and validates a plan. Throws Error naming `source`, the field, its value, what was
// expected and the remedy.
[[nodiscard]] Plan parse_plan_json(std::string_view text, std::string_view source);
// SHA-256 of to_json(plan): the plan's identity on the wire and in result files.
[[nodiscard]] std::string plan_sha256(const Plan& plan);

}  // namespace tandem::planner
