// Reduce-scatter and all-gather of every collective: values, bytes and times.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "model/graph/conflicts.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/work.hpp"
#include "planner/collective/tree.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::collective_halves_test {
namespace {

using model::Range;
using model::Task;
using model::TaskKind;
using planner::Cut;
using planner::Uniform;

constexpr std::int32_t kOther = 2;  // extent of the dimension that is not cut

// What `partial` has after `graph`, executed in serial order. Of a rank that never had a value:
// NaN.
class Values {
 public:
  Values(const Halved& halved, bool gathers, bool by_rows) : by_rows_(by_rows) {
    for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
      for (std::size_t owner = 0; owner < halved.devices.size(); ++owner) {
        if (gathers && owner != rank) continue;
        for (int i = halved.parts[owner].begin; i < halved.parts[owner].end; ++i) {
          for (int j = 0; j < kOther; ++j) {
            at(halved.devices[rank], model::BufferKind::partial, i, j) =
                gathers ? own(i, j) : term(rank, i, j);
          }
        }
      }
    }
    for (const Task& task : halved.graph.tasks()) run(task);
  }
  static double own(int i, int j) { return 100.0 * i + j; }
  static double term(std::size_t rank, int i, int j) {
    return static_cast<double>(std::size_t{1} << rank) * 1000.0 + own(i, j);
  }
  // i: of the dimension that is cut.
  double& at(model::DeviceIndex device, model::BufferKind kind, int i, int j) {
    return values_.try_emplace({device, kind, i, j}, std::numeric_limits<double>::quiet_NaN())
        .first->second;
  }

 private:
  void run(const Task& task) {
    const Range cut = by_rows_ ? task.rows : task.columns;
    const Range other = by_rows_ ? task.columns : task.rows;
    REQUIRE(other == Range{0, kOther});
    for (int i = cut.begin; i < cut.end; ++i) {
      for (int j = 0; j < kOther; ++j) {
        const double value = at(task.device, task.input.kind, i, j);
        if (task.kind == TaskKind::transfer) {
          at(task.peer, task.output.kind, i, j) = value;
        } else {
          REQUIRE(task.kind == TaskKind::add);
          at(task.device, task.output.kind, i, j) += value;
        }
      }
    }
  }

  bool by_rows_;
  std::map<std::tuple<model::DeviceIndex, model::BufferKind, int, int>, double> values_;
};

double bytes_of(const model::TaskGraph& graph) {
  const model::Transformer transformer = small_model({});
  double bytes = 0.0;
  for (const Task& task : graph.tasks())
    bytes += model::work_of(transformer, graph.batch(), task).bytes_wire;
  return bytes;
}

// Equal parts, parts that differ, some of them empty, and one rank with everything.
std::vector<std::vector<std::int32_t>> parts_for(int ranks) {
  std::vector<std::vector<std::int32_t>> all(4);
  for (int rank = 0; rank < ranks; ++rank) {
    all[0].push_back(3);
    all[1].push_back(1 + (rank * 5) % 4);
    all[2].push_back(rank % 3 == 1 ? 0 : 2);
    all[3].push_back(rank == ranks / 2 ? 5 : 0);
  }
  return all;
}

TEST_CASE("planner/collective: halves of rows and columns, even and uneven, are exact") {
  testing::Sampled taken(7);
  for (const std::string& allreduce : kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      for (const model::Cluster& cluster :
           {access_of(devices, 1e-3, 1e6), homes_of(devices, 1, 1e-3, 5e-3, 1e6),
            homes_of(devices % 2 == 0 ? 2 : 1, devices % 2 == 0 ? devices / 2 : devices, 1e-3, 5e-3,
                     1e6)}) {
        for (const std::vector<std::int32_t>& sizes : parts_for(devices)) {
          for (const std::int32_t tiles : {1, 3}) {
            for (const bool by_rows : {true, false}) {
              for (const bool gathers : {true, false}) {
                if (!taken()) continue;
                CAPTURE(allreduce);
                CAPTURE(devices);
                CAPTURE(sizes);
                CAPTURE(tiles);
                CAPTURE(by_rows);
                CAPTURE(gathers);
                const std::int32_t extent = std::accumulate(sizes.begin(), sizes.end(), 0);
                const Halved halved = half_graph(
                    cluster, allreduce, gathers, by_rows ? extent : kOther,
                    by_rows ? kOther : extent,
                    cut_of(by_rows ? Cut::Axis::rows : Cut::Axis::columns, sizes, tiles));
                Values values(halved, gathers, by_rows);
                int wrong = 0;
                for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
                  const Range mine = gathers ? Range{0, extent} : halved.parts[rank];
                  for (int i = mine.begin; i < mine.end; ++i) {
                    for (int j = 0; j < kOther; ++j) {
                      double expected = gathers ? Values::own(i, j) : 0.0;
                      for (std::size_t q = 0; !gathers && q < halved.devices.size(); ++q)
                        expected += Values::term(q, i, j);
                      const double got =
                          values.at(halved.devices[rank], model::BufferKind::partial, i, j);
                      if (got != expected) ++wrong;
                    }
                  }
                }
                CHECK(wrong == 0);
                CHECK(bytes_of(halved.graph) == 4.0 * extent * kOther * (devices - 1));
                CHECK(model::find_conflict(halved.graph).value_or("") == "");
              }
            }
          }
        }
      }
    }
  }
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

constexpr double kBytes = 4.0 * 3 * 2520;
constexpr Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};

TEST_CASE("planner/collective: halves take their closed forms to 1e-9") {
  for (const std::string& allreduce : kAllreduces) {
    for (int devices = 1; devices <= 9; ++devices) {
      for (const bool gathers : {true, false}) {
        CAPTURE(allreduce);
        CAPTURE(devices);
        CAPTURE(gathers);
        const model::Cluster cluster = mesh_of(devices, 2e-3, 1e6);
        const std::vector<std::int32_t> equal(static_cast<std::size_t>(devices), 2520 / devices);
        const Halved halved =
            half_graph(cluster, allreduce, gathers, 2520, 3, cut_of(Cut::Axis::rows, equal));
        const planner::Allreduce chosen = planner::parse_allreduce(allreduce);
        const planner::Topology topology{chosen.depth, groups_by_rank(cluster, 0)};
        const double expected =
            chosen.collective->half_time(topology, model::Bytes{kBytes}, kNet).value();
        const double time = time_of(cluster, halved.graph);
        CHECK(time <= expected * (1.0 + 1e-9));
        if (chosen.collective->half_time_is_exact(topology)) CHECK(time >= expected * (1.0 - 1e-9));
      }
    }
  }
}

TEST_CASE("planner/collective: halves of 30,240 bytes over 2 ms and 1 MB/s") {
  const model::Bytes bytes{kBytes};
  const auto ms = [](model::Seconds time) { return doctest::Approx(time.value() * 1e3); };
  const auto of = [&](const char* name, int ranks) {
    const planner::Allreduce chosen = planner::parse_allreduce(name);
    return chosen.collective->half_time(
        {chosen.depth, std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0)}, bytes, kNet);
  };
  CHECK(ms(of("ring", 8)) == 40.46);     // 7 (2 + 3.78)
  CHECK(ms(of("star", 8)) == 34.24);     // 2 * 2 + 30.24
  CHECK(ms(of("star", 2)) == 17.12);     // 2 + 15.12: each has one part to send, at once
  CHECK(ms(of("halving", 8)) == 32.46);  // 3 * 2 + 7/8 * 30.24
  // (2 + 2) 2 + (5 + 3 + 2) / 5 * 30.24: all but one part and one part back; 1 + 1 and 2 + 1 parts
  CHECK(ms(of("halving", 5)) == 68.48);
  CHECK(ms(of("tree:2", 5)) == 68.48);  // 4 * 2 + ((2 + 1) + (3 + 4)) / 5 * 30.24
}

TEST_CASE("planner/collective: hierarchical halves take 2 (l_in + l_out) + 2 S/B, (G - 1) S far") {
  for (const auto& sizes : std::vector<std::pair<int, int>>{{3, 2}, {2, 4}, {4, 2}, {3, 3}}) {
    const int homes = sizes.first;
    const int members = sizes.second;
    for (const bool gathers : {true, false}) {
      CAPTURE(homes);
      CAPTURE(members);
      CAPTURE(gathers);
      const model::Cluster cluster = homes_of(homes, members, 0.5e-3, 10e-3, 1e6);
      const int devices = homes * members;
      const std::vector<std::int32_t> equal(static_cast<std::size_t>(devices), 2520 / devices);
      const std::int32_t rows = equal.front() * devices;
      const double bytes = 4.0 * 3 * rows;
      const Halved halved =
          half_graph(cluster, "hierarchical", gathers, 2520, 3, cut_of(Cut::Axis::rows, equal));
      const double expected = 2.0 * (1e-3 + 21e-3) + 2.0 * bytes / 1e6;
      // Of two homes each has one way to wait for only.
      const double time = time_of(cluster, halved.graph);
      CHECK(time <= expected * (1.0 + 1e-9));
      if (homes > 2) CHECK(time == doctest::Approx(expected).epsilon(1e-9));
      double far = 0.0;
      for (const Task& task : halved.graph.tasks()) {
        if (task.kind == TaskKind::transfer && task.device % homes != task.peer % homes)
          far += 4.0 * task.rows.size() * task.columns.size();
      }
      CHECK(far == bytes * (homes - 1));
    }
  }
}

TEST_CASE("planner/collective: parts that a ring passes on leave as they arrive") {
  const std::vector<std::int32_t> sizes{2, 0, 3, 1};
  const Halved halved =
      half_graph(access_of(4, 1e-3, 1e6), "ring", true, 6, 4, cut_of(Cut::Axis::rows, sizes, 2));
  const model::MessageSchedule schedule = model::message_schedule(halved.graph);
  int relays = 0;
  int messages = 0;
  for (model::TaskIndex i = 0; i < halved.graph.size(); ++i) {
    ++messages;
    if (schedule.is_relay(i)) ++relays;
  }
  // Five chunks that are not empty, each three hops, the first of them from who has it.
  CHECK(messages == 15);
  CHECK(relays == 10);
}

}  // namespace
}  // namespace tandem::test::collective_halves_test
