#include "model/graph/message_schedule.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "model/graph/accesses.hpp"

namespace tandem::model {
namespace {

// A buffer as a device knows it: kind, slot, and of the cache, the layer.
using BufferPlace = std::tuple<BufferKind, std::int16_t, std::int32_t>;

BufferPlace place_of(BufferRef buffer, std::int32_t layer) {
  return {buffer.kind, buffer.slot, cache_layer_of(buffer, layer)};
}

// Calls `use` for each buffer that the task reads or writes: as accesses_of, without making a list.
template <class Use>
void for_each_buffer(const Task& task, const Use& use) {
  for (const BufferKind kind : also_read(task.kind)) use(BufferRef{.kind = kind});
  for (const BufferKind kind : also_written(task.kind)) use(BufferRef{.kind = kind});
  for (const BufferRef buffer :
       {softmax_read(task), softmax_written(task), arrived_read(task), keys_read(task),
        list_read(task), gathered_weights_read(task), task.input, task.output})
    use(buffer);
}

// When the contents of a buffer are complete, and the task that writes them.
class Made {
 public:
  // `by`: more than before.
  void add(const Area& area, TaskIndex when, TaskIndex by) {
    const auto end = from(area.rows.end);
    const auto within_it = [&](const Write& p) { return p.when <= when && within(p.area, area); };
    writes_.erase(std::remove_if(from(area.rows.begin), end, within_it), end);
    writes_.insert(from(area.rows.begin), {area, when, by});
  }
  // For all of `area`; kBegin: nothing of it has been made.
  [[nodiscard]] TaskIndex when(const Area& area) const {
    TaskIndex last = MessageSchedule::kBegin;
    for (const Write& p : writes_) {
      if (meet(p.area, area)) last = std::max(last, p.when);
    }
    return last;
  }
  // The last to write to some of `area`; -1: none has.
  [[nodiscard]] TaskIndex writer(const Area& area) const {
    TaskIndex last = -1;
    for (const Write& p : writes_) {
      if (meet(p.area, area)) last = std::max(last, p.by);
    }
    return last;
  }

 private:
  struct Write {
    Area area;
    TaskIndex when;
    TaskIndex by;
  };
  // The first that begins at `row` or after it.
  std::vector<Write>::iterator from(std::int32_t row) {
    return std::ranges::lower_bound(writes_, row, {},
                                    [](const Write& p) { return p.area.rows.begin; });
  }

  // Sorted by first rows, so that writes within others are found without a search: a prompt whose
  // rows are all sampled is written row by row.
  std::vector<Write> writes_;
};

class Finder {
 public:
  Finder(const TaskGraph& graph, MessageSchedule& schedule) : graph_(graph), schedule_(schedule) {
    const auto size = static_cast<std::size_t>(graph.size());
    schedule.capture.assign(size, 0);
    schedule.delivery.assign(size, 0);
    schedule.source.assign(size, MessageSchedule::kCaptured);
    for (const Task& task : graph.tasks()) {
      if (task.lane == LaneKind::channel && task.input.kind != BufferKind::none)
        sent_ |= bit(task.input.kind);
    }
  }

  // `own`: the cpu tasks of `device` and both ends of its transfers, ascending.
  void find(DeviceIndex device, const std::vector<TaskIndex>& own) {
    device_ = device;
    find_deliveries(own);
    find_captures(own);
  }

 private:
  static unsigned bit(BufferKind kind) { return 1U << static_cast<unsigned>(kind); }
  [[nodiscard]] const Task& at(TaskIndex i) const {
    return graph_.tasks()[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] bool incoming(const Task& task) const {
    return task.lane == LaneKind::channel && task.peer == device_;
  }
  [[nodiscard]] bool outgoing(const Task& task) const {
    return task.lane == LaneKind::channel && task.device == device_;
  }
  TaskIndex& delivery(TaskIndex i) { return schedule_.delivery[static_cast<std::size_t>(i)]; }
  TaskIndex& capture(TaskIndex i) { return schedule_.capture[static_cast<std::size_t>(i)]; }

  // A transfer out of the cache sends its place, whatever the layer.
  static constexpr std::int32_t kAnyLayer = -2;

  // Lists the tasks that use what arrives, and the first that depends on each arrival.
  void find_users(const std::vector<TaskIndex>& own) {
    users_.clear();
    unsigned arrives = 0;  // kinds of buffers, a bit each
    for (const TaskIndex i : own) {
      if (incoming(at(i))) arrives |= bit(at(i).output.kind);
    }
    const auto add = [&](BufferRef buffer, std::int32_t layer, TaskIndex user) {
      if (buffer.kind == BufferKind::none || (arrives & bit(buffer.kind)) == 0) return;
      std::vector<TaskIndex>& users = users_[{buffer.kind, buffer.slot, layer}];
      if (users.empty() || users.back() != user) users.push_back(user);
    };
    for (const TaskIndex i : own) {
      const Task& task = at(i);
      if (incoming(task)) continue;
      for (const TaskIndex d : graph_.dependencies(i)) {
        if (incoming(at(d))) delivery(d) = std::min(delivery(d), i);
      }
      if (outgoing(task)) {
        add(task.input, kAnyLayer, i);
      } else {
        for_each_buffer(
            task, [&](BufferRef buffer) { add(buffer, cache_layer_of(buffer, task.layer), i); });
      }
    }
  }

  // Returns the first task after `transfer` and before `end` that uses what it brings, or `end`.
  [[nodiscard]] TaskIndex first_use(TaskIndex transfer, TaskIndex end) const {
    const BufferRef brought = at(transfer).output;
    const Area area = area_of(at(transfer), brought.kind);
    for (const std::int32_t layer : {cache_layer_of(brought, at(transfer).layer), kAnyLayer}) {
      const auto users = users_.find({brought.kind, brought.slot, layer});
      if (users == users_.end()) continue;
      for (auto user = std::ranges::upper_bound(users->second, transfer);
           user != users->second.end() && *user < end; ++user) {
        if (meet(area_of(at(*user), brought.kind), area)) end = *user;
      }
    }
    return end;
  }

  void find_deliveries(const std::vector<TaskIndex>& own) {
    for (const TaskIndex i : own) {
      if (incoming(at(i))) delivery(i) = MessageSchedule::kEnd;
    }
    find_users(own);
    std::map<BufferPlace, TaskIndex> next;  // delivery of the next arrival in a buffer
    for (auto it = own.rbegin(); it != own.rend(); ++it) {
      const Task& transfer = at(*it);
      if (!incoming(transfer) || transfer.output.kind == BufferKind::none) continue;
      TaskIndex& later =
          next.try_emplace(place_of(transfer.output, transfer.layer), MessageSchedule::kEnd)
              .first->second;
      later = delivery(*it) = first_use(*it, std::min(later, delivery(*it)));
    }
  }

  void find_captures(const std::vector<TaskIndex>& own) {
    std::map<DeviceIndex, TaskIndex> previous;  // by peer
    std::map<BufferPlace, Made> made;           // of buffers that are sent
    for (const TaskIndex i : own) {
      const Task& task = at(i);
      if (!outgoing(task)) {
        const TaskIndex when = incoming(task) ? delivery(i) : i;
        if ((sent_ & bit(task.output.kind)) != 0)
          made[place_of(task.output, task.layer)].add(area_of(task, task.output.kind), when, i);
        if (const BufferRef softmax = softmax_written(task); (sent_ & bit(softmax.kind)) != 0)
          made[place_of(softmax, task.layer)].add(area_of(task, softmax.kind), when, i);
        for (const BufferKind kind : also_written(task.kind)) {
          if ((sent_ & bit(kind)) != 0)
            made[place_of({.kind = kind}, task.layer)].add(area_of(task, kind), when, i);
        }
        continue;
      }
      TaskIndex& last = previous.try_emplace(task.peer, MessageSchedule::kBegin).first->second;
      const auto input = made.find(place_of(task.input, task.layer));
      const TaskIndex source =
          input == made.end() ? -1
                              : relayed(i, input->second.writer(area_of(task, task.input.kind)));
      if (source >= 0) {
        schedule_.source[static_cast<std::size_t>(i)] = source;
        capture(i) = last = std::max(last, source);
        continue;
      }
      if (input != made.end())
        last = std::max(last, input->second.when(area_of(task, task.input.kind)));
      for (const TaskIndex d : graph_.dependencies(i)) last = std::max(last, known(d));
      capture(i) = last;
    }
  }

  // `writer`, of some of what transfer `i` sends, if the transfer is a relay of it; else -1.
  [[nodiscard]] TaskIndex relayed(TaskIndex i, TaskIndex writer) const {
    if (writer < 0 || !incoming(at(writer)) || !graph_.awaited_events(i).empty()) return -1;
    const auto dependencies = graph_.dependencies(i);
    const bool alone = std::all_of(dependencies.begin(), dependencies.end(),
                                   [writer](TaskIndex d) { return d == writer; });
    const Task& message = at(writer);
    const Task& task = at(i);
    const bool same =
        message.rows == task.rows && message.columns == task.columns && message.wire == task.wire;
    return alone && same ? writer : -1;
  }

  // Returns the place from which the end of task `i` is known on this device.
  TaskIndex known(TaskIndex i) {
    if (incoming(at(i))) return delivery(i);
    return outgoing(at(i)) ? capture(i) : i;
  }

  const TaskGraph& graph_;
  MessageSchedule& schedule_;
  unsigned sent_ = 0;  // kinds of buffers, a bit each
  DeviceIndex device_ = 0;
  std::map<BufferPlace, std::vector<TaskIndex>> users_;  // ascending
};

}  // namespace

MessageSchedule message_schedule(const TaskGraph& graph) {
  DeviceIndex devices = 0;
  for (const Task& task : graph.tasks())
    devices = std::max({devices, task.device + 1, task.peer + 1});
  std::vector<DeviceIndex> all(static_cast<std::size_t>(devices));
  std::iota(all.begin(), all.end(), 0);
  return message_schedule(graph, all);
}

MessageSchedule message_schedule(const TaskGraph& graph, std::span<const DeviceIndex> devices) {
  DeviceIndex last = -1;
  for (const DeviceIndex device : devices) last = std::max(last, device);
  struct Own {
    bool wanted = false;
    std::vector<TaskIndex> tasks{};
  };
  std::vector<Own> own(static_cast<std::size_t>(last) + 1);
  for (const DeviceIndex device : devices) own[static_cast<std::size_t>(device)].wanted = true;
  const auto add = [&](DeviceIndex device, TaskIndex i) {
    if (device > last) return;
    Own& of = own[static_cast<std::size_t>(device)];
    if (of.wanted) of.tasks.push_back(i);
  };
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    const bool channel = task.lane == LaneKind::channel;
    if (channel || task.lane == LaneKind::cpu) add(task.device, i);
    if (channel) add(task.peer, i);
  }
  MessageSchedule schedule;
  Finder finder(graph, schedule);
  for (std::size_t d = 0; d < own.size(); ++d)
    finder.find(static_cast<DeviceIndex>(d), own[d].tasks);
  return schedule;
}

}  // namespace tandem::model
