#pragma once

// From cluster, model and workload to a plan, or to the reason why there is none.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/plan/plan.hpp"
#include "planner/search/allreduce_search.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/window_search.hpp"

namespace tandem::planner {

// The shares of the shortest predicted request.
inline constexpr std::string_view kAutoPartition = "auto";
// The shares of the least equation 5 (partition/equation5.hpp); of layers, see fastest_layers.
inline constexpr std::string_view kExactPartition = "exact";

// Of layers: those of Halda's objective (partition/exact/streamed_layers.hpp).
inline constexpr std::string_view kHaldaPartition = "halda";

// Of a pipeline's rounds.
inline constexpr std::int32_t kMostRounds = 64;

// Who computes logits: the master, all devices some of them, or what makes the request faster.
enum class HeadPlacement : std::uint8_t { master, split, automatic };

// Of new tokens that have one owner: whether it computes the FFN alone, shares it out to all
// devices, which have its weights, or does what makes the request faster (token_ffn.hpp).
enum class TokenFfn : std::uint8_t { owner, shared, automatic };

struct Request {
  model::Transformer model;
  model::Cluster cluster;
  std::string strategy = "tensor";
  // auto | galaxy | exact | halda | equal | proportions "A:B:C", one a device.
  std::string partition{kAutoPartition};
  // A collective, or auto: the fastest by `evaluate`; "PROMPT,DECODE" for one of each. None
  // given: the strategy's own.
  std::optional<std::string> allreduce{};
  // Where the strategy knows of tiles: so many; none given: as many as make the request fastest by
  // `evaluate`, of 0, 1, 2 and 4.
  std::optional<std::int32_t> tiles{};
  DecodeMoves decode_moves = DecodeMoves::queries;  // of those that the strategy knows
  TokenFfn token_ffn = TokenFfn::owner;
  bool gather_weights = false;  // where the strategy can (Plan::gather_weights)
  Evaluator evaluate = model::evaluate_analytic;
  std::string master{};  // device name; empty: the first
  Workload workload;
  Capacity capacity{};  // to reserve memory for, besides the workload's
  // One a device; empty: nominal_profile of each device. Emulation slowdown already applied.
  std::vector<model::DeviceProfile> profiles{};
  WindowRequest window{};
  model::ReleaseRule release = model::ReleaseRule::early;
  // No device may use more, whatever the platform says; the plan's cluster has what is left.
  std::optional<model::Bytes> memory_limit{};
  // `throughput` where several steps are in flight (rate_search.hpp): the time from request to
  // request; where only one is, or weights stream, as `request`.
  Objective objective = Objective::request;
  // Of a strategy with stages: how often a step goes round the devices, each of which has as many
  // runs of layers; none given: as often as makes the request fastest, more than once only where
  // weights stream.
  std::optional<std::int32_t> rounds = 1;
  // Of a strategy with stages: which devices share the layers of one, as group_search.hpp reads it.
  // Empty: each has layers of its own.
  std::string groups{};
  // How groups compute prompts: kGalaxyGroups, then with tiles as for strategy galaxy, or empty.
  std::string group_strategy{};
  model::WireFormat wire = model::WireFormat::f32;  // in which activations travel
  HeadPlacement head = HeadPlacement::master;       // of the LM head (head_search.hpp)
  // Where the head is split: how many of its best logits each device sends (Plan::candidates); 0:
  // all of them.
  std::int32_t candidates = 0;
  std::optional<SparseRequest> sparse{};  // where the strategy knows of it
};

// The cluster cannot hold or run the model as requested. One line a device that lacks memory.
struct Infeasible {
  std::string reason;
};

// A validated plan, or why there is none. With partition auto, of all shares that were tried the
// fastest by the analytic evaluator; with `throughput` the
// one with the highest rate by the law of recurrent pipelines, devices in the order that is best
// for it; with `ttft` and `latency` as make_phase_plan (phase_search.hpp) says. With an all-reduce
// to choose, that is done for shares by speed, and for those found with the star (or what else
// fits); shares are made again for either, and the fastest of the three plans is taken. With a
// window to choose, weights are streamed where no split keeps them all in memory or, with partition
// auto, where that is predicted to be faster; then, and with a given window, shares go by speed and
// disk as far as what must be in memory allows, and every device keeps as much as it can. Throws
// Error for a request that makes no sense (unknown names, proportions of the wrong number, more
// tokens than the context).
[[nodiscard]] std::variant<Plan, Infeasible> make_plan(const Request& request);

}  // namespace tandem::planner
