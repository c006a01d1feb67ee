#include "exec/runtime/run_tally.hpp"

#include <algorithm>
#include <limits>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

const model::Task& task_of(const model::TaskGraph& graph, const TaskTime& time) {
  return graph.tasks()[static_cast<std::size_t>(time.of())];
}

std::int64_t duration_ns(const TaskTime& time) {
  return std::max<std::int64_t>(0, time.end_ns - time.start_ns);
}

}  // namespace

void Tally::reserve(std::size_t steps, std::initializer_list<const model::TaskGraph*> graphs) {
  for (const model::TaskGraph* graph : graphs) {
    for (const model::Task& task : graph->tasks()) {
      if (task.lane == model::LaneKind::disk && task.device == device_) disk_.reserve(steps);
      if (task.lane != model::LaneKind::channel) continue;
      if (task.device == device_) static_cast<void>(channel(task.peer, /*sends=*/true));
      if (task.peer == device_) static_cast<void>(channel(task.device, /*sends=*/false));
    }
    const auto tasks = static_cast<std::size_t>(graph->size());
    if (disk_.capacity() > 0) end_ns_.resize(std::max(end_ns_.size(), tasks));
    const auto samples = [&](const model::Task& task) {
      return task.kind == model::TaskKind::sample && task.device == device_;
    };
    if (std::ranges::any_of(graph->tasks(), samples)) sum_.sampled_ns.reserve(steps);
  }
}

void Tally::add(const model::TaskGraph& graph, std::span<const TaskTime> records) {
  const bool first = sum_.steps++ == 0;
  const auto step = static_cast<std::size_t>(sum_.steps);
  bool loads = false;
  bool samples = false;
  std::int64_t origin_ns = std::numeric_limits<std::int64_t>::max();
  const std::int64_t lane_end_ns = sum_.last_cpu_ns;
  const bool began = began_;
  for (const TaskTime& time : records) {
    const model::Task& task = task_of(graph, time);
    const bool arrives = task.device != device_ && !time.copy();
    if (!arrives) origin_ns = std::min(origin_ns, time.start_ns);
    if (time.copy()) {
      add_cpu(task.device == device_ ? model::TaskKind::capture : model::TaskKind::deliver, time);
      continue;
    }
    switch (task.lane) {
      case model::LaneKind::cpu:
        add_cpu(task.kind, time);
        if (task.kind == model::TaskKind::sample) {
          if (!samples) sum_.sampled_ns.push_back(time.end_ns);
          samples = true;
          sum_.sampled_ns.back() = std::max(sum_.sampled_ns.back(), time.end_ns);
        }
        break;
      case model::LaneKind::disk: {
        KindTally& kind = sum_.kinds.at(static_cast<std::size_t>(task.kind));
        ++kind.count;
        kind.total_ns += duration_ns(time);
        sum_.busy_disk_ns += duration_ns(time);
        disk_.resize(step);
        disk_.back().busy_ns += duration_ns(time);
        loads = true;
        break;
      }
      case model::LaneKind::channel:
        add_message(task, time);
        break;
    }
  }
  if (first && !records.empty()) sum_.origin_ns = origin_ns;
  // Before its first action a lane waits for nothing that could be distinguished from the run's
  // beginning.
  lane_end_ns_ = began ? lane_end_ns : std::numeric_limits<std::int64_t>::max();
  if (loads) add_stalls(graph, records);
}

void Tally::add_cpu(model::TaskKind kind, const TaskTime& time) {
  KindTally& sum = sum_.kinds.at(static_cast<std::size_t>(kind));
  ++sum.count;
  sum.total_ns += duration_ns(time);
  sum_.busy_cpu_ns += duration_ns(time);
  if (!began_) sum_.first_cpu_ns = time.start_ns;
  began_ = true;
  sum_.last_cpu_ns = std::max(time.start_ns, time.end_ns);
}

void Tally::add_message(const model::Task& task, const TaskTime& time) {
  const bool sends = task.device == device_;
  ChannelTally& sum = channel(sends ? task.peer : task.device, sends);
  ++sum.count;
  sum.times_ns += static_cast<std::uint64_t>(sends ? time.start_ns : time.end_ns);
}

void Tally::add_stalls(const model::TaskGraph& graph, std::span<const TaskTime> records) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  end_ns_.resize(std::max(end_ns_.size(), static_cast<std::size_t>(graph.size())));
  for (const TaskTime& time : records) {
    if (!time.copy()) end_ns_[static_cast<std::size_t>(time.of())] = time.end_ns;
  }
  for (const TaskTime& time : records) {
    const model::Task& task = task_of(graph, time);
    if (!time.copy() && task.lane != model::LaneKind::cpu) continue;
    std::int64_t loaded_ns = kNever;
    std::int64_t others_ns = lane_end_ns_;
    // A delivery waits for its message alone.
    const bool delivers = time.copy() && task.device != device_;
    for (const model::TaskIndex d : graph.dependencies(time.of())) {
      if (delivers) break;
      const auto at = static_cast<std::size_t>(d);
      std::int64_t& latest =
          graph.tasks()[at].lane == model::LaneKind::disk ? loaded_ns : others_ns;
      latest = std::max(latest, end_ns_[at]);
    }
    const std::int64_t waited_ns = std::min(loaded_ns, time.start_ns);
    if (waited_ns > others_ns) disk_.back().stall_ns += waited_ns - others_ns;
    lane_end_ns_ = std::max(time.start_ns, time.end_ns);
  }
}

ChannelTally& Tally::channel(model::DeviceIndex peer, bool sends) {
  const auto found = std::ranges::find_if(sum_.channels, [&](const ChannelTally& channel) {
    return channel.peer == peer && channel.sends == sends;
  });
  if (found != sum_.channels.end()) return *found;
  return sum_.channels.emplace_back(ChannelTally{.peer = peer, .sends = sends});
}

DeviceTally Tally::total() const {
  DeviceTally total = sum_;
  // There is room for channels that none of the steps made use of.
  std::erase_if(total.channels, [](const ChannelTally& channel) { return channel.count == 0; });
  for (auto step = static_cast<std::size_t>(sum_.steps / 2); step < disk_.size(); ++step) {
    total.late_stall_ns += disk_[step].stall_ns;
    total.late_disk_ns += disk_[step].busy_ns;
  }
  return total;
}

double Tally::allocated_bytes() const {
  return static_cast<double>(disk_.capacity() * sizeof(Disk) +
                             end_ns_.capacity() * sizeof(std::int64_t) +
                             sum_.sampled_ns.capacity() * sizeof(std::int64_t) +
                             sum_.channels.capacity() * sizeof(ChannelTally));
}

}  // namespace tandem::exec
