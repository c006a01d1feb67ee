#pragma once

// Collectives: lowerings of a sum into transfers and additions, in an order that does not depend on
// the speed of devices. Each has one source here, named in CMakeLists.txt.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/units.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/collective/exchange.hpp"
#include "planner/collective/proximity.hpp"

namespace tandem::planner {

// A uniform network: between any two ranks a message of S bytes takes latency + S / bandwidth.
struct Uniform {
  model::Seconds latency;
  model::BytesPerSecond bandwidth;
};

struct Collective;

// The collective at one level of a composition; null: no composition.
struct Level {
  const Collective* collective = nullptr;
  std::int32_t depth = 0;
};

// The ranks of a collective: as many as `group` has entries.
struct Topology {
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(group.size()); }

  std::int32_t depth = 0;           // of a tree
  std::vector<std::int32_t> group;  // by rank
  Level inside{};                   // of a composition: within each group
  Level among{};                    // and among the groups' leaders
};

struct Collective {
  std::string name;  // as in `tandem plan --allreduce`
  bool has_depth = false;
  // Returns the number of chunks of an Exchange for this collective.
  std::function<std::int32_t(std::int32_t ranks)> chunks;
  // Lowers the sum of all terms, for every rank that receives.
  std::function<void(Exchange& exchange, const Topology& topology)> sum;
  // The two halves of such a sum, for exchanges whose chunks belong to ranks (Exchange::part): the
  // reduce-scatter leaves each rank's part of the sum at that rank, the all-gather sends each
  // rank's part to all that receive. Bytes of either: (N - 1) S, whatever the sizes of the parts.
  std::function<void(Exchange& exchange, const Topology& topology)> reduce_scatter;
  std::function<void(Exchange& exchange, const Topology& topology)> all_gather;
  // Returns an upper bound on the number of tasks of one sum.
  std::function<std::int64_t(std::int64_t ranks)> tasks;
  // Returns the time of an all-reduce of `bytes` per rank, without contention or cost of additions.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      time;
  // Returns the time of either half for equal parts of `bytes` in all: exact, or an upper bound.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      half_time;
  std::function<bool(const Topology& topology)> half_time_is_exact;
  // Sends rank 0's data to all that receive. Bytes: (N - 1) S if all do.
  std::function<void(Exchange& exchange, const Topology& topology)> broadcast;
  // Return the times of a sum that only rank 0 needs, and of a broadcast of `bytes`; as `time`.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      reduce_time;
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      broadcast_time;
  // Return the bytes that all ranks together send for a sum of `bytes`: if all contribute and
  // receive, and if rank 0 alone receives.
  std::function<model::Bytes(const Topology& topology, model::Bytes bytes)> sum_bytes;
  std::function<model::Bytes(const Topology& topology, model::Bytes bytes)> reduce_bytes;
  // Returns the route of an all-to-all's chunk from `from` to a different rank `to`: `from` first,
  // `to` last, one hop a step. A rank listed twice in a row waits for a step.
  std::function<std::vector<std::int32_t>(const Topology& topology, std::int32_t from,
                                          std::int32_t to)>
      way;
};

[[nodiscard]] const std::vector<Collective>& collectives();

// Returns 2 (N - 1) S: each rank but one sends the data once in either half.
[[nodiscard]] model::Bytes two_halves(const Topology& topology, model::Bytes bytes);

// A collective with its parameters.
struct Allreduce {
  const Collective* collective = nullptr;
  std::int32_t depth = 0;
  Level inside{};  // of a composition
  Level among{};
};
inline constexpr std::int32_t kTreeDepth = 2;  // default
// Parses "star", "tree", "tree:3", "hierarchical:ring+tree:3". Throws Error naming the text and the
// known collectives.
[[nodiscard]] Allreduce parse_allreduce(std::string_view text);
// Returns "NAME", "NAME[:DEPTH]" and "NAME[:IN+AMONG]" of all collectives, for a usage line.
[[nodiscard]] std::string allreduce_names();

// Appends the sum of the contributors' `partial` to `graph`. The master and every participant that
// receives get the sum in their `partial`, and their `sum` is filled in. It is a reduce if only the
// master receives, else an all-reduce. Participants that neither contribute nor receive are left
// out; the `partial` of the others is overwritten even if they do not receive. Throws logic_error
// if the master is not a participant or no participant contributes.
void lower_sum(model::TaskGraph& graph, const Sum& sum, const Allreduce& allreduce,
               const Proximity& proximity, std::span<Participant> participants);

// The participants of an exchange that a strategy lowers itself, in the order of ranks.
struct Ranking {
  std::vector<model::DeviceIndex> devices;
  Topology topology;
};
// `takes_part`: by device.
[[nodiscard]] Ranking ranking(const Proximity& proximity, const std::vector<bool>& takes_part,
                              const Allreduce& allreduce);

// Sends every chunk from its owner, the rank that holds its sum after a reduce-scatter, to rank 0.
//   T = l + S / (N B)               nothing shared, N chunks
//   T = l + (N - 1) S / (N B)       all share rank 0's link
void gather_at_master(Exchange& exchange, std::span<const std::int32_t> owners);

}  // namespace tandem::planner
