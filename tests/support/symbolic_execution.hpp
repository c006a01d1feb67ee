#pragma once

// Executes task graphs with numbers for values, so that an order of tasks that changes what one of
// them reads is seen.

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/accesses.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::test {

// Executes steps of a graph with numbers for values, in any order that its lanes and dependencies
// allow: what a task reads is hashed into what it writes. What the rule of message schedules
// promises of any graph is kept: payloads are taken before they are overwritten, and arrive after
// what was there has been used.
class SymbolicExecution {
 public:
  // `interleaved`: an epilogue comes after the next step has begun.
  SymbolicExecution(const model::TaskGraph& graph, int steps, bool interleaved)
      : graph_(graph),
        steps_(steps),
        interleaved_(interleaved),
        schedule_(model::message_schedule(graph)) {
    columns_ = 1;
    for (const model::Task& task : graph.tasks()) {
      const bool copies =
          task.kind == model::TaskKind::add || task.lane == model::LaneKind::channel;
      if (copies) columns_ = std::max(columns_, task.columns.end);
    }
    for (model::TaskIndex i = 0; i < graph.size(); ++i) {
      const model::Task& task = at(i);
      if (task.kind == model::TaskKind::load) loads_[task.device].push_back(i);
    }
    for (const model::TaskIndex i : graph.events()) ++room_[at(i).device];
    order();
  }

  // What every task has read, by (step, task); of a message, what it carries.
  std::vector<std::uint64_t> run(std::mt19937* random) {
    memory_.clear();
    slots_.clear();
    payloads_.clear();
    std::vector<std::uint64_t> read(after_.size());
    std::vector<int> waits = waits_;
    std::vector<std::size_t> open;
    for (std::size_t n = 0; n < waits.size(); ++n) {
      if (waits[n] == 0) open.push_back(n);
    }
    std::size_t done = 0;
    while (!open.empty()) {
      // Serially: the least by (step, index).
      auto next = random == nullptr
                      ? std::ranges::min_element(open)
                      : open.begin() + static_cast<std::ptrdiff_t>((*random)() % open.size());
      const std::size_t n = *next;
      open.erase(next);
      read[n] = execute(n);
      ++done;
      for (const std::size_t later : after_[n]) {
        if (--waits[later] == 0) open.push_back(later);
      }
    }
    require(done == after_.size(), "the order has a cycle");
    return read;
  }

 private:
  using Cell = std::tuple<model::DeviceIndex, model::BufferKind, std::int16_t, std::int32_t,
                          std::int32_t, std::int32_t>;

  [[nodiscard]] const model::Task& at(model::TaskIndex i) const {
    return graph_.tasks()[static_cast<std::size_t>(i)];
  }
  // A task, or a message's capture; 1 after it, a message's delivery.
  [[nodiscard]] std::size_t begin(int step, model::TaskIndex i) const {
    return 2 * (static_cast<std::size_t>(step) * static_cast<std::size_t>(graph_.size()) +
                static_cast<std::size_t>(i));
  }
  [[nodiscard]] std::size_t end(int step, model::TaskIndex i) const { return begin(step, i) + 1; }
  // What `device` does of it.
  [[nodiscard]] std::size_t number(int step, model::TaskIndex i, model::DeviceIndex device) const {
    return at(i).lane == model::LaneKind::channel && at(i).peer == device ? end(step, i)
                                                                          : begin(step, i);
  }
  void edge(std::size_t from, std::size_t to) {
    after_[from].push_back(to);
    ++waits_[to];
  }

  void order() {
    after_.resize(2 * static_cast<std::size_t>(graph_.size()) * static_cast<std::size_t>(steps_));
    waits_.assign(after_.size(), 0);
    for (std::size_t n = 0; n < after_.size(); n += 2) edge(n, n + 1);
    std::map<std::pair<model::DeviceIndex, model::DeviceIndex>, std::size_t> last;
    const auto lane = [&](int step, model::TaskIndex i) {
      const model::Task& task = at(i);
      const model::DeviceIndex what = task.lane == model::LaneKind::channel ? task.peer
                                      : task.lane == model::LaneKind::cpu   ? -1
                                                                            : -2;
      const auto [before, is_new] = last.try_emplace({task.device, what}, begin(step, i));
      if (is_new) return;
      const std::size_t previous = std::exchange(before->second, begin(step, i));
      edge(previous, begin(step, i));
      edge(previous + 1, end(step, i));
    };
    for (int step = 0; step < steps_; ++step) {
      for (model::TaskIndex i = 0; i < graph_.epilogue(); ++i) lane(step, i);
      if (!interleaved_) {
        for (model::TaskIndex i = graph_.epilogue(); i < graph_.size(); ++i) lane(step, i);
      } else if (step > 0) {
        for (model::TaskIndex i = graph_.epilogue(); i < graph_.size(); ++i) lane(step - 1, i);
      }
    }
    if (interleaved_) {
      for (model::TaskIndex i = graph_.epilogue(); i < graph_.size(); ++i) lane(steps_ - 1, i);
    }
    for (int step = 0; step < steps_; ++step) {
      for (model::TaskIndex i = 0; i < graph_.size(); ++i) {
        for (const model::TaskIndex d : graph_.dependencies(i)) edge(end(step, d), begin(step, i));
        if (step == 0) continue;
        for (const std::int32_t event : graph_.awaited_events(i))
          edge(end(step - 1, graph_.events()[static_cast<std::size_t>(event)]), begin(step, i));
      }
    }
    for (model::TaskIndex i = 0; i < graph_.size(); ++i) {
      for (model::TaskIndex j = i + 1; j < graph_.size(); ++j) promised(i, j);
      for (model::TaskIndex j = 0; j < graph_.size(); ++j) in_turn(i, j);
    }
  }

  // Whether a message is delivered by the epilogue.
  [[nodiscard]] bool comes_back(model::TaskIndex i) const {
    return interleaved_ && at(i).lane == model::LaneKind::channel &&
           schedule_.delivery[static_cast<std::size_t>(i)] >= graph_.epilogue();
  }

  // model::Task j of a step after i of the step before, where one of them is a message that the
  // computing thread of a device takes or delivers in its turn: steps follow each other there, but
  // for an epilogue, which comes after all else of the next step.
  void in_turn(model::TaskIndex i, model::TaskIndex j) {
    const auto acts = [&](model::TaskIndex task, model::DeviceIndex device) {
      return at(task).lane != model::LaneKind::disk &&
             (at(task).device == device || at(task).peer == device);
    };
    if (at(i).lane != model::LaneKind::channel && at(j).lane != model::LaneKind::channel) return;
    for (model::DeviceIndex device = 0; device < 16; ++device) {
      if (!acts(i, device) || !acts(j, device)) continue;
      const bool arrives = at(j).lane == model::LaneKind::channel && at(j).peer == device;
      const bool computes = at(j).lane == model::LaneKind::cpu;
      const bool last = i >= graph_.epilogue() || (comes_back(i) && at(i).peer == device);
      const bool later = j >= graph_.epilogue() || (comes_back(j) && at(j).peer == device);
      for (int step = 1; step < steps_; ++step) {
        if (interleaved_ && last && !later) {
          // The other way round: i's epilogue is behind this step's beginning.
          if (at(i).lane == model::LaneKind::channel)
            edge(number(step, j, device), number(step - 1, i, device));
        } else if (arrives || (computes && at(i).lane == model::LaneKind::channel)) {
          edge(number(step - 1, i, device), number(step, j, device));
        }
      }
    }
  }

  // model::Task i, of the same step as j and before it.
  void promised(model::TaskIndex i, model::TaskIndex j) {
    const bool sends = at(i).lane == model::LaneKind::channel;
    const bool arrives = at(j).lane == model::LaneKind::channel;
    for (const model::DeviceIndex device : {at(i).device, at(i).peer}) {
      if (device < 0) continue;
      for (const model::Access& a : model::accesses_of(at(i), device)) {
        for (const model::Access& b : model::accesses_of(at(j), device)) {
          const bool same = a.buffer == b.buffer && a.layer == b.layer && meet(a.area, b.area);
          if (!same || !b.writes) continue;
          const bool taken = sends && at(i).device == device && !a.writes;
          const bool into = arrives && at(j).peer == device;
          if (!taken && !into) continue;
          for (int step = 0; step < steps_; ++step)
            edge(number(step, i, device), number(step, j, device));
        }
      }
    }
  }

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6U) + (a >> 2U));
    x ^= x >> 31U;
    x *= 0xbf58476d1ce4e5b9ULL;
    return x ^ (x >> 29U);
  }

  template <class Use>
  void cells(model::DeviceIndex device, const model::Access& access, const model::Task& task,
             int step, const Use& use) {
    // Caches of the steps' sequences are apart, as are the steps' token ids.
    const bool own = access.buffer.kind == model::BufferKind::key_value ||
                     access.buffer.kind == model::BufferKind::tokens;
    const auto layer = access.layer * 8 + (own ? step : 0);
    const bool rows = !own && !model::of_sampled_rows(access.buffer.kind);
    // Of the cache, the positions of this step's rows; attention reads those of all.
    const bool cached = access.buffer.kind == model::BufferKind::key_value;
    const bool everywhere = cached && task.kind == model::TaskKind::attend;
    const model::Range r = everywhere       ? model::Range{0, graph_.batch().rows()}
                           : rows || cached ? task.rows
                                            : model::Range{0, 1};
    const bool named = task.kind == model::TaskKind::add || task.lane == model::LaneKind::channel;
    const model::Range c = !rows   ? model::Range{0, 1}
                           : named ? task.columns
                                   : model::Range{0, columns_};
    for (std::int32_t row = r.begin; row < r.end; ++row) {
      for (std::int32_t column = c.begin; column < c.end; ++column)
        use(Cell{device, access.buffer.kind, access.buffer.slot, layer, row, column});
    }
  }

  std::uint64_t execute(std::size_t n) {
    const auto size = static_cast<std::size_t>(graph_.size());
    const auto i = static_cast<model::TaskIndex>(n / 2 % size);
    const int step = static_cast<int>(n / 2 / size);
    const model::Task& task = at(i);
    if (n % 2 == 1) {
      if (task.lane != model::LaneKind::channel) return 0;
      auto next = payloads_[n / 2].begin();
      for (const model::Access& a : model::accesses_of(task, task.peer))
        cells(task.peer, a, task, step, [&](const Cell& c) { memory_[c] = *next++; });
      return 0;
    }
    if (task.lane == model::LaneKind::channel) {
      std::vector<std::uint64_t>& payload = payloads_[n / 2];
      for (const model::Access& a : model::accesses_of(task, task.device))
        cells(task.device, a, task, step, [&](const Cell& c) { payload.push_back(memory_[c]); });
      std::uint64_t hash = 0;
      for (const std::uint64_t value : payload) hash = mix(hash, value);
      return hash;
    }
    std::uint64_t hash = mix(n, static_cast<std::uint64_t>(task.kind));
    if (const auto loads = loads_.find(task.device);
        loads != loads_.end() && task.block != model::WeightBlock::none) {
      const auto load = std::ranges::find_if(loads->second, [&](model::TaskIndex l) {
        const model::Task& block = at(l);
        return block.block == task.block && block.layer == task.layer &&
               (task.block != model::WeightBlock::head || block.columns == task.columns);
      });
      if (load != loads->second.end()) {
        const auto slot = (static_cast<std::size_t>(step) * loads->second.size() +
                           static_cast<std::size_t>(load - loads->second.begin())) %
                          static_cast<std::size_t>(room_[task.device]);
        std::uint64_t& room = slots_[{task.device, slot}];
        if (task.kind == model::TaskKind::load) room = begin(0, i) + 1;
        hash = mix(hash, room);
        if (task.kind == model::TaskKind::release) room = 0;
      }
    }
    std::vector<std::uint64_t> input;
    for (const model::Access& a : model::accesses_of(task, task.device)) {
      if (!a.writes)
        cells(task.device, a, task, step, [&](const Cell& c) { hash = mix(hash, memory_[c]); });
    }
    for (const model::Access& a : model::accesses_of(task, task.device)) {
      std::uint64_t cell = 0;
      if (a.writes)
        cells(task.device, a, task, step, [&](const Cell& c) { memory_[c] = mix(hash, ++cell); });
    }
    return hash;
  }

  const model::TaskGraph& graph_;
  int steps_;
  bool interleaved_;
  model::MessageSchedule schedule_;
  std::int32_t columns_ = 1;
  std::map<model::DeviceIndex, std::vector<model::TaskIndex>> loads_;
  std::map<model::DeviceIndex, int> room_;  // of the window
  std::vector<std::vector<std::size_t>> after_;
  std::vector<int> waits_;
  std::map<Cell, std::uint64_t> memory_;
  std::map<std::size_t, std::vector<std::uint64_t>> payloads_;  // by task, of each step
  std::map<std::pair<model::DeviceIndex, std::size_t>, std::uint64_t> slots_;
};

}  // namespace tandem::test
