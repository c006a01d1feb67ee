// Compositions: any collective within groups, any among their leaders.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::composed_test {
namespace {

using model::Range;
using model::Task;
using model::TaskKind;
using planner::Cut;
using planner::Participant;
using planner::Uniform;

constexpr std::int32_t kColumns = 2520;
constexpr double kBytes = 4.0 * kSumRows * kColumns;
constexpr Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};

// By device and buffer: what every element holds. Of nobody's: NaN.
using Memory = std::map<std::tuple<model::DeviceIndex, model::BufferKind, int, int>, double>;

double& at(Memory& memory, model::DeviceIndex device, model::BufferKind kind, int row, int column) {
  return memory.try_emplace({device, kind, row, column}, std::numeric_limits<double>::quiet_NaN())
      .first->second;
}

void run(Memory& memory, const model::TaskGraph& graph) {
  for (const Task& task : graph.tasks()) {
    for (int row = task.rows.begin; row < task.rows.end; ++row) {
      for (int column = task.columns.begin; column < task.columns.end; ++column) {
        const double value = at(memory, task.device, task.input.kind, row, column);
        if (task.kind == TaskKind::transfer) {
          at(memory, task.peer, task.output.kind, row, column) = value;
        } else {
          REQUIRE(task.kind == TaskKind::add);
          at(memory, task.device, task.output.kind, row, column) += value;
        }
      }
    }
  }
}

double term(model::DeviceIndex device, int row, int column) {
  return static_cast<double>(1 << device) * 1000.0 + 100.0 * row + column;
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

const std::vector<std::vector<int>> kGroups{{1},       {3},    {1, 1, 1}, {2, 2},      {3, 3},
                                            {1, 4, 2}, {4, 4}, {2, 3, 4}, {2, 2, 2, 2}};

// The bytes that the groups' sums at their leaders send beyond (g - 1) S, in terms of S.
double gathered(const std::string& name, const std::vector<int>& groups) {
  const planner::Level inside = planner::parse_allreduce(name).inside;
  double parts = 0.0;
  for (const int size : groups) {
    const planner::Topology group{inside.depth,
                                  std::vector<std::int32_t>(static_cast<std::size_t>(size), 0)};
    if (size > 1)
      parts += inside.collective->reduce_bytes(group, model::Bytes{1.0}).value() - (size - 1);
  }
  return parts;
}

TEST_CASE("planner/collective: compositions sum exactly, whoever takes part, bytes as counted") {
  for (const std::string& name : kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool in_turns : {false, true}) {
        for (const int absent : {0, 1, 2, 3}) {
          CAPTURE(name);
          CAPTURE(groups.size());
          CAPTURE(groups.front());
          CAPTURE(in_turns);
          CAPTURE(absent);
          const planner::Proximity near = grouped(groups, in_turns);
          const int devices = static_cast<int>(near.order.size());
          std::vector<Participant> participants = everyone(devices);
          for (Participant& p : participants) {
            // 1: nobody but the master receives; 2: every second device has no term; 3: neither.
            if (absent == 1 || (absent == 3 && p.device % 2 == 1)) p.receives = false;
            if (absent >= 2 && p.device % 2 == 1) p.contributes = false;
          }
          constexpr std::int32_t kFew = 24;
          const model::TaskGraph graph = sum_graph_of(near, 0, name, kFew, participants);
          Memory memory;
          const auto each = [&](const auto& element) {
            for (int row = 0; row < kSumRows; ++row)
              for (int column = 0; column < kFew; ++column) element(row, column);
          };
          for (const Participant& p : participants) {
            if (!p.contributes) continue;
            each([&](int row, int column) {
              at(memory, p.device, model::BufferKind::partial, row, column) =
                  term(p.device, row, column);
            });
          }
          run(memory, graph);
          int wrong = 0;
          for (const Participant& p : participants) {
            if (!p.receives && p.device != 0) continue;
            each([&](int row, int column) {
              double expected = 0.0;
              for (const Participant& q : participants)
                if (q.contributes) expected += term(q.device, row, column);
              if (at(memory, p.device, model::BufferKind::partial, row, column) != expected)
                ++wrong;
            });
          }
          CHECK(wrong == 0);
          CHECK(model::find_conflict(graph).value_or("") == "");
          if (absent < 2) {
            const planner::Allreduce chosen = planner::parse_allreduce(name);
            const auto& sent =
                absent == 0 ? chosen.collective->sum_bytes : chosen.collective->reduce_bytes;
            const model::Bytes bytes{4.0 * kSumRows * kFew};
            CHECK(bytes_of(graph) ==
                  doctest::Approx(sent(topology_of(chosen, groups), bytes).value()).epsilon(1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("planner/collective: compositions take their closed forms, equal groups to 1e-9") {
  for (const std::string& name : kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      CAPTURE(name);
      CAPTURE(groups.size());
      CAPTURE(groups.front());
      const planner::Proximity near = grouped(groups, false);
      const int devices = static_cast<int>(near.order.size());
      const model::Cluster cluster = mesh_of(devices, 2e-3, 1e6);
      std::vector<Participant> participants = everyone(devices);
      const planner::Allreduce chosen = planner::parse_allreduce(name);
      const model::TaskGraph graph = sum_graph_of(near, 0, name, kColumns, participants);
      const double expected =
          chosen.collective->time(topology_of(chosen, groups), model::Bytes{kBytes}, kNet).value();
      const double time = time_of(cluster, graph);
      const bool equal = std::ranges::count(groups, groups.front()) == std::ssize(groups);
      if (equal) {
        CHECK(time == doctest::Approx(expected).epsilon(1e-9));
      } else {
        CHECK(time <= expected * (1.0 + 1e-9));
      }
    }
  }
}

TEST_CASE("planner/collective: a composition of 30,240 bytes over 2 ms and 1 MB/s") {
  const auto ms = [](const char* name) {
    const planner::Allreduce chosen = planner::parse_allreduce(name);
    return doctest::Approx(
        chosen.collective->time(topology_of(chosen, {4, 4, 4}), model::Bytes{kBytes}, kNet)
            .value() *
        1e3);
  };
  // Within: 2 + 30.24 up and down; among: 4 (2 + 10.08).
  CHECK(ms("hierarchical:star+ring") == 112.8);
  // Within: 4 (2 + 7.56) up, 3 (2 + 2 * 7.56) down; among: 2 (2 + 30.24).
  CHECK(ms("hierarchical:ring+star") == 154.08);
}

// Parts of ranks: alike, or with some that are empty.
std::vector<std::int32_t> parts_of(int ranks, bool even) {
  std::vector<std::int32_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(even ? 3 : (rank * 5) % 4);
  if (std::ranges::count(sizes, 0) == ranks) sizes.front() = 2;
  return sizes;
}

TEST_CASE(
    "planner/collective: halves of compositions are exact, of rows and columns, even or not") {
  constexpr std::int32_t kOther = 2;
  for (const std::string& name : kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const bool gathers = variant % 2 == 0;
        const bool by_rows = variant / 2 % 2 == 0;
        const bool even = variant / 4 % 2 == 0;
        for (const bool in_turns : {false, true}) {
          CAPTURE(name);
          CAPTURE(groups.size());
          CAPTURE(groups.front());
          CAPTURE(variant);
          CAPTURE(in_turns);
          const planner::Proximity near = grouped(groups, in_turns);
          const int devices = static_cast<int>(near.order.size());
          const std::vector<std::int32_t> sizes = parts_of(devices, even);
          const std::int32_t extent = std::accumulate(sizes.begin(), sizes.end(), 0);
          const Halved halved = half_graph_of(
              near, name, gathers, by_rows ? extent : kOther, by_rows ? kOther : extent,
              cut_of(by_rows ? Cut::Axis::rows : Cut::Axis::columns, sizes, in_turns ? 3 : 1));
          Memory memory;
          const auto each = [&](Range of, const auto& element) {
            for (int i = of.begin; i < of.end; ++i)
              for (int j = 0; j < kOther; ++j) element(by_rows ? i : j, by_rows ? j : i);
          };
          const Range all{0, extent};
          for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
            const model::DeviceIndex device = halved.devices[rank];
            each(gathers ? halved.parts[rank] : all, [&](int row, int column) {
              at(memory, device, model::BufferKind::partial, row, column) =
                  term(gathers ? 0 : device, row, column);
            });
          }
          run(memory, halved.graph);
          int wrong = 0;
          for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
            each(gathers ? all : halved.parts[rank], [&](int row, int column) {
              double expected = gathers ? term(0, row, column) : 0.0;
              for (const model::DeviceIndex q : halved.devices)
                if (!gathers) expected += term(q, row, column);
              if (at(memory, halved.devices[rank], model::BufferKind::partial, row, column) !=
                  expected)
                ++wrong;
            });
          }
          CHECK(wrong == 0);
          CHECK(model::find_conflict(halved.graph).value_or("") == "");
          const double least = 4.0 * extent * kOther * (devices - 1);
          if (gathers) {
            CHECK(bytes_of(halved.graph) == least);
          } else {
            CHECK(bytes_of(halved.graph) >= least);
            CHECK(bytes_of(halved.graph) <=
                  least + gathered(name, groups) * 4.0 * extent * kOther + 1e-6);
          }
        }
      }
    }
  }
}

TEST_CASE("planner/collective: halves of compositions are exact of parts in several pieces") {
  constexpr std::int32_t kPieces = 2;
  for (const std::string& name : kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool gathers : {true, false}) {
        CAPTURE(name);
        CAPTURE(groups.size());
        CAPTURE(gathers);
        const planner::Proximity near = grouped(groups, gathers);
        const auto devices = static_cast<std::int32_t>(near.order.size());
        // As of two sequences, each of whose rows are shared out; rank 1 has none of the second.
        Cut cut{.axis = Cut::Axis::rows, .chunks = {}};
        for (std::int32_t rank = 0; rank < devices; ++rank) {
          cut.chunks.push_back({rank, rank + 1});
          cut.chunks.push_back({devices + rank, devices + rank + (rank == 1 ? 0 : 1)});
        }
        const Halved halved = half_graph_of(near, name, gathers, kPieces * devices, 1, cut);
        Memory memory;
        const auto owner = [&](std::int32_t row) {
          return static_cast<std::size_t>(row % devices);
        };
        const auto is_some = [&](std::int32_t row) { return row != devices + 1; };
        for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
          for (std::int32_t row = 0; row < kPieces * devices; ++row) {
            if (is_some(row) && (!gathers || owner(row) == rank))
              at(memory, halved.devices[rank], model::BufferKind::partial, row, 0) =
                  term(gathers ? 0 : halved.devices[rank], row, 0);
          }
        }
        run(memory, halved.graph);
        int wrong = 0;
        for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
          for (std::int32_t row = 0; row < kPieces * devices; ++row) {
            if (!is_some(row) || (!gathers && owner(row) != rank)) continue;
            double expected = gathers ? term(0, row, 0) : 0.0;
            for (const model::DeviceIndex q : halved.devices)
              if (!gathers) expected += term(q, row, 0);
            wrong +=
                at(memory, halved.devices[rank], model::BufferKind::partial, row, 0) != expected;
          }
        }
        CHECK(wrong == 0);
        CHECK(model::find_conflict(halved.graph).value_or("") == "");
      }
    }
  }
}

TEST_CASE("planner/collective: halves of compositions take their closed forms at most") {
  for (const std::string& name : kCompositions) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool gathers : {true, false}) {
        CAPTURE(name);
        CAPTURE(groups.size());
        CAPTURE(groups.front());
        CAPTURE(gathers);
        const bool equal = std::ranges::count(groups, groups.front()) == std::ssize(groups);
        if (!equal) continue;
        const planner::Proximity near = grouped(groups, false);
        const int devices = static_cast<int>(near.order.size());
        const std::vector<std::int32_t> parts(static_cast<std::size_t>(devices),
                                              kColumns / devices);
        const Halved halved =
            half_graph_of(near, name, gathers, kColumns, kSumRows, cut_of(Cut::Axis::rows, parts));
        const planner::Allreduce chosen = planner::parse_allreduce(name);
        const double expected =
            chosen.collective->half_time(topology_of(chosen, groups), model::Bytes{kBytes}, kNet)
                .value();
        const double time = time_of(mesh_of(devices, 2e-3, 1e6), halved.graph);
        CHECK(time <= expected * (1.0 + 1e-9));
        CHECK(time >= 0.3 * expected);
      }
    }
  }
}

TEST_CASE("planner/collective: broadcasts reach all that receive, bytes and times as counted") {
  testing::Sampled taken(11);
  for (const std::string& name : with_compositions(kAllreduces)) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool all : {true, false}) {
        if (!taken()) continue;
        CAPTURE(name);
        CAPTURE(groups.size());
        CAPTURE(groups.front());
        CAPTURE(all);
        const planner::Proximity near = grouped(groups, false);
        const int devices = static_cast<int>(near.order.size());
        std::vector<bool> receives(near.order.size(), true);
        for (std::size_t d = 1; !all && d < receives.size(); d += 2) receives[d] = false;
        const model::TaskGraph graph = broadcast_graph(near, name, kColumns, receives);
        Memory memory;
        for (int row = 0; row < kSumRows; ++row)
          for (int column = 0; column < kColumns; ++column)
            at(memory, 0, model::BufferKind::partial, row, column) = term(0, row, column);
        run(memory, graph);
        int wrong = 0;
        for (int d = 0; d < devices; ++d) {
          if (!receives[static_cast<std::size_t>(d)]) continue;
          for (int row = 0; row < kSumRows; ++row)
            for (int column = 0; column < kColumns; ++column)
              wrong +=
                  at(memory, d, model::BufferKind::partial, row, column) == term(0, row, column)
                      ? 0
                      : 1;
        }
        CHECK(wrong == 0);
        CHECK(model::find_conflict(graph).value_or("") == "");
        CHECK(bytes_of(graph) <= (devices - 1) * kBytes);
        if (!all) continue;
        CHECK(bytes_of(graph) == (devices - 1) * kBytes);
        const planner::Allreduce chosen = planner::parse_allreduce(name);
        const double expected =
            chosen.collective
                ->broadcast_time(topology_of(chosen, groups), model::Bytes{kBytes}, kNet)
                .value();
        const double time = time_of(mesh_of(devices, 2e-3, 1e6), graph);
        const bool equal = std::ranges::count(groups, groups.front()) == std::ssize(groups);
        if (equal || chosen.inside.collective == nullptr) {
          CHECK(time == doctest::Approx(expected).epsilon(1e-9));
        } else {
          CHECK(time <= expected * (1.0 + 1e-9));
        }
      }
    }
  }
}

TEST_CASE("planner/collective: compositions that are none are one clear error") {
  for (const char* text :
       {"hierarchical:", "hierarchical:ring", "hierarchical:+", "hierarchical:ring+",
        "hierarchical:+ring", "hierarchical:ring+comet", "hierarchical:hierarchical+ring",
        "hierarchical:ring+hierarchical", "hierarchical:ring+star+ring", "hierarchical:tree:0+ring",
        "hierarchical:star+tree:65", "ring+star", "hierarchical:ring:2+star"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)planner::parse_allreduce(text),
                         doctest::Contains("hierarchical[:IN+AMONG]"), Error);
  }
  CHECK(planner::parse_allreduce("hierarchical:tree:3+tree").inside.depth == 3);
  CHECK(planner::parse_allreduce("hierarchical:tree:3+tree").among.depth == 2);
  CHECK(planner::parse_allreduce("hierarchical").inside.collective == nullptr);
}

}  // namespace
}  // namespace tandem::test::composed_test
