// All-to-alls by the ways of every collective.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "model/graph/conflicts.hpp"
#include "model/graph/work.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/collective_fixture.hpp"

namespace tandem::test::all_to_all_test {
namespace {

using model::BufferKind;
using model::Task;
using planner::Cut;
using planner::Uniform;

constexpr std::int32_t kColumns = 2520;
constexpr double kBytes = 4.0 * kSumRows * kColumns;
constexpr Uniform kNet{model::Seconds{2e-3}, model::BytesPerSecond{1e6}};
const std::vector<std::vector<int>> kGroups{
    {1}, {2}, {3}, {5}, {8}, {2, 2}, {3, 3}, {1, 4, 2}, {4, 4}, {2, 3, 4}, {1, 1, 1}, {2, 2, 2, 2}};

double bytes_of(const model::TaskGraph& graph) {
  const model::Transformer transformer = small_model({});
  double bytes = 0.0;
  for (const Task& task : graph.tasks())
    bytes += model::work_of(transformer, graph.batch(), task).bytes_wire;
  return bytes;
}

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

TEST_CASE("planner/collective: all-to-alls bring every chunk, of rows and columns, even or not") {
  constexpr std::int32_t kOther = 2;
  for (const std::string& name : with_compositions(kAllreduces)) {
    for (const std::vector<int>& groups : kGroups) {
      for (const bool by_rows : {true, false}) {
        for (const bool even : {true, false}) {
          CAPTURE(name);
          CAPTURE(groups.size());
          CAPTURE(groups.front());
          CAPTURE(by_rows);
          CAPTURE(even);
          const planner::Proximity near = grouped(groups, !even);
          const auto ranks = static_cast<std::int32_t>(near.order.size());
          std::vector<std::int32_t> sizes;
          for (std::int32_t rank = 0; rank < ranks; ++rank)
            sizes.push_back(even ? 3 : (rank * 5 + 1) % 4);
          const std::int32_t extent = std::accumulate(sizes.begin(), sizes.end(), 0);
          const Cut cut = cut_of(by_rows ? Cut::Axis::rows : Cut::Axis::columns, sizes);
          const Dealt made =
              dealt(near, name, by_rows ? extent : kOther, by_rows ? kOther : extent, cut);
          // By device, buffer, slot, row and column: whose it is.
          std::map<std::tuple<int, BufferKind, int, int, int>, int> held;
          for (const model::DeviceIndex device : made.devices)
            for (int i = 0; i < extent; ++i)
              for (int j = 0; j < kOther; ++j)
                held[{device, BufferKind::partial, 0, by_rows ? i : j, by_rows ? j : i}] = device;
          for (const Task& task : made.graph.tasks()) {
            REQUIRE(task.kind == model::TaskKind::transfer);
            for (int row = task.rows.begin; row < task.rows.end; ++row) {
              for (int column = task.columns.begin; column < task.columns.end; ++column) {
                const auto value =
                    held.find({task.device, task.input.kind, task.input.slot, row, column});
                held[{task.peer, task.output.kind, task.output.slot, row, column}] =
                    value == held.end() ? -1 : value->second;
              }
            }
          }
          int wrong = 0;
          for (std::size_t to = 0; to < made.devices.size(); ++to) {
            const model::Range own = cut.chunks[to];
            for (std::size_t from = 0; from < made.devices.size(); ++from) {
              if (from == to) continue;
              const std::size_t slot = from < to ? from : from - 1;
              const model::TaskIndex came = made.arrivals[to][slot];
              if (own.empty() != (came < 0)) ++wrong;
              for (int i = own.begin; i < own.end; ++i) {
                for (int j = 0; j < kOther; ++j) {
                  const auto found =
                      held.find({made.devices[to], BufferKind::receive, static_cast<int>(slot),
                                 by_rows ? i : j, by_rows ? j : i});
                  if (found == held.end() || found->second != made.devices[from]) ++wrong;
                }
              }
            }
          }
          CHECK(wrong == 0);
          CHECK(model::find_conflict(made.graph).value_or("") == "");
          if (!even) continue;
          const planner::Allreduce chosen = planner::parse_allreduce(name);
          const double bytes = 4.0 * extent * kOther;
          CHECK(bytes_of(made.graph) ==
                doctest::Approx(planner::all_to_all_bytes(*chosen.collective,
                                                          topology_of(chosen, groups),
                                                          model::Bytes{bytes})
                                    .value()));
        }
      }
    }
  }
}

TEST_CASE("planner/collective: all-to-alls take their closed forms at most") {
  for (const std::string& name : with_compositions(kAllreduces)) {
    for (const std::vector<int>& groups : kGroups) {
      CAPTURE(name);
      CAPTURE(groups.size());
      CAPTURE(groups.front());
      const planner::Proximity near = grouped(groups, false);
      const auto ranks = static_cast<int>(near.order.size());
      if (kColumns % ranks != 0) continue;
      const std::vector<std::int32_t> parts(near.order.size(), kColumns / ranks);
      const Dealt made = dealt(near, name, kColumns, kSumRows, cut_of(Cut::Axis::rows, parts));
      const planner::Allreduce chosen = planner::parse_allreduce(name);
      const double expected =
          planner::all_to_all_time(*chosen.collective, topology_of(chosen, groups),
                                   model::Bytes{kBytes}, kNet)
              .value();
      const double time = time_of(mesh_of(ranks, 2e-3, 1e6), made.graph);
      CHECK(time <= expected * (1.0 + 1e-9));
      CHECK(time >= 0.3 * expected);
    }
  }
}

TEST_CASE("planner/collective: closed forms of all-to-alls, 30,240 bytes over 2 ms and 1 MB/s") {
  const auto topology = [](const planner::Allreduce& chosen, int ranks) {
    return topology_of(chosen, std::vector<int>{ranks});
  };
  for (const int ranks : {3, 4, 8}) {
    CAPTURE(ranks);
    const auto n = static_cast<double>(ranks);
    const auto time = [&](const char* name) {
      const planner::Allreduce chosen = planner::parse_allreduce(name);
      return doctest::Approx(planner::all_to_all_time(*chosen.collective, topology(chosen, ranks),
                                                      model::Bytes{kBytes}, kNet)
                                 .value());
    };
    const auto bytes = [&](const char* name) {
      const planner::Allreduce chosen = planner::parse_allreduce(name);
      return doctest::Approx(planner::all_to_all_bytes(*chosen.collective, topology(chosen, ranks),
                                                       model::Bytes{kBytes})
                                 .value());
    };
    const double whole = kBytes / 1e6;
    CHECK(time("ring") == (n - 1.0) * 2e-3 + 0.5 * (n - 1.0) * whole);
    CHECK(bytes("ring") == 0.5 * n * (n - 1.0) * kBytes);
    CHECK(time("star") == 2.0 * 2e-3 + (2.0 * n - 3.0) / n * whole);
    CHECK(bytes("star") == 2.0 * (n - 1.0) * (n - 1.0) / n * kBytes);
    if (ranks == 3) continue;
    CHECK(time("halving") == std::log2(n) * (2e-3 + 0.5 * whole));
    CHECK(bytes("halving") == 0.5 * n * std::log2(n) * kBytes);
  }
}

TEST_CASE("planner/collective: an all-to-all of a composition crosses groups by leaders alone") {
  const planner::Proximity near = grouped({3, 3, 3}, false);
  const std::vector<std::int32_t> parts(9, 4);
  for (const std::string& name : kCompositions) {
    CAPTURE(name);
    const Dealt made = dealt(near, name, 36, kSumRows, cut_of(Cut::Axis::rows, parts));
    int crossing = 0;
    for (const Task& task : made.graph.tasks()) {
      const auto from = static_cast<std::size_t>(task.device);
      const auto to = static_cast<std::size_t>(task.peer);
      if (near.group[from] == near.group[to]) continue;
      ++crossing;
      CHECK(std::ranges::find(near.group, near.group[from]) - near.group.begin() == task.device);
      CHECK(std::ranges::find(near.group, near.group[to]) - near.group.begin() == task.peer);
    }
    CHECK(crossing > 0);
  }
}

}  // namespace
}  // namespace tandem::test::all_to_all_test
