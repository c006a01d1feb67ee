#include "study/steady_state/schedule_graph.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::study {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using model::Cluster;
using model::CostModel;
using model::Device;
using model::DeviceIndex;
using model::DeviceProfile;
using model::Direction;
using model::Edge;
using model::LaneKind;
using model::Link;
using model::LinkIndex;
using model::Range;
using model::Seconds;
using model::Sharing;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;
using model::WeightBlock;

// An all-reduce's message takes t_ar / 2: a latency of a quarter of the shortest t_ar, and bytes.
class ReduceLinks {
 public:
  ReduceLinks(const MemorySchedule& schedule, Seconds tick, ScheduleNetwork network)
      : shortest_(*std::min_element(schedule.reduce.begin(), schedule.reduce.end())),
        tick_(tick),
        network_(network) {}

  // 4 bytes for each quarter of a tick that the latency leaves.
  [[nodiscard]] Range columns(Ticks reduce) const {
    return {0, static_cast<std::int32_t>(2 * reduce - shortest_)};
  }
  [[nodiscard]] Cluster connect(std::vector<Device> devices) const {
    const std::string& hub = devices.back().name;
    std::vector<Link> links;
    std::vector<Edge> edges;
    for (std::size_t d = 0; d + 1 < devices.size(); ++d) {
      const bool apart = network_ == ScheduleNetwork::apart;
      if (apart || links.empty())
        links.push_back({.name = "link " + std::to_string(d),
                         .latency = static_cast<double>(shortest_) / 4.0 * tick_,
                         .bandwidth = Bytes{16.0} / tick_,
                         .sharing = apart ? Sharing::split_duplex : Sharing::shared});
      edges.push_back({.from = devices[d].name,
                       .to = hub,
                       .hops = {{.link = static_cast<LinkIndex>(links.size() - 1),
                                 .direction = apart ? Direction::up : Direction::none}}});
    }
    return {"schedule", std::move(devices), {}, std::move(links), std::move(edges)};
  }

 private:
  Ticks shortest_;
  Seconds tick_;
  ScheduleNetwork network_;
};

constexpr double kLoadBytes = 4.0;  // of one row of an embedding of width 1
constexpr double kAddBytes = 12.0;  // of one column: two read, one written

Cluster make_cluster(const MemorySchedule& schedule, const ReduceLinks& links, Seconds tick) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d <= schedule.devices.size(); ++d) {
    const bool hub = d == schedule.devices.size();
    devices.push_back({.name = hub ? "hub" : "device " + std::to_string(d),
                       .flop_rate = model::FlopsPerSecond{1.0},
                       .memory_bandwidth = BytesPerSecond{1.0},
                       .memory = Bytes{1.0},
                       .disk_bandwidth = Bytes{kLoadBytes} / tick});
  }
  return links.connect(std::move(devices));
}

CostModel make_costs(std::size_t devices, Seconds tick) {
  DeviceProfile profile;
  profile.source = "schedule";
  for (model::KindRate& rate : profile.rate)
    rate.points = {{.intensity = 1.0, .seconds_per_byte = tick.value() / kAddBytes}};
  for (const TaskKind free : {TaskKind::transfer, TaskKind::capture, TaskKind::deliver})
    profile.rate[static_cast<std::size_t>(free)].points[0].seconds_per_byte = 0.0;
  return {model::Transformer{.name = "schedule", .hidden = 1},
          std::vector<DeviceProfile>(devices, profile)};
}

class Builder {
 public:
  Builder(const MemorySchedule& schedule, const ReduceLinks& links, ScheduleGraph& made)
      : schedule_(schedule),
        links_(links),
        made_(made),
        releases_(schedule.devices.size()),
        arrivals_(schedule.devices.size()) {}

  void token() {
    for (std::size_t b = 0; b < schedule_.blocks(); ++b) {
      std::vector<TaskIndex> computes;
      for (std::size_t d = 0; d < schedule_.devices.size(); ++d) computes.push_back(compute(d, b));
      reduce(b, computes);
      for (std::size_t d = 0; d < schedule_.devices.size(); ++d)
        if (schedule_.devices[d].release == model::ReleaseRule::late) release(d, b, *arrivals_[d]);
      // In the order of the result: token, device, block.
      computes_.push_back(std::move(computes));
    }
    for (std::size_t d = 0; d < schedule_.devices.size(); ++d)
      for (const std::vector<TaskIndex>& block : computes_) made_.computes.push_back(block[d]);
    computes_.clear();
  }

 private:
  [[nodiscard]] static Task at(std::size_t device, TaskKind kind, LaneKind lane, Range columns) {
    return {.kind = kind,
            .lane = lane,
            .device = static_cast<DeviceIndex>(device),
            .rows = {0, 1},
            .columns = columns};
  }
  [[nodiscard]] static Range columns(Ticks time) { return {0, static_cast<std::int32_t>(time)}; }

  TaskIndex compute(std::size_t d, std::size_t b) {
    const BlockTimes& block = schedule_.devices[d].blocks[b];
    std::vector<TaskIndex> awaited;
    if (arrivals_[d]) awaited.push_back(*arrivals_[d]);
    if (block.residence == Residence::streamed) awaited.push_back(load(d, block));
    const TaskIndex made =
        made_.graph.add(at(d, TaskKind::add, LaneKind::cpu, columns(block.compute)), awaited);
    if (schedule_.devices[d].release == model::ReleaseRule::early) release(d, b, made);
    return made;
  }

  TaskIndex load(std::size_t d, const BlockTimes& block) {
    Task task = at(d, TaskKind::load, LaneKind::disk, columns(block.load));
    task.block = WeightBlock::embedding;
    std::vector<TaskIndex> awaited;
    const std::int64_t window = schedule_.devices[d].window;
    const std::vector<TaskIndex>& releases = releases_[d];
    if (static_cast<std::int64_t>(releases.size()) >= window)
      awaited.push_back(releases[releases.size() - static_cast<std::size_t>(window)]);
    return made_.graph.add(task, awaited);
  }

  void release(std::size_t d, std::size_t b, TaskIndex after) {
    if (schedule_.devices[d].blocks[b].residence != Residence::streamed) return;
    Task task = at(d, TaskKind::release, LaneKind::cpu, {});
    task.block = WeightBlock::embedding;
    releases_[d].push_back(made_.graph.add(task, {after}));
  }

  void reduce(std::size_t b, const std::vector<TaskIndex>& computes) {
    const std::size_t hub = schedule_.devices.size();
    const Range range = links_.columns(schedule_.reduce[b]);
    std::vector<TaskIndex> gathered;
    for (std::size_t d = 0; d < hub; ++d)
      gathered.push_back(made_.graph.add(message(d, hub, range), {computes[d]}));
    for (std::size_t d = 0; d < hub; ++d)
      arrivals_[d] = made_.graph.add(message(hub, d, range), gathered);
  }
  [[nodiscard]] static Task message(std::size_t from, std::size_t to, Range range) {
    Task task = at(from, TaskKind::transfer, LaneKind::channel, range);
    task.peer = static_cast<DeviceIndex>(to);
    task.input = {.kind = model::BufferKind::partial};
    task.output = {.kind = model::BufferKind::receive};
    return task;
  }

  const MemorySchedule& schedule_;
  const ReduceLinks& links_;
  ScheduleGraph& made_;
  std::vector<std::vector<TaskIndex>> releases_;    // by device, of its streamed blocks
  std::vector<std::optional<TaskIndex>> arrivals_;  // by device, of the block before
  std::vector<std::vector<TaskIndex>> computes_;    // of the token, by block and device
};

}  // namespace

TaskIndex ScheduleGraph::compute(std::size_t token, std::size_t device, std::size_t block) const {
  return computes.at((token * devices + device) * blocks + block);
}

ScheduleGraph to_task_graph(const MemorySchedule& schedule, std::size_t tokens, Seconds tick,
                            ScheduleNetwork network) {
  validate(schedule);
  constexpr Ticks kMost = Ticks{1} << 30;
  const auto small = [&](Ticks time) {
    require(time < kMost, "schedule graph: a time is too long");
  };
  for (const Ticks time : schedule.reduce) small(time);
  for (const StreamingDevice& device : schedule.devices) {
    for (const BlockTimes& block : device.blocks) {
      small(block.compute);
      small(block.load);
    }
  }
  const ReduceLinks links(schedule, tick, network);
  ScheduleGraph made{.cluster = make_cluster(schedule, links, tick),
                     .costs = make_costs(schedule.devices.size() + 1, tick),
                     .graph = TaskGraph(model::Batch{.segments = {{.rows = 1}}}),
                     .devices = schedule.devices.size(),
                     .blocks = schedule.blocks()};
  Builder builder(schedule, links, made);
  for (std::size_t token = 0; token < tokens; ++token) builder.token();
  return made;
}

}  // namespace tandem::study
