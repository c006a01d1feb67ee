#include "exec/runtime/lane_programs.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/channel_slots.hpp"
#include "model/graph/message_schedule.hpp"

namespace tandem::exec {
namespace {

using model::DeviceIndex;
using model::LaneKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;

enum class LaneRole : std::uint8_t { none, cpu, disk, outgoing, incoming };

class LaneProgramBuilder {
 public:
  LaneProgramBuilder(const TaskGraph& graph, DeviceIndex device) : graph_(graph), device_(device) {
    std::vector<DeviceIndex> ends{device};  // and those that it sends to
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const LaneRole role = role_of(at(i));
      if (role != LaneRole::none) own_.push_back(i);
      if (role == LaneRole::outgoing) ends.push_back(at(i).peer);
    }
    schedule_ = model::message_schedule(graph, ends);
  }

  LanePrograms build() {
    check_dependencies();
    LanePrograms programs;
    collect_channels(programs);
    collect_loads(programs.disk);
    order(programs);
    programs.records = own_.size();
    for (const ChannelProgram& channel : programs.incoming)
      programs.records += channel.messages.size();
    for (const ChannelProgram& channel : programs.outgoing) {
      for (const ChannelMessage& message : channel.messages) {
        if (!message.source.exists()) ++programs.records;
      }
    }
    return programs;
  }

 private:
  const Task& at(TaskIndex i) const { return graph_.tasks()[static_cast<std::size_t>(i)]; }
  // Returns the task at whose place this device handles the transfer.
  [[nodiscard]] TaskIndex place(TaskIndex transfer) const {
    const auto i = static_cast<std::size_t>(transfer);
    return role_of(at(transfer)) == LaneRole::outgoing ? schedule_.capture[i]
                                                       : schedule_.delivery[i];
  }

  LaneRole role_of(const Task& task) const {
    if (task.lane == LaneKind::channel) {
      if (task.device == device_) return LaneRole::outgoing;
      return task.peer == device_ ? LaneRole::incoming : LaneRole::none;
    }
    if (task.device != device_) return LaneRole::none;
    return task.lane == LaneKind::disk ? LaneRole::disk : LaneRole::cpu;
  }

  // An epilogue may run after other steps have begun: it must not depend on values in memory.
  void check_finish(TaskIndex i) const {
    const TaskIndex epilogue = graph_.epilogue();
    for (const TaskIndex d : graph_.dependencies(i)) {
      const bool earlier =
          role_of(at(d)) == LaneRole::incoming ? place(d) < epilogue : d < epilogue;
      if (!earlier) continue;
      throw Error("task graph: task " + std::to_string(i) + " of the epilogue on device " +
                  std::to_string(device_) + " depends on task " + std::to_string(d) +
                  " before it, expected a message that the epilogue receives");
    }
  }

  void check_dependencies() const {
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) == LaneRole::incoming) continue;  // its sender waits for them
      if (graph_.has_epilogue() && i >= graph_.epilogue()) check_finish(i);
      for (const TaskIndex d : graph_.dependencies(i)) {
        if (role_of(at(d)) == LaneRole::none) {
          throw Error("task graph: task " + std::to_string(i) + " of device " +
                      std::to_string(device_) + " depends on task " + std::to_string(d) +
                      " of device " + std::to_string(at(d).device) +
                      ", expected a transfer between them");
        }
      }
      for (const std::int32_t number : graph_.awaited_events(i)) {
        const TaskIndex d = graph_.events()[static_cast<std::size_t>(number)];
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
    if (role_of(at(on)) == LaneRole::disk) return -1;
    if (role_of(at(on)) != LaneRole::cpu) {
      throw Error("task graph: load " + std::to_string(load) + " of device " +
                  std::to_string(device_) + " depends on transfer " + std::to_string(on) +
                  ", expected cpu tasks");
    }
    const auto [entry, is_new] = events_.try_emplace(on, event_count_);
    if (is_new) ++event_count_;
    return entry->second;
  }

  void collect_loads(DiskProgram& disk) {
    event_count_ = static_cast<std::int32_t>(graph_.events().size());
    for (std::int32_t number = 0; number < event_count_; ++number) {
      const TaskIndex i = graph_.events()[static_cast<std::size_t>(number)];
      if (role_of(at(i)) == LaneRole::cpu) events_.try_emplace(i, number);
    }
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) != LaneRole::disk) continue;
      loads_.emplace(i, static_cast<std::int32_t>(disk.loads.size()));
      DiskLoad& load = disk.loads.emplace_back();
      load.task = i;
      for (const TaskIndex d : graph_.dependencies(i)) {
        const std::int32_t event = event_of(i, d);
        if (event >= 0) load.events.push_back(event);
      }
      for (const std::int32_t number : graph_.awaited_events(i)) {
        const std::int32_t event = event_of(i, graph_.events()[static_cast<std::size_t>(number)]);
        if (event >= 0) load.earlier_events.push_back(event);
      }
    }
    disk.events = event_count_;
  }

  void collect_channels(LanePrograms& programs) const {
    for (const model::ChannelSlots& end : model::channel_slots(graph_, schedule_, device_)) {
      ChannelProgram channel{.peer = end.peer,
                             .messages = {},
                             .slots = end.slots,
                             .slot_bytes = static_cast<std::size_t>(end.slot_bytes)};
      for (const model::SlottedMessage& message : end.messages) {
        channel.messages.push_back({.task = message.task,
                                    .bytes = static_cast<std::size_t>(message.bytes),
                                    .slot = message.slot,
                                    .previous = message.previous});
        if (model::moves_weights(at(message.task)))
          channel.direct_bytes =
              std::max(channel.direct_bytes, static_cast<std::size_t>(message.bytes));
      }
      (end.outgoing ? programs.outgoing : programs.incoming).push_back(std::move(channel));
    }
    connect_relays(programs);
  }

  void connect_relays(LanePrograms& programs) const {
    std::map<TaskIndex, MessageRef> arrivals;
    const auto for_each = [](std::vector<ChannelProgram>& channels, const auto& use) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        for (std::size_t m = 0; m < channels[c].messages.size(); ++m) {
          use(channels[c].messages[m], MessageRef{.channel = static_cast<std::int32_t>(c),
                                                  .position = static_cast<std::int32_t>(m)});
        }
      }
    };
    for_each(programs.incoming,
             [&](ChannelMessage& message, MessageRef at) { arrivals.emplace(message.task, at); });
    for_each(programs.outgoing, [&](ChannelMessage& message, MessageRef at) {
      if (!schedule_.is_relay(message.task)) return;
      message.source = arrivals.at(schedule_.source[static_cast<std::size_t>(message.task)]);
      programs.relayed_bytes += static_cast<double>(message.bytes);
      ChannelProgram& from = programs.incoming[static_cast<std::size_t>(message.source.channel)];
      from.passes_on = true;
      from.messages[static_cast<std::size_t>(message.source.position)].relays.push_back(at);
    });
  }

  void order(LanePrograms& programs) {
    // (place, deliver before await before run before capture, task)
    std::vector<std::tuple<TaskIndex, int, TaskIndex, Action>> keyed;
    for (const TaskIndex i : own_) {
      if (role_of(at(i)) != LaneRole::cpu) continue;
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
    const auto add = [&](const std::vector<ChannelProgram>& channels, Action::Kind kind, int rank) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        for (std::size_t m = 0; m < channels[c].messages.size(); ++m) {
          if (channels[c].messages[m].source.exists()) continue;  // relays are not captured
          const TaskIndex i = channels[c].messages[m].task;
          keyed.emplace_back(place(i), rank, i,
                             Action{.kind = kind,
                                    .task = i,
                                    .channel = static_cast<std::int32_t>(c),
                                    .position = static_cast<std::int32_t>(m)});
        }
      }
    };
    add(programs.outgoing, Action::Kind::capture, 3);
    add(programs.incoming, Action::Kind::deliver, 0);
    std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
             std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
    });
    programs.actions.reserve(keyed.size());
    for (const auto& entry : keyed) programs.actions.push_back(std::get<3>(entry));
    programs.epilogue =
        static_cast<std::size_t>(std::ranges::count_if(keyed, [&](const auto& entry) {
          return !graph_.has_epilogue() || std::get<0>(entry) < graph_.epilogue();
        }));
  }

  const TaskGraph& graph_;
  DeviceIndex device_;
  model::MessageSchedule schedule_;
  std::vector<TaskIndex> own_;  // tasks of this device and both ends of transfers, ascending
  std::map<TaskIndex, std::int32_t> events_;
  std::int32_t event_count_ = 0;
  std::map<TaskIndex, std::int32_t> loads_;  // position of each that nothing waits for yet
};

}  // namespace

LanePrograms make_lane_programs(const TaskGraph& graph, DeviceIndex device) {
  return LaneProgramBuilder(graph, device).build();
}

}  // namespace tandem::exec
