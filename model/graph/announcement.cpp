#include "model/graph/announcement.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/tasks.hpp"
#include "model/graph/work.hpp"

namespace tandem::model {
namespace {

// Sums of the same latencies in another order differ by rounding.
constexpr double kRounding = 1e-12;

// Walks through a graph in order and tracks which devices know of the step.
class Followed {
 public:
  Followed(const TaskGraph& graph, const Cluster& cluster, DeviceIndex master)
      : graph_(graph),
        cluster_(cluster),
        master_(master),
        known_(graph.tasks().size(), kNever),
        cpu_(cluster.devices().size(), kNever) {
    cpu_[static_cast<std::size_t>(master)] = 0.0;
    direct_.reserve(cpu_.size());
    for (DeviceIndex d = 0; d < cluster.size(); ++d)
      direct_.push_back(d == master ? 0.0 : cluster.route(master, d).latency.value());
  }

  std::vector<TaskIndex> find() {
    std::vector<TaskIndex> found;
    for (TaskIndex i = 0; i < graph_.size(); ++i) {
      const Task& task = graph_.tasks()[static_cast<std::size_t>(i)];
      if (task.lane == LaneKind::disk) continue;
      const auto device = static_cast<std::size_t>(task.device);
      double known = task.device == master_ ? 0.0 : kNever;
      for (const TaskIndex d : graph_.dependencies(i))
        known = std::max(known, known_[static_cast<std::size_t>(d)]);
      const bool channel = task.lane == LaneKind::channel;
      if (!channel) known = std::max(known, cpu_[device]);
      if (known < direct_[device] * (1.0 - kRounding)) {
        found.push_back(i);
        known = direct_[device];
      }
      if (channel) {
        known += cluster_.route(task.device, task.peer).latency.value();
      } else {
        cpu_[device] = known;
      }
      known_[static_cast<std::size_t>(i)] = known;
    }
    return found;
  }

 private:
  static constexpr double kNever = -1.0;

  const TaskGraph& graph_;
  const Cluster& cluster_;
  DeviceIndex master_;
  // The least time from the step's submission on in which latencies alone let a task, or the last
  // one of a cpu lane, follow from something that the master does in the step; kNever: it need not.
  std::vector<double> known_;
  std::vector<double> cpu_;
  std::vector<double> direct_;  // latency of the master's route to each device
};

Task announcement(DeviceIndex master, DeviceIndex device, std::int64_t bytes) {
  constexpr auto kElement = static_cast<std::int64_t>(kElementBytes);
  static_assert(kAnnouncementBytes % kElement == 0 && kAnnouncedSegmentBytes % kElement == 0 &&
                kAnnouncedPlaceBytes % kElement == 0 && kAnnouncedCacheOpBytes % kElement == 0 &&
                kAnnouncedTokenBytes % kElement == 0);
  return transfer_task({.device = master,
                        .rows = {0, 1},
                        .columns = {0, static_cast<std::int32_t>(bytes / kElement)}},
                       device, {}, {});
}

}  // namespace

std::int64_t announcement_bytes(const Batch& batch, std::int64_t tokens) {
  return kAnnouncementBytes +
         kAnnouncedSegmentBytes * static_cast<std::int64_t>(batch.segments.size()) +
         kAnnouncedPlaceBytes * static_cast<std::int64_t>(batch.places.size()) +
         kAnnouncedCacheOpBytes * static_cast<std::int64_t>(batch.cache.size()) +
         kAnnouncedTokenBytes * tokens;
}

std::int64_t announcement_bytes(const TaskGraph& graph, DeviceIndex device) {
  const bool embeds = std::ranges::any_of(graph.tasks(), [device](const Task& task) {
    return task.device == device && (task.kind == TaskKind::embed || task.kind == TaskKind::fetch);
  });
  return announcement_bytes(graph.batch(), embeds ? graph.batch().rows() : 0);
}

std::vector<TaskIndex> unannounced(const TaskGraph& graph, const Cluster& cluster,
                                   DeviceIndex master) {
  return Followed(graph, cluster, master).find();
}

TaskGraph announced(TaskGraph graph, const Cluster& cluster, DeviceIndex master) {
  const std::vector<TaskIndex> first = unannounced(graph, cluster, master);
  if (first.empty()) return graph;
  require(!announces(graph), "announced: a graph is announced once");
  TaskGraph whole(graph.batch(), graph.wire());
  for (DeviceIndex d = 0; d < cluster.size(); ++d) {
    for (const BufferDeclaration& buffer : graph.declared(d)) whole.declare(d, buffer);
  }
  std::map<DeviceIndex, TaskIndex> announced_to;  // the announcement of each device
  for (const TaskIndex i : first)
    announced_to[graph.tasks()[static_cast<std::size_t>(i)].device] = 0;
  for (auto& [device, index] : announced_to)
    index = whole.add(announcement(master, device, announcement_bytes(graph, device)), {});
  const auto shift = static_cast<TaskIndex>(announced_to.size());
  std::vector<TaskIndex> dependencies;
  auto next = first.begin();
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (graph.has_epilogue() && i == graph.epilogue()) whole.begin_epilogue();
    dependencies.clear();
    if (next != first.end() && *next == i) {
      dependencies.push_back(announced_to.at(task.device));
      ++next;
    }
    for (const TaskIndex d : graph.dependencies(i)) dependencies.push_back(d + shift);
    whole.add(task, dependencies, graph.awaited_events(i));
  }
  for (const TaskIndex event : graph.events()) whole.record_event(event + shift);
  return whole;
}

bool announces(const TaskGraph& graph) {
  return !graph.tasks().empty() && is_announcement(graph.tasks().front());
}

bool is_announcement(const Task& task) {
  return task.lane == LaneKind::channel && task.input.kind == BufferKind::none &&
         task.output.kind == BufferKind::none;
}

}  // namespace tandem::model
