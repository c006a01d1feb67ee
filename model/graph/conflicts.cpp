#include "model/graph/conflicts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "model/graph/accesses.hpp"
#include "model/graph/message_schedule.hpp"

namespace tandem::model {
namespace {

// A buffer of a device; of the cache, a layer of it.
using Place = std::tuple<DeviceIndex, BufferKind, std::int16_t, std::int32_t>;

Place place_of(DeviceIndex device, const Access& access) {
  return {device, access.buffer.kind, access.buffer.slot, access.layer};
}

// A streamed block; of the head, a tile.
using BlockName = std::tuple<WeightBlock, std::int32_t, std::int32_t>;

BlockName block_of(const Task& task) {
  return {task.block, task.layer, task.block == WeightBlock::head ? task.columns.begin : 0};
}

std::string name(const TaskGraph& graph, TaskIndex i) {
  const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
  return "task " + std::to_string(i) + " (" + std::string(to_string(task.kind)) + " of device " +
         std::to_string(task.device) + ")";
}

class Order {
 public:
  explicit Order(const TaskGraph& graph)
      : graph_(graph), before_(graph.tasks().size(), -1), seen_(graph.tasks().size(), -1) {
    std::map<std::pair<DeviceIndex, DeviceIndex>, TaskIndex> last;
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      const DeviceIndex lane = task.lane == LaneKind::channel ? task.peer
                               : task.lane == LaneKind::cpu   ? -1
                                                              : -2;
      const auto [at, is_new] = last.try_emplace({task.device, lane}, i);
      if (!is_new) before_[static_cast<std::size_t>(i)] = std::exchange(at->second, i);
    }
  }

  // Returns whether `later` cannot begin before `earlier` has ended.
  [[nodiscard]] bool holds(TaskIndex earlier, TaskIndex later) {
    ++asked_;
    open_.assign(1, later);
    while (!open_.empty()) {
      const TaskIndex i = open_.back();
      open_.pop_back();
      if (i == earlier) return true;
      const auto look = [&](TaskIndex at) {
        if (at < earlier || std::exchange(seen_[static_cast<std::size_t>(at)], asked_) == asked_)
          return;
        open_.push_back(at);
      };
      look_before(i, look);
    }
    return false;
  }

 private:
  // Tests the most likely answer first, the one pushed last.
  template <class Look>
  void look_before(TaskIndex i, const Look& look) const {
    if (before_[static_cast<std::size_t>(i)] >= 0) look(before_[static_cast<std::size_t>(i)]);
    for (const TaskIndex d : graph_.dependencies(i)) look(d);
  }

  const TaskGraph& graph_;
  std::vector<TaskIndex> before_;  // in the task's lane; -1: nothing
  std::vector<std::int64_t> seen_;
  std::vector<TaskIndex> open_;
  std::int64_t asked_ = 0;
};

class Checker {
 public:
  explicit Checker(const TaskGraph& graph) : graph_(graph), order_(graph) {}

  std::optional<std::string> find() {
    check_buffers();
    check_gathered_weights();
    check_weights();
    check_finish();
    return fault_;
  }

 private:
  struct Write {
    Area area;
    TaskIndex task;
  };

  [[nodiscard]] const Task& at(TaskIndex i) const {
    return graph_.tasks()[static_cast<std::size_t>(i)];
  }

  void fail(TaskIndex later, const std::string& does, TaskIndex earlier,
            const std::string& expected) {
    if (!fault_)
      fault_ = name(graph_, later) + " " + does + " " + name(graph_, earlier) + ", " + expected;
  }

  void check_buffers() {
    std::map<Place, std::vector<Write>> written;
    for (TaskIndex i = 0; i < graph_.size() && !fault_; ++i) {
      const Task& task = at(i);
      std::array<DeviceIndex, 2> devices{task.device, task.peer};
      for (const DeviceIndex device : devices) {
        if (device < 0) continue;
        const bool arrives = task.lane == LaneKind::channel && task.peer == device;
        for (const Access& access : accesses_of(task, device)) {
          std::vector<Write>& writes = written[place_of(device, access)];
          // The schedule places a delivery after earlier accesses to its place.
          if (!arrives) check_access(i, device, access, writes);
          if (!access.writes) continue;
          std::erase_if(writes, [&](const Write& w) { return within(w.area, access.area); });
          writes.push_back({access.area, i});
        }
      }
    }
  }

  // Gathered weights are written on arrival, so earlier uses of their place must be over by then.
  void check_gathered_weights() {
    std::map<std::pair<DeviceIndex, std::int16_t>, TaskIndex> used;  // last
    for (TaskIndex i = 0; i < graph_.size() && !fault_; ++i) {
      const Task& task = at(i);
      if (const BufferRef place = gathered_weights_read(task); place.kind != BufferKind::none)
        used[{task.device, place.slot}] = i;
      if (task.kind != TaskKind::transfer || !moves_weights(task)) continue;
      const auto before = used.find({task.peer, task.output.slot});
      if (before != used.end() && !order_.holds(before->second, i))
        fail(i, "overwrites weights that are read by", before->second, "expected to wait for it");
    }
  }

  void check_access(TaskIndex i, DeviceIndex device, const Access& access,
                    const std::vector<Write>& writes) {
    for (const Write& write : writes) {
      const bool same_lane = at(i).lane == LaneKind::cpu && at(write.task).lane == LaneKind::cpu;
      if (same_lane || !meet(write.area, access.area) || order_.holds(write.task, i)) continue;
      fail(i,
           std::string(access.writes ? "overwrites " : "reads ") +
               std::string(to_string(access.buffer.kind)) + " on device " + std::to_string(device) +
               " that is written by",
           write.task, "expected to wait for it");
    }
  }

  // Streamed weights of a device.
  struct Streamed {
    std::vector<TaskIndex> loads;
    std::vector<TaskIndex> releases;
    std::map<BlockName, TaskIndex> loaded;    // and not released
    std::map<BlockName, TaskIndex> released;  // and not loaded again
    std::size_t events = 0;                   // that the device records
  };

  void check_weights() {
    std::map<DeviceIndex, Streamed> streamed;
    for (TaskIndex i = 0; i < graph_.size(); ++i) {
      if (at(i).kind != TaskKind::load) continue;
      Streamed& own = streamed[at(i).device];
      own.loads.push_back(i);
      own.released.try_emplace(block_of(at(i)), i);  // what is not loaded yet is not there
    }
    for (const TaskIndex i : graph_.events()) {
      const auto own = streamed.find(at(i).device);
      if (own != streamed.end()) ++own->second.events;
    }
    for (TaskIndex i = 0; i < graph_.size() && !fault_; ++i) {
      if (const auto own = streamed.find(at(i).device); own != streamed.end())
        check_block(i, own->second);
    }
    for (auto& [device, own] : streamed) check_window(own);
  }

  void check_block(TaskIndex i, Streamed& own) {
    const Task& task = at(i);
    if (task.block == WeightBlock::none || task.lane == LaneKind::channel) return;
    const BlockName block = block_of(task);
    if (task.kind == TaskKind::load) {
      own.released.erase(block);
      own.loaded[block] = i;
      return;
    }
    // The final norm's weight is not part of a tile, and stays.
    if (task.kind == TaskKind::norm && task.block == WeightBlock::head) return;
    if (const auto gone = own.released.find(block); gone != own.released.end()) {
      fail(i, "uses weights that are not in memory, in view of", gone->second,
           "expected its place between a load and a release");
      return;
    }
    const auto load = own.loaded.find(block);
    if (load == own.loaded.end()) return;  // resident
    if (!order_.holds(load->second, i))
      fail(i, "uses the weights of", load->second, "expected to wait for it");
    if (task.kind != TaskKind::release) return;
    own.releases.push_back(i);
    own.released[block] = i;
    own.loaded.erase(load);
  }

  void check_window(Streamed& own) {
    if (fault_) return;
    const std::size_t room = own.events;
    for (std::size_t n = 0; n < own.loads.size(); ++n) {
      const TaskIndex load = own.loads[n];
      if (n >= room) {
        const TaskIndex release = n - room < own.releases.size() ? own.releases[n - room] : -1;
        if (release >= 0 && release < load && order_.holds(release, load)) continue;
        return fail(load, "takes the room of the block of", own.loads[n - room],
                    "expected to wait for its release");
      }
      // Of the step before, which has the same events.
      const std::size_t before = own.loads.size() + n - room;
      const bool waits = std::ranges::any_of(graph_.awaited_events(load), [&](std::int32_t event) {
        return before < own.releases.size() &&
               graph_.events()[static_cast<std::size_t>(event)] == own.releases[before];
      });
      // A task after one that waits for a later release waits, too.
      if (!waits)
        return fail(load, "takes the room of the block of", own.loads[before],
                    "of the step before, expected to wait for its release");
    }
  }

  void check_finish() {
    if (fault_ || !graph_.has_epilogue() || graph_.epilogue() == graph_.size()) return;
    const DeviceIndex device = at(graph_.epilogue()).device;
    const MessageSchedule schedule = message_schedule(graph_, std::span(&device, 1));
    std::map<Place, std::vector<Area>> made;
    for (TaskIndex i = 0; i < graph_.size() && !fault_; ++i) {
      const bool delivered = at(i).lane == LaneKind::channel && at(i).peer == device &&
                             schedule.delivery[static_cast<std::size_t>(i)] >= graph_.epilogue();
      if (i < graph_.epilogue() && !delivered) continue;
      for (const Access& access : accesses_of(at(i), device)) {
        if (access.buffer.kind == BufferKind::key_value) continue;  // of other sequences
        std::vector<Area>& areas = made[place_of(device, access)];
        if (!access.writes && !covered(read_area(i, access), areas))
          return fail(i,
                      "of the epilogue reads " + std::string(to_string(access.buffer.kind)) +
                          " of another step: before the epilogue, of",
                      graph_.epilogue() - 1,
                      "expected a message, or a task of the epilogue, to bring all of it");
        if (access.writes) areas.push_back(written_area(i, access));
      }
    }
  }

  // Returns what is certainly written, or at most read, in whole columns of the declaration.
  [[nodiscard]] Area written_area(TaskIndex i, const Access& access) const {
    return of_sampled_rows(access.buffer.kind)
               ? Area{kEverything, sampled_columns(at(i), access.buffer.kind)}
               : read_area(i, access);
  }
  [[nodiscard]] Area read_area(TaskIndex i, const Access& access) const {
    const Task& task = at(i);
    Area area = access.area;
    // Sampled rows have rows of their own.
    if (of_sampled_rows(access.buffer.kind))
      return {kEverything, sampled_columns(task, access.buffer.kind)};
    area.rows = task.rows;
    const DeviceIndex device = task.lane == LaneKind::channel ? task.peer : task.device;
    const BufferDeclaration* const declared = find_buffer(graph_.declared(device), access.buffer);
    if (area.columns == kEverything && declared != nullptr)
      area.columns = {0, static_cast<std::int32_t>(declared->columns)};
    return area;
  }

  static bool covered(const Area& area, const std::vector<Area>& parts) {
    std::vector<Range> columns;
    for (const Area& part : parts) {
      if (part.rows.contains(area.rows)) columns.push_back(part.columns);
    }
    std::ranges::sort(columns, {}, &Range::begin);
    std::int32_t end = area.columns.begin;
    for (const Range range : columns) {
      if (range.begin <= end) end = std::max(end, range.end);
    }
    return end >= area.columns.end;
  }

  const TaskGraph& graph_;
  Order order_;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> find_conflict(const TaskGraph& graph) { return Checker(graph).find(); }

std::vector<std::string> undeclared(const TaskGraph& graph) {
  std::vector<std::string> faults;
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    for (const DeviceIndex device : {task.device, task.peer}) {
      if (device < 0) continue;
      for (const Access& access : accesses_of(task, device)) {
        // Scratch that some architectures need, and others do not declare.
        if (access.buffer.kind == BufferKind::gated || access.buffer.kind == BufferKind::angles)
          continue;
        const BufferDeclaration* const known = find_buffer(graph.declared(device), access.buffer);
        const bool layer =
            access.layer < 0 || (known != nullptr && known->layers.contains(access.layer));
        const bool columns =
            known != nullptr && (access.area.columns == kEverything ||
                                 (access.area.columns.begin >= known->first &&
                                  access.area.columns.end <= known->first + known->columns));
        if (known != nullptr && layer && columns) continue;
        faults.push_back(
            name(graph, i) + " uses " + std::string(to_string(access.buffer.kind)) + " on device " +
            std::to_string(device) +
            (known == nullptr ? ", which is not declared" : " beyond its declaration"));
      }
    }
  }
  return faults;
}

void require_ordered(const TaskGraph& graph) {
  if (const auto fault = find_conflict(graph)) throw std::logic_error("task graph: " + *fault);
}

}  // namespace tandem::model
