#pragma once

// A request for a plan: what is given, and what the search may choose.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/plan/plan.hpp"
#include "planner/search/allreduce_search.hpp"
#include "planner/search/loss_budget.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/window_search.hpp"

namespace tandem::planner {

// The shares with the shortest predicted request.
inline constexpr std::string_view kAutoPartition = "auto";
// The shares that minimise equation 5 (partition/equation5.hpp); of layers, see fastest_layers.
inline constexpr std::string_view kExactPartition = "exact";

// Layers by Halda's objective (partition/exact/streamed_layers.hpp).
inline constexpr std::string_view kHaldaPartition = "halda";

// Upper limit of a pipeline's rounds.
inline constexpr std::int32_t kMostRounds = 64;

// The placement of the LM head: master, rows on all devices, or the faster of both.
enum class HeadPlacement : std::uint8_t { master, split, automatic };

// The FFN of new tokens with one owner: computed by the owner alone, shared by all devices, which
// hold its weights, or the faster of both (token_ffn.hpp).
enum class TokenFfn : std::uint8_t { owner, shared, automatic };

// The types that are not given: the search replaces them where others are faster (axes.hpp).
struct OpenTypes {
  bool wire = false;
  bool cache = false;
};

// Axes on which the search also tries other values than the request's (axes.hpp).
struct OpenAxes {
  bool parts = false;   // parts of replicated weights or of positions, with partition auto
  bool levels = false;  // `sparse`, with nothing dropped
  bool stages = false;  // `groups` and `group_strategy`; closed if groups are given
  bool moves = false;   // `decode_moves`
  bool sums = false;    // `allreduce`
  // More values of stages and, if weights stream, of sums, which take long to search.
  bool at_length = false;
  bool tiles = false;  // more numbers of tiles than tiles_axis() has, if `tiles` is open
};

struct Request {
  model::Transformer model;
  model::Cluster cluster;
  std::string strategy = "tensor";
  // auto | galaxy | exact | halda | equal | proportions "A:B:C", one a device.
  std::string partition{kAutoPartition};
  // A collective, or auto: the fastest by `evaluate`; "PROMPT,DECODE" for one of each. None given:
  // the strategy's default.
  std::optional<std::string> allreduce{};
  // The number of tiles, if the strategy supports them; none given: the fastest of those of
  // tiles_axis() by `evaluate`.
  std::optional<std::int32_t> tiles{};
  DecodeMoves decode_moves = DecodeMoves::queries;  // of those that the strategy supports
  TokenFfn token_ffn = TokenFfn::owner;
  bool gather_weights = false;  // where the strategy can (Plan::gather_weights)
  Evaluator evaluate = model::evaluate_analytic;
  std::string master{};  // device name; empty: the first
  Workload workload;
  Capacity capacity{};  // reserved in addition to the workload's
  // One for each device; empty: nominal_profile of each device. Emulation slowdown already applied.
  std::vector<model::DeviceProfile> profiles{};
  WindowRequest window{};
  model::ReleaseRule release = model::ReleaseRule::early;
  // Upper limit of every device's memory, whatever the platform says; also limits the plan's
  // cluster.
  std::optional<model::Bytes> memory_limit{};
  // `throughput` with several steps in flight (rate_search.hpp): the time from request to request;
  // with one step in flight, or if weights stream, as `request`.
  Objective objective = Objective::request;
  // Strategies with stages: how often a step goes round the devices, each of which has as many runs
  // of layers; none given: the fastest number, above one only if weights stream.
  std::optional<std::int32_t> rounds = 1;
  // Strategies with stages: the devices that share the layers of a stage, in the syntax of
  // group_search.hpp. Empty: one device a stage.
  std::string groups{};
  // How groups compute prompts: kGalaxyGroups, with tiles as in strategy galaxy, or empty.
  std::string group_strategy{};
  model::WireFormat wire = model::WireFormat::f32;  // in which activations travel
  OpenTypes open{};                                 // of `wire` and `model.cache`
  // Bounds what types lose; those that are open are then all that it allows, f32 among them.
  std::optional<LossBudget> budget{};
  OpenAxes open_axes{};
  HeadPlacement head = HeadPlacement::master;  // of the LM head (axes.hpp)
  // Split head: number of best logits that each device sends (Plan::candidates); 0: all of them.
  std::int32_t candidates = 0;
  std::optional<SparseRequest> sparse{};  // if the strategy supports it
};

// Returns the master's index; the first device unless the request names one.
[[nodiscard]] inline model::DeviceIndex master_of(const Request& request) {
  return request.master.empty() ? 0 : request.cluster.find(request.master);
}

// The cluster cannot hold or run the model as requested. One line for each device short of memory.
struct Infeasible {
  std::string reason;
};

using Answer = std::variant<Plan, Infeasible>;

}  // namespace tandem::planner
