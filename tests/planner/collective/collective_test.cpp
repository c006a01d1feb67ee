#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "planner/collective/all_to_all.hpp"
#include "planner/collective/halving.hpp"
#include "planner/collective/hierarchical.hpp"
#include "planner/collective/ring.hpp"
#include "planner/collective/star.hpp"
#include "planner/collective/tree.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::collective_test {
namespace {

using model::BufferKind;
using model::DeviceIndex;
using model::Task;
using model::TaskKind;
using planner::Exchange;
using planner::Participant;
using planner::Uniform;

// Values by device, buffer, slot, row, column. What nobody has written is NaN.
class Memory {
 public:
  double& at(DeviceIndex device, model::BufferRef buffer, int row, int column) {
    return values_
        .try_emplace({device, buffer.kind, buffer.slot, row, column},
                     std::numeric_limits<double>::quiet_NaN())
        .first->second;
  }
  double& partial(DeviceIndex device, int row, int column) {
    return at(device, {BufferKind::partial, 0}, row, column);
  }

  void run(const model::TaskGraph& graph) {
    for (const Task& task : graph.tasks()) {
      for (int row = task.rows.begin; row < task.rows.end; ++row) {
        for (int c = task.columns.begin; c < task.columns.end; ++c) {
          const double value = at(task.device, task.input, row, c);
          if (task.kind == TaskKind::transfer) {
            at(task.peer, task.output, row, c) = value;
          } else {
            REQUIRE(task.kind == TaskKind::add);
            at(task.device, task.output, row, c) += value;
          }
        }
      }
    }
  }

 private:
  std::map<std::tuple<DeviceIndex, BufferKind, int, int, int>, double> values_;
};

double term(DeviceIndex device, int row, int column) {
  return std::pow(2.0, device) * 1000.0 + row * 100.0 + column;
}

// How many values of the sum at its receivers are wrong.
int wrong_values(const model::TaskGraph& graph, const std::vector<Participant>& participants,
                 DeviceIndex master, std::int32_t columns) {
  Memory memory;
  int wrong = 0;
  for (const Participant& p : participants) {
    for (int row = 0; row < kSumRows && p.contributes; ++row)
      for (int c = 0; c < columns; ++c) memory.partial(p.device, row, c) = term(p.device, row, c);
  }
  memory.run(graph);
  for (const Participant& p : participants) {
    if (!p.receives && p.device != master) {
      if (!p.sum.empty()) ++wrong;
      continue;
    }
    for (int row = 0; row < kSumRows; ++row) {
      for (int c = 0; c < columns; ++c) {
        double expected = 0.0;
        for (const Participant& q : participants)
          if (q.contributes) expected += term(q.device, row, c);
        if (memory.partial(p.device, row, c) != expected) ++wrong;
      }
    }
  }
  return wrong;
}

TEST_CASE("planner/collective: exact sums on 1 to 9 devices, odd sizes, whoever takes part") {
  testing::Sampled taken(7);
  for (const std::string& allreduce : kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      for (const model::Cluster& cluster :
           {access_of(devices, 1e-3, 1e6), homes_of(devices, 1, 1e-3, 5e-3, 1e6),
            homes_of(1, devices, 1e-3, 5e-3, 1e6)}) {
        for (const std::int32_t columns : {1, 2, devices - 1, devices, devices + 1, 13}) {
          if (columns < 1) continue;
          // Bit d of a pattern: device d contributes (receives).
          for (const unsigned contributes : {0x1FFU, 0x155U, 0x0AAU, 0x001U, 0x100U, 0x1FEU}) {
            for (const unsigned receives : {0x1FFU, 0x000U, 0x0AAU, 0x001U, 0x120U}) {
              const DeviceIndex master = devices > 3 ? 2 : 0;
              std::vector<Participant> participants = everyone(devices);
              bool anyone = false;
              for (Participant& p : participants) {
                p.contributes = ((contributes >> static_cast<unsigned>(p.device)) & 1U) != 0;
                p.receives = ((receives >> static_cast<unsigned>(p.device)) & 1U) != 0;
                anyone = anyone || p.contributes;
              }
              if (!anyone || !taken()) continue;
              CAPTURE(allreduce);
              CAPTURE(devices);
              CAPTURE(columns);
              CAPTURE(contributes);
              CAPTURE(receives);
              const model::TaskGraph graph =
                  sum_graph(cluster, master, allreduce, columns, participants);
              CHECK(wrong_values(graph, participants, master, columns) == 0);
            }
          }
        }
      }
    }
  }
}

double bytes_of(const model::TaskGraph& graph) {
  const model::Transformer transformer = small_model({});
  double bytes = 0.0;
  for (const Task& task : graph.tasks())
    bytes += model::work_of(transformer, graph.batch(), task).bytes_wire;
  return bytes;
}

// Additions are all but free.
double time_of(const model::Cluster& cluster, const model::TaskGraph& graph) {
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices())
    profiles.push_back(model::nominal_profile(device));
  model::RunRecorder recorder(cluster, 0, true);
  model::OneStep steps(graph);
  evaluate_analytic(cluster, {small_model({}), profiles}, steps, recorder);
  double end = 0.0;
  for (const model::Span& span : recorder.trace().spans) end = std::max(end, span.end);
  return end;
}

constexpr std::int32_t kColumns = 2520;  // that 1 to 9 divide
constexpr double kBytes = 4.0 * kSumRows * kColumns;
constexpr Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};

TEST_CASE("planner/collective: each takes its stated time to 1e-9 and its stated bytes") {
  for (const std::string& allreduce : kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      CAPTURE(allreduce);
      CAPTURE(devices);
      std::vector<Participant> participants = everyone(devices);
      const model::Cluster cluster = mesh_of(devices, 2e-3, 1e6);
      const model::TaskGraph graph = sum_graph(cluster, 0, allreduce, kColumns, participants);
      const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
      const planner::Topology topology{chosen.depth, groups_by_rank(cluster, 0)};
      const model::Bytes bytes{kBytes};
      CHECK(bytes_of(graph) ==
            doctest::Approx(chosen.collective->sum_bytes(topology, bytes).value()).epsilon(1e-12));
      CHECK(time_of(cluster, graph) ==
            doctest::Approx(chosen.collective->time(topology, bytes, kNet).value()).epsilon(1e-9));
      CHECK(model::find_conflict(graph).value_or("") == "");
      CHECK(std::ssize(graph.tasks()) <= chosen.collective->tasks(devices));
    }
  }
}

TEST_CASE("planner/collective: closed forms of 30,240 bytes over 2 ms and 1 MB/s") {
  const model::Bytes bytes{kBytes};
  const auto ms = [](model::Seconds time) { return doctest::Approx(time.value() * 1e3); };
  CHECK(ms(planner::star_time(bytes, kNet)) == 64.48);        // 2 (2 + 30.24)
  CHECK(ms(planner::tree_time(2, bytes, kNet)) == 128.96);    // 4 (2 + 30.24)
  CHECK(ms(planner::ring_time(8, bytes, kNet)) == 80.92);     // 14 (2 + 3.78)
  CHECK(ms(planner::halving_time(8, bytes, kNet)) == 64.92);  // 6 * 2 + 2 * 7/8 * 30.24
  // 4 * 2 + 2 * 3/4 * 30.24 + 2 (2 + 30.24)
  CHECK(ms(planner::halving_time(5, bytes, kNet)) == 117.84);
  // 2 (2 + 7 * 30.24)
  CHECK(ms(planner::star_time_shared(8, bytes, kNet)) == 427.36);
}

TEST_CASE("planner/collective: bytes of 30,240 bytes, for all and for the master alone") {
  const auto sent = [](const char* name, bool all) {
    const planner::Collective& row = *planner::parse_allreduce(name).collective;
    const planner::Topology topology{2, std::vector<std::int32_t>(5, 0)};
    return doctest::Approx(
        (all ? row.sum_bytes : row.reduce_bytes)(topology, model::Bytes{kBytes}).value());
  };
  for (const char* name : {"star", "tree", "ring", "halving"}) CHECK(sent(name, true) == 241920.0);
  for (const char* name : {"star", "tree"}) CHECK(sent(name, false) == 120960.0);
  CHECK(sent("ring", false) == 145152.0);     // 4 (1 + 1/5) S
  CHECK(sent("halving", false) == 143640.0);  // 4 S, and 3/4 S of four chunks
}

TEST_CASE(
    "planner/collective: hierarchical takes 2 (l_in + S/B) + 2 (l_out + S/B), 2 (G - 1) S far") {
  for (const auto& sizes : std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {2, 4}, {4, 2}}) {
    const int homes = sizes.first;
    const int members = sizes.second;
    CAPTURE(homes);
    CAPTURE(members);
    const model::Cluster cluster = homes_of(homes, members, 0.5e-3, 10e-3, 1e6);
    std::vector<Participant> participants = everyone(cluster.size());
    const model::TaskGraph graph = sum_graph(cluster, 0, "hierarchical", kColumns, participants);
    // Near: 2 * 0.5 ms; far: 2 * 0.5 + 2 * 10 ms; the analytic evaluator shares no links.
    const double expected = 2.0 * (1e-3 + kBytes / 1e6) + 2.0 * (21e-3 + kBytes / 1e6);
    CHECK(time_of(cluster, graph) == doctest::Approx(expected).epsilon(1e-9));
    double far = 0.0;
    for (const Task& task : graph.tasks()) {
      if (task.kind == TaskKind::transfer && task.device % homes != task.peer % homes)
        far += kBytes;
    }
    CHECK(far == 2.0 * (homes - 1) * kBytes);
    CHECK(bytes_of(graph) == 2.0 * (homes * members - 1) * kBytes);
  }
}

TEST_CASE("planner/collective: a sum for the master alone takes its stated time and bytes") {
  for (const std::string& allreduce : kAllreduces) {
    for (int devices = 2; devices <= 9; ++devices) {
      CAPTURE(allreduce);
      CAPTURE(devices);
      std::vector<Participant> participants = everyone(devices);
      for (Participant& p : participants) p.receives = false;
      const model::Cluster cluster = mesh_of(devices, 2e-3, 1e6);
      const model::TaskGraph graph = sum_graph(cluster, 0, allreduce, kColumns, participants);
      const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
      const planner::Topology topology{chosen.depth, groups_by_rank(cluster, 0)};
      const model::Bytes bytes{kBytes};
      CHECK(
          bytes_of(graph) ==
          doctest::Approx(chosen.collective->reduce_bytes(topology, bytes).value()).epsilon(1e-12));
      CHECK(time_of(cluster, graph) ==
            doctest::Approx(chosen.collective->reduce_time(topology, bytes, kNet).value())
                .epsilon(1e-9));
      CHECK(model::find_conflict(graph).value_or("") == "");
    }
  }
}

struct Operation {
  model::TaskGraph graph{model::Batch{{{.rows = kSumRows}}}};
  Exchange exchange;
  Operation(int ranks, int chunks, std::int32_t columns, int owners)
      : exchange(graph, {.master = 0, .rows = {0, kSumRows}, .columns = {0, columns}},
                 some(ranks, owners), chunks) {}
  // The first `owners` contribute.
  static std::vector<Participant> some(int ranks, int owners) {
    std::vector<Participant> all = everyone(ranks);
    for (Participant& p : all) p.contributes = p.device < owners;
    return all;
  }
};

TEST_CASE("planner/collective: ranks that add each other's chunks in one step add what they had") {
  for (const int owners : {1, 2, 3, 4}) {
    CAPTURE(owners);
    Operation op(4, 1, 2, owners);
    for (int bit = 1; bit < 4; bit <<= 1) {
      op.exchange.begin_step();
      for (int rank = 0; rank < 4; ++rank) op.exchange.merge(rank, rank ^ bit, op.exchange.all());
      op.exchange.end_step();
    }
    Memory memory;
    double expected = 0.0;
    for (int d = 0; d < owners; ++d) expected += memory.partial(d, 1, 1) = term(d, 1, 1);
    for (int d = 0; d < owners; ++d)
      for (int row = 0; row < kSumRows; ++row)
        for (int c = 0; c < 2; ++c) memory.partial(d, row, c) = term(d, row, c);
    memory.run(op.graph);
    for (int d = 0; d < 4; ++d) CHECK(memory.partial(d, 1, 1) == expected);
    CHECK(model::find_conflict(op.graph).value_or("") == "");
  }
}

TEST_CASE("planner/collective: a step of two merges into one chunk, or of a copy, is refused") {
  Operation op(3, 2, 4, 3);
  op.exchange.begin_step();
  op.exchange.merge(0, 2, {0, 1});
  op.exchange.merge(1, 2, {1, 2});
  CHECK_THROWS_WITH_AS(op.exchange.merge(1, 2, {0, 2}), doctest::Contains("target of two merges"),
                       std::logic_error);
  CHECK_THROWS_WITH_AS(op.exchange.copy(0, 1, {0, 1}), doctest::Contains("copy in a step"),
                       std::logic_error);
}

TEST_CASE("planner/collective: a reduce-scatter leaves each rank the sum of its chunk") {
  testing::Sampled taken(5);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const bool halves : {false, true}) {
      if (!taken()) continue;
      CAPTURE(ranks);
      CAPTURE(halves);
      const int chunks = halves ? planner::power_of_two(ranks) : ranks;
      Operation op(ranks, chunks, kColumns, ranks);
      halves ? halving_reduce_scatter(op.exchange) : ring_reduce_scatter(op.exchange);
      Memory memory;
      for (int d = 0; d < ranks; ++d)
        for (int row = 0; row < kSumRows; ++row)
          for (int c = 0; c < kColumns; ++c) memory.partial(d, row, c) = term(d, row, c);
      memory.run(op.graph);
      std::vector<bool> summed(static_cast<std::size_t>(chunks), false);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const model::Range columns = op.exchange.columns({chunk, chunk + 1});
        for (int d = 0; d < ranks; ++d) {
          double expected = 0.0;
          for (int q = 0; q < ranks; ++q) expected += term(q, 1, columns.begin);
          if (memory.partial(d, 1, columns.begin) != expected) continue;
          CHECK(!summed[static_cast<std::size_t>(chunk)]);  // at one rank only
          summed[static_cast<std::size_t>(chunk)] = true;
          if (!halves) CHECK(d == chunk);
        }
        CHECK(summed[static_cast<std::size_t>(chunk)]);
      }
      const double n = ranks;
      const double p = chunks;
      double time = (n - 1) * (2e-3 + kBytes / n / 1e6);
      double bytes = (n - 1) * kBytes;
      if (halves) {
        time = std::log2(p) * 2e-3 + (1 - 1 / p) * kBytes / 1e6;
        if (ranks > chunks) time += 2e-3 + kBytes / 1e6;
      }
      CHECK(time_of(mesh_of(ranks, 2e-3, 1e6), op.graph) == doctest::Approx(time).epsilon(1e-9));
      CHECK(bytes_of(op.graph) == bytes);
    }
  }
}

TEST_CASE("planner/collective: a broadcast takes D (l + S / B) and gives all what the master has") {
  testing::Sampled taken(5);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int depth = 1; depth <= 4; ++depth) {
      if (!taken()) continue;
      CAPTURE(ranks);
      CAPTURE(depth);
      Operation op(ranks, 1, kColumns, 1);
      const planner::Parents parents = planner::tree_parents(ranks, depth);
      tree_broadcast(op.exchange, parents);
      Memory memory;
      for (int c = 0; c < kColumns; ++c) memory.partial(0, 2, c) = term(0, 2, c);
      memory.run(op.graph);
      int wrong = 0;
      for (int d = 0; d < ranks; ++d)
        for (int c = 0; c < kColumns; ++c)
          if (memory.partial(d, 2, c) != term(0, 2, c)) ++wrong;
      CHECK(wrong == 0);
      CHECK(bytes_of(op.graph) == (ranks - 1) * kBytes);
      CHECK(time_of(mesh_of(ranks, 2e-3, 1e6), op.graph) ==
            doctest::Approx(planner::levels(parents) * (2e-3 + kBytes / 1e6)).epsilon(1e-9));
    }
  }
}

TEST_CASE("planner/collective: an all-to-all takes l + S / (N B), and every chunk arrives") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    CAPTURE(ranks);
    Operation op(ranks, ranks, kColumns, ranks);
    const auto arrivals = planner::all_to_all(op.exchange);
    Memory memory;
    for (int d = 0; d < ranks; ++d)
      for (int c = 0; c < kColumns; ++c) memory.partial(d, 0, c) = term(d, 0, c);
    memory.run(op.graph);
    int wrong = 0;
    for (int to = 0; to < ranks; ++to) {
      const model::Range chunk = op.exchange.columns({to, to + 1});
      for (int from = 0; from < ranks; ++from) {
        if (from == to) continue;
        const auto slot = static_cast<std::int16_t>(from < to ? from : from - 1);
        const auto task = static_cast<std::size_t>(
            arrivals[static_cast<std::size_t>(to)][static_cast<std::size_t>(slot)]);
        if (op.graph.tasks()[task].device != from || op.graph.tasks()[task].peer != to) ++wrong;
        for (int c = chunk.begin; c < chunk.end; ++c)
          if (memory.at(to, {BufferKind::receive, slot}, 0, c) != term(from, 0, c)) ++wrong;
      }
    }
    CHECK(wrong == 0);
    CHECK(bytes_of(op.graph) == doctest::Approx((ranks - 1) * kBytes).epsilon(1e-12));
    CHECK(time_of(mesh_of(ranks, 2e-3, 1e6), op.graph) ==
          doctest::Approx(2e-3 + kBytes / ranks / 1e6).epsilon(1e-9));
  }
}

TEST_CASE("planner/collective: trees are as flat as their depth allows") {
  CHECK(planner::tree_parents(8, 1) == planner::Parents{-1, 0, 0, 0, 0, 0, 0, 0});
  CHECK(planner::tree_parents(8, 2) == planner::Parents{-1, 0, 1, 1, 0, 4, 0, 6});
  CHECK(planner::tree_parents(5, 4) == planner::Parents{-1, 0, 1, 2, 3});
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int depth = 1; depth <= 6; ++depth) {
      CAPTURE(ranks);
      CAPTURE(depth);
      CHECK(planner::levels(planner::tree_parents(ranks, depth)) <= depth);
    }
  }
}

TEST_CASE("planner/collective: a sum without terms or without its master is the caller's fault") {
  const model::Cluster cluster = access_of(2, 1e-3, 1e6);
  std::vector<Participant> nobody = everyone(2);
  for (Participant& p : nobody) p.contributes = false;
  CHECK_THROWS_AS((void)sum_graph(cluster, 0, "ring", 4, nobody), std::logic_error);
  std::vector<Participant> others = everyone(1);
  CHECK_THROWS_AS((void)sum_graph(cluster, 1, "ring", 4, others), std::logic_error);
}

TEST_CASE("planner/collective: names that are none are one clear error") {
  for (const char* text : {"", "comet", "star:2", "tree:", "tree:0", "tree:65", "tree:-1",
                           "tree:2x", "tree:99999999999999999999", "ring ", "auto"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)planner::parse_allreduce(text),
                         doctest::Contains("expected one of star, tree[:DEPTH], ring"), Error);
  }
  CHECK(planner::parse_allreduce("tree").depth == 2);
  CHECK(planner::parse_allreduce("tree:64").depth == 64);
}

}  // namespace
}  // namespace tandem::test::collective_test
