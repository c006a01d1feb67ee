#pragma once

// A collective is a lowering as well: of one sum into transfers and additions, in an order that
// does not depend on who is fast. Each is one source here, named in CMakeLists.txt.

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

// Equal ways between all pairs: a message of S bytes takes latency + S / bandwidth.
struct Uniform {
  model::Seconds latency;
  model::BytesPerSecond bandwidth;
};

struct Collective;

// A collective that a composition makes at one of its levels; none in what is no composition.
struct Level {
  const Collective* collective = nullptr;
  std::int32_t depth = 0;
};

// Whom a collective is among: as many ranks as groups are given.
struct Topology {
  std::int32_t depth = 0;           // of a tree
  std::vector<std::int32_t> group;  // by rank
  Level inside{};                   // of a composition: within each group
  Level among{};                    // and among the groups' leaders
};

struct Collective {
  std::string name;  // as in `tandem plan --allreduce`
  bool has_depth = false;
  // How many chunks an Exchange for it has.
  std::function<std::int32_t(std::int32_t ranks)> chunks;
  // Lowers the sum of all terms, at every rank that receives.
  std::function<void(Exchange& exchange, const Topology& topology)> sum;
  // The halves that such a sum may be made of, for exchanges whose chunks belong to the ranks
  // (Exchange::part): each rank's part of the sum to that rank; and each rank's part, which it has,
  // to all that receive. Bytes of either: (N - 1) S, whatever the parts' sizes.
  std::function<void(Exchange& exchange, const Topology& topology)> reduce_scatter;
  std::function<void(Exchange& exchange, const Topology& topology)> all_gather;
  // At least the tasks of one sum.
  std::function<std::int64_t(std::int64_t ranks)> tasks;
  // The time of an all-reduce of `bytes` held by each rank: nothing contends, additions are free.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      time;
  // The time of either half, of equal parts that make up `bytes`; of trees whose leaves are not all
  // alike, and of pairs that are no power of two, at most.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      half_time;
  // What rank 0 holds, to all that receive. Bytes: (N - 1) S if all do.
  std::function<void(Exchange& exchange, const Topology& topology)> broadcast;
  // The times of a sum that rank 0 alone needs, and of a broadcast of `bytes`; as `time`.
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      reduce_time;
  std::function<model::Seconds(const Topology& topology, model::Bytes bytes, const Uniform& net)>
      broadcast_time;
  // The ranks by which an all-to-all takes what `from` has for `to`, another one: `from` first,
  // `to` last, one a step. A rank that stands twice in a row waits for a step.
  std::function<std::vector<std::int32_t>(const Topology& topology, std::int32_t from,
                                          std::int32_t to)>
      way;
};

[[nodiscard]] const std::vector<Collective>& collectives();

// A collective with its parameters.
struct Allreduce {
  const Collective* collective = nullptr;
  std::int32_t depth = 0;
  Level inside{};  // of a composition
  Level among{};
};
inline constexpr std::int32_t kTreeDepth = 2;  // unless said otherwise
// From "star", "tree", "tree:3", "hierarchical:ring+tree:3". Throws Error naming the text and what
// is known.
[[nodiscard]] Allreduce parse_allreduce(std::string_view text);
// "NAME", "NAME[:DEPTH]" and "NAME[:IN+AMONG]", as in a usage line.
[[nodiscard]] std::string allreduce_names();

// Appends the sum of the contributors' `partial` to `graph`, leaving it in the master's `partial`
// and in that of every participant that receives, whose `sum` it fills in. With nobody but the
// master receiving this is a reduce, else an all-reduce. Participants that neither contribute nor
// receive take no part; the `partial` of those that do is written to, whether they receive or not.
// Throws logic_error if the master is no participant or nobody contributes.
void lower_sum(model::TaskGraph& graph, const Sum& sum, const Allreduce& allreduce,
               const Proximity& proximity, std::span<Participant> participants);

// Who takes part in an exchange that a strategy makes itself, in the order of ranks.
struct Ranking {
  std::vector<model::DeviceIndex> devices;
  Topology topology;
};
// `takes_part`: by device.
[[nodiscard]] Ranking ranking(const Proximity& proximity, const std::vector<bool>& takes_part,
                              const Allreduce& allreduce);

// Every chunk from its owner, the rank that a reduce-scatter left its sum at, to rank 0.
//   T = l + S / (N B)               nothing shared, N chunks
//   T = l + (N - 1) S / (N B)       all share rank 0's link
void gather_at_master(Exchange& exchange, std::span<const std::int32_t> owners);

}  // namespace tandem::planner
