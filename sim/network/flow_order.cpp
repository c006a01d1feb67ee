#include "sim/network/flow_order.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "model/predict/step_extrapolation.hpp"
#include "sim/network/positional_random.hpp"

namespace tandem::sim {

using model::Task;
using model::TaskIndex;

namespace {

struct Event {
  std::size_t group;
  double time;
  std::uint64_t what;
};

}  // namespace

std::uint64_t flow_order(const model::Cluster& cluster, const model::TaskGraph& graph,
                         const std::vector<double>& begin, const std::vector<double>& end) {
  std::vector<std::size_t> parent(cluster.links().size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t link) {
    while (parent[link] != link) link = parent[link] = parent[parent[link]];
    return link;
  };
  std::vector<TaskIndex> flows;
  double length = 0.0;
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane != model::LaneKind::channel) continue;
    flows.push_back(i);
    length = std::max(length, end[static_cast<std::size_t>(i)]);
    const auto& hops = cluster.route(task.device, task.peer).hops;
    for (const model::Hop& hop : hops)
      parent[root(static_cast<std::size_t>(hop.link))] =
          root(static_cast<std::size_t>(hops.front().link));
  }
  std::vector<Event> events;
  for (const TaskIndex i : flows) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    const auto t = static_cast<std::size_t>(i);
    const auto link = cluster.route(task.device, task.peer).hops.front().link;
    const std::size_t group = root(static_cast<std::size_t>(link));
    events.push_back({group, begin[t], 2 * static_cast<std::uint64_t>(i)});
    events.push_back({group, end[t], 2 * static_cast<std::uint64_t>(i) + 1});
  }
  const auto by_time = [](const Event& a, const Event& b) {
    return std::tie(a.group, a.time, a.what) < std::tie(b.group, b.time, b.what);
  };
  std::sort(events.begin(), events.end(), by_time);
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < events.size();) {
    std::uint64_t tie = 0;
    std::size_t last = i;
    for (; last < events.size() && events[last].group == events[i].group &&
           events[last].time <= events[i].time + model::kTie * length;
         ++last) {
      tie += scattered(events[last].what);
    }
    digest = scattered(digest ^ tie);
    i = last;
  }
  return digest;
}

bool drains(const model::TaskGraph& graph) {
  const std::vector<Task>& tasks = graph.tasks();
  std::size_t last = tasks.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == model::TaskKind::sample) last = i;
  }
  if (last == tasks.size()) return false;
  const model::DeviceIndex master = tasks[last].device;
  std::vector<bool> leads(tasks.size(), false);
  std::vector<bool> comes(tasks.size(), false);
  leads[last] = true;
  for (std::size_t i = last + 1; i-- > 0;) {
    if (!leads[i]) continue;
    for (const TaskIndex d : graph.dependencies(static_cast<TaskIndex>(i)))
      leads[static_cast<std::size_t>(d)] = true;
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    comes[i] = tasks[i].lane == model::LaneKind::cpu && tasks[i].device == master;
    for (const TaskIndex d : graph.dependencies(static_cast<TaskIndex>(i)))
      comes[i] = comes[i] || comes[static_cast<std::size_t>(d)];
    if (tasks[i].lane == model::LaneKind::channel && !(leads[i] && comes[i])) return false;
  }
  return true;
}

}  // namespace tandem::sim
