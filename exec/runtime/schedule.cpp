#include "exec/runtime/schedule.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "exec/compute.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

using model::BufferRef;
using model::DeviceIndex;
using model::LaneKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

constexpr TaskIndex kEnd = std::numeric_limits<TaskIndex>::max();

bool is_among(model::BufferKind kind, std::span<const model::BufferKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool touches(const Task& task, BufferRef buffer, std::int32_t layer) {
  if (buffer.kind == model::BufferKind::key_value && task.layer != layer) return false;
  const bool beyond_operands =
      is_among(buffer.kind, also_read(task.kind)) || is_among(buffer.kind, also_written(task.kind));
  return beyond_operands || task.input == buffer || task.output == buffer;
}

// A buffer as a device knows it: kind, slot, and of the cache, the layer.
using Place = std::tuple<model::BufferKind, std::int16_t, std::int32_t>;

Place place_of(BufferRef buffer, std::int32_t layer) {
  return {buffer.kind, buffer.slot, buffer.kind == model::BufferKind::key_value ? layer : -1};
}

// The elements of a buffer that a task uses: those it names if it copies or adds, else all.
struct Area {
  model::Range rows;
  model::Range columns;
};

constexpr model::Range kAll{0, std::numeric_limits<std::int32_t>::max()};

Area area_of(const Task& task) {
  const bool named = task.kind == TaskKind::transfer || task.kind == TaskKind::add;
  return named ? Area{task.rows, task.columns} : Area{kAll, kAll};
}

bool meet(model::Range a, model::Range b) { return a.begin < b.end && b.begin < a.end; }
bool meet(const Area& a, const Area& b) {
  return meet(a.rows, b.rows) && meet(a.columns, b.columns);
}

bool within(const Area& inner, const Area& outer) {
  return outer.rows.contains(inner.rows) && outer.columns.contains(inner.columns);
}

// When the parts of a buffer are complete.
class Made {
 public:
  void add(const Area& area, TaskIndex when) {
    std::erase_if(parts_, [&](const Part& p) { return p.when <= when && within(p.area, area); });
    parts_.push_back({area, when});
  }
  // All of `area`; -1: nothing of it has been made.
  [[nodiscard]] TaskIndex when(const Area& area) const {
    TaskIndex last = -1;
    for (const Part& p : parts_) {
      if (meet(p.area, area)) last = std::max(last, p.when);
    }
    return last;
  }

 private:
  struct Part {
    Area area;
    TaskIndex when;
  };
  std::vector<Part> parts_;
};

enum class Role : std::uint8_t { none, cpu, disk, outgoing, incoming };

class Builder {
 public:
  Builder(const TaskGraph& graph, DeviceIndex device) : graph_(graph), device_(device) {
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Role role = role_of(at(i));
      if (role != Role::none) own_.push_back(i);
      anchor_.push_back(role == Role::incoming ? kEnd : i);
    }
  }

  Schedule build() {
    check_dependencies();
    anchor_deliveries();
    anchor_captures();
    Schedule schedule;
    collect(Role::outgoing, schedule.outgoing);
    collect(Role::incoming, schedule.incoming);
    collect_loads(schedule.disk);
    order(schedule);
    schedule.records = own_.size();
    return schedule;
  }

 private:
  const Task& at(TaskIndex i) const { return graph_.tasks()[static_cast<std::size_t>(i)]; }
  TaskIndex& anchor(TaskIndex i) { return anchor_[static_cast<std::size_t>(i)]; }

  Role role_of(const Task& task) const {
    if (task.lane == LaneKind::channel) {
      if (task.device == device_) return Role::outgoing;
      return task.peer == device_ ? Role::incoming : Role::none;
    }
    if (task.device != device_) return Role::none;
    return task.lane == LaneKind::disk ? Role::disk : Role::cpu;
  }

  void check_dependencies() const {
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) == Role::incoming) continue;  // its sender waits for them
      for (const TaskIndex d : graph_.dependencies(i)) {
        if (role_of(at(d)) == Role::none) {
          throw Error("task graph: task " + std::to_string(i) + " of device " +
                      std::to_string(device_) + " depends on task " + std::to_string(d) +
                      " of device " + std::to_string(at(d).device) +
                      ", expected a transfer between them");
        }
      }
      for (const std::int32_t mark : graph_.carried_dependencies(i)) {
        const TaskIndex d = graph_.carried()[static_cast<std::size_t>(mark)];
        if (at(d).device != device_) {
          throw Error("task graph: task " + std::to_string(i) + " of device " +
                      std::to_string(device_) + " depends on task " + std::to_string(d) +
                      " of the step before, of device " + std::to_string(at(d).device) +
                      ", expected one of the same device");
        }
      }
    }
  }

  // The event of a task that a load waits for; -1: loads are in order anyway.
  std::int32_t event_of(TaskIndex load, TaskIndex on) {
    if (role_of(at(on)) == Role::disk) return -1;
    if (role_of(at(on)) != Role::cpu) {
      throw Error("task graph: load " + std::to_string(load) + " of device " +
                  std::to_string(device_) + " depends on transfer " + std::to_string(on) +
                  ", expected cpu tasks");
    }
    const auto [entry, is_new] = events_.try_emplace(on, event_count_);
    if (is_new) ++event_count_;
    return entry->second;
  }

  void collect_loads(DiskSchedule& disk) {
    event_count_ = static_cast<std::int32_t>(graph_.carried().size());
    for (std::int32_t mark = 0; mark < event_count_; ++mark) {
      const TaskIndex i = graph_.carried()[static_cast<std::size_t>(mark)];
      if (role_of(at(i)) == Role::cpu) events_.try_emplace(i, mark);
    }
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) != Role::disk) continue;
      loads_.emplace(i, static_cast<std::int32_t>(disk.loads.size()));
      DiskLoad& load = disk.loads.emplace_back();
      load.task = i;
      for (const TaskIndex d : graph_.dependencies(i)) {
        const std::int32_t event = event_of(i, d);
        if (event >= 0) load.events.push_back(event);
      }
      for (const std::int32_t mark : graph_.carried_dependencies(i)) {
        const std::int32_t event = event_of(i, graph_.carried()[static_cast<std::size_t>(mark)]);
        if (event >= 0) load.carried.push_back(event);
      }
    }
    disk.events = event_count_;
  }

  bool depends(TaskIndex i, TaskIndex on) const {
    const auto dependencies = graph_.dependencies(i);
    return std::find(dependencies.begin(), dependencies.end(), on) != dependencies.end();
  }

  // Delivered just before the first later task that depends on it or touches its buffer, and not
  // after a later arrival in the same buffer.
  void anchor_deliveries() {
    std::map<Place, TaskIndex> next;  // delivery of the next arrival in a buffer
    for (auto it = own_.rbegin(); it != own_.rend(); ++it) {
      const Task& transfer = at(*it);
      if (role_of(transfer) != Role::incoming) continue;
      const auto first = std::find_if(it.base(), own_.end(), [&](TaskIndex j) {
        const Task& task = at(j);
        const Role role = role_of(task);
        if (role == Role::incoming) return false;
        if (depends(j, *it)) return true;
        if (!meet(area_of(task), area_of(transfer))) return false;
        return role == Role::outgoing ? task.input == transfer.output
                                      : touches(task, transfer.output, transfer.layer);
      });
      if (first != own_.end()) anchor(*it) = *first;
      const auto place = place_of(transfer.output, transfer.layer);
      TaskIndex& later = next.try_emplace(place, kEnd).first->second;
      later = anchor(*it) = std::min(anchor(*it), later);
    }
  }

  // Captured once everything that makes its rows is done: after the last such run or delivery, and
  // not before the channel's previous message.
  void anchor_captures() {
    std::map<DeviceIndex, TaskIndex> previous;  // by peer
    std::map<Place, Made> made;
    for (const TaskIndex i : own_) {
      const Task& task = at(i);
      const Role role = role_of(task);
      if (role != Role::outgoing) {
        made[place_of(task.output, task.layer)].add(area_of(task), anchor(i));
        for (const model::BufferKind kind : also_written(task.kind)) {
          made[place_of({.kind = kind}, task.layer)].add(area_of(task), anchor(i));
        }
        continue;
      }
      TaskIndex& last = previous.try_emplace(task.peer, -1).first->second;
      const auto input = made.find(place_of(task.input, task.layer));
      if (input != made.end()) last = std::max(last, input->second.when(area_of(task)));
      for (const TaskIndex d : graph_.dependencies(i)) last = std::max(last, anchor(d));
      anchor(i) = last;
    }
  }

  void collect(Role role, std::vector<ChannelSchedule>& channels) {
    std::map<DeviceIndex, ChannelSchedule> by_peer;
    for (const TaskIndex i : own_) {
      const Task& task = at(i);
      if (role_of(task) != role) continue;
      const DeviceIndex peer = role == Role::outgoing ? task.peer : task.device;
      ChannelSchedule& channel = by_peer[peer];
      channel.peer = peer;
      const std::size_t floats = static_cast<std::size_t>(task.rows.size()) *
                                 static_cast<std::size_t>(task.columns.size());
      channel.messages.push_back({.task = i, .floats = floats});
      channel.slot_floats = std::max(channel.slot_floats, floats);
    }
    for (auto& [peer, channel] : by_peer) {
      assign_slots(channel, role == Role::outgoing ? taken(channel) : deliveries(channel), role);
      channels.push_back(std::move(channel));
    }
  }

  std::vector<TaskIndex> deliveries(const ChannelSchedule& channel) {
    std::vector<TaskIndex> when;
    for (const ChannelMessage& message : channel.messages) when.push_back(anchor(message.task));
    return when;
  }

  // By when the receiver has surely taken each message of an outgoing channel off the network: when
  // it, or one behind it, is delivered.
  std::vector<TaskIndex> taken(const ChannelSchedule& channel) const {
    Builder receiver(graph_, channel.peer);
    receiver.anchor_deliveries();
    std::vector<TaskIndex> when = receiver.deliveries(channel);
    for (std::size_t m = when.size(); m-- > 1;) when[m - 1] = std::min(when[m - 1], when[m]);
    return when;
  }

  // A slot is free for a message if the one before it is surely gone, from a receiver's slot by the
  // time that anything after the message can be waited for, from a sender's by the time that the
  // message is captured. At least two: one on its way, one being filled or emptied.
  void assign_slots(ChannelSchedule& channel, const std::vector<TaskIndex>& gone, Role role) {
    struct Slot {
      TaskIndex busy_until;
      std::int32_t last;
    };
    std::vector<Slot> slots;
    const std::size_t least = std::min<std::size_t>(2, channel.messages.size());
    for (std::int32_t m = 0; m < static_cast<std::int32_t>(channel.messages.size()); ++m) {
      ChannelMessage& message = channel.messages[static_cast<std::size_t>(m)];
      auto slot = std::min_element(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
        return std::tie(a.busy_until, a.last) < std::tie(b.busy_until, b.last);
      });
      const TaskIndex needed = role == Role::incoming ? message.task : anchor(message.task);
      const bool grow = slots.size() < least || slot->busy_until >= needed;
      if (grow) slot = slots.insert(slots.end(), Slot{.busy_until = -1, .last = -1});
      message.slot = static_cast<std::int32_t>(slot - slots.begin());
      message.previous = slot->last;
      *slot = {.busy_until = gone[static_cast<std::size_t>(m)], .last = m};
    }
    channel.slots = static_cast<std::int32_t>(slots.size());
  }

  void order(Schedule& schedule) {
    // (anchor, deliver before await before run before capture, task)
    std::vector<std::tuple<TaskIndex, int, TaskIndex, Action>> keyed;
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) != Role::cpu) continue;
      const auto event = events_.find(i);
      keyed.emplace_back(i, 2, i,
                         Action{.kind = Action::Kind::run,
                                .task = i,
                                .event = event == events_.end() ? -1 : event->second});
      for (const TaskIndex d : graph_.dependencies(i)) {
        const auto load = loads_.find(d);
        if (load == loads_.end()) continue;
        keyed.emplace_back(
            i, 1, d, Action{.kind = Action::Kind::await, .task = d, .position = load->second});
        loads_.erase(load);  // once done, always done
      }
    }
    const auto add = [&](const std::vector<ChannelSchedule>& channels, Action::Kind kind,
                         int rank) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        for (std::size_t m = 0; m < channels[c].messages.size(); ++m) {
          const TaskIndex i = channels[c].messages[m].task;
          keyed.emplace_back(anchor(i), rank, i,
                             Action{.kind = kind,
                                    .task = i,
                                    .channel = static_cast<std::int32_t>(c),
                                    .position = static_cast<std::int32_t>(m)});
        }
      }
    };
    add(schedule.outgoing, Action::Kind::capture, 3);
    add(schedule.incoming, Action::Kind::deliver, 0);
    std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
             std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
    });
    schedule.actions.reserve(keyed.size());
    for (const auto& entry : keyed) schedule.actions.push_back(std::get<3>(entry));
  }

  const TaskGraph& graph_;
  DeviceIndex device_;
  std::vector<TaskIndex> own_;     // cpu tasks and both ends of transfers, ascending
  std::vector<TaskIndex> anchor_;  // by task: the index at which its action is done
  std::map<TaskIndex, std::int32_t> events_;
  std::int32_t event_count_ = 0;
  std::map<TaskIndex, std::int32_t> loads_;  // position of each that nothing waits for yet
};

}  // namespace

Schedule make_schedule(const TaskGraph& graph, DeviceIndex device) {
  return Builder(graph, device).build();
}

}  // namespace tandem::exec
