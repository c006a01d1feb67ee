// Every lowering orders what its tasks do to storage; a graph that lacks an edge is found out, or
// executes as it did.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "collective_fixture.hpp"
#include "model/accesses.hpp"
#include "model/conflicts.hpp"
#include "model/message_places.hpp"
#include "planner/lowering.hpp"
#include "planner/search.hpp"
#include "planner_fixture.hpp"

namespace tandem::test {
namespace {

using model::DeviceIndex;
using model::LaneKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

struct Lowered {
  std::string name;
  planner::Plan plan;
};

std::vector<Lowered> plans(int most_devices, const std::vector<model::Family>& families) {
  std::vector<Lowered> all;
  for (const planner::Strategy& strategy : planner::strategies()) {
    for (const std::string& allreduce : kAllreduces) {
      if (!strategy.splits && allreduce != "star") continue;
      for (int devices = 1; devices <= most_devices; ++devices) {
        for (const model::Family family : families) {
          for (const std::int32_t window : {0, 1, 3}) {
            const bool encodes = family == model::Family::bert;
            planner::Request request{
                .model = small_model({.layers = 5, .heads = 6, .kv_heads = 6}),
                .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
                .strategy = strategy.name,
                .allreduce = strategy.splits ? allreduce : "star",
                .workload = {.prompt_tokens = 5, .new_tokens = encodes ? 0 : 3}};
            request.model.family = family;
            if (family != model::Family::llama) request.model.activation = model::Activation::gelu;
            if (family == model::Family::opt) request.model.activation = model::Activation::relu;
            if (encodes) request.model.token_types = 2;
            request.window.blocks = window;
            auto made = planner::make_plan(request);
            REQUIRE(std::holds_alternative<planner::Plan>(made));
            all.push_back({strategy.name + " " + allreduce + " on " + std::to_string(devices) +
                               ", family " + std::to_string(static_cast<int>(family)) +
                               ", window " + std::to_string(window),
                           std::get<planner::Plan>(std::move(made))});
          }
        }
      }
    }
  }
  return all;
}

std::vector<TaskGraph> graphs_of(const planner::Plan& plan) {
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  std::vector<TaskGraph> graphs{strategy.lower(plan, planner::prompt_batch(plan.workload))};
  if (!plan.model.architecture().generates()) return graphs;
  graphs.push_back(strategy.lower(plan, planner::decode_batch(7)));
  graphs.push_back(strategy.lower(
      plan,
      {{{.sequence = 2, .rows = 3}, {.sequence = 0, .past = 4}, {.sequence = 1, .past = 1}}}));
  return graphs;
}

TEST_CASE("planner/conflicts: every lowering orders its tasks and declares what they use") {
  for (const Lowered& one : plans(5, {model::Family::llama, model::Family::gpt2, model::Family::opt,
                                      model::Family::bert})) {
    CAPTURE(one.name);
    for (const TaskGraph& graph : graphs_of(one.plan)) {
      CHECK(model::find_conflict(graph).value_or("") == "");
      CHECK(model::undeclared(graph).empty());
    }
  }
}

// Devices without heads or columns, the master among them.
TEST_CASE("planner/conflicts: so does every uneven share") {
  const ::tandem::test::Shape gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  for (const auto& [master, split] :
       std::vector<std::pair<DeviceIndex, planner::Split>>{{0, {{4, 0, 4}, {3, 5, 3}}},
                                                           {0, {{4, 3, 1}, {8, 0, 3}}},
                                                           {1, {{4, 0, 4}, {3, 5, 3}}},
                                                           {1, {{4, 1, 3}, {7, 0, 4}}},
                                                           {0, {{8, 0}, {0, 11}}},
                                                           {2, {{2, 0, 4, 2}, {0, 5, 3, 3}}}}) {
    for (const std::string& allreduce : kAllreduces) {
      planner::Plan plan = plan_of("tensor", gqa, master, split);
      plan.allreduce = {allreduce, allreduce};
      CAPTURE(master);
      CAPTURE(allreduce);
      for (const TaskGraph& graph : graphs_of(plan)) {
        CHECK(model::find_conflict(graph).value_or("") == "");
        CHECK(model::undeclared(graph).empty());
      }
    }
  }
}

// The graph without the `which`-th dependency of task `of`; a mark if `mark`.
TaskGraph without(const TaskGraph& graph, TaskIndex of, std::size_t which, bool mark) {
  TaskGraph less(graph.batch());
  for (DeviceIndex d = 0; d < 16; ++d) {
    for (const model::BufferDeclaration& buffer : graph.declared(d)) less.declare(d, buffer);
  }
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    if (graph.finishes() && i == graph.finish()) less.begin_finish();
    std::vector<TaskIndex> dependencies(graph.dependencies(i).begin(), graph.dependencies(i).end());
    std::vector<std::int32_t> marks(graph.awaited_events(i).begin(), graph.awaited_events(i).end());
    const auto at = static_cast<std::ptrdiff_t>(which);
    if (i == of && mark) marks.erase(marks.begin() + at);
    if (i == of && !mark) dependencies.erase(dependencies.begin() + at);
    less.add(graph.tasks()[static_cast<std::size_t>(i)], dependencies, marks);
  }
  for (const TaskIndex task : graph.events()) less.carry(task);
  return less;
}

// Executes steps of a graph with numbers for values, in any order that its lanes and dependencies
// allow: what a task reads is hashed into what it writes. What the rule of message places promises
// of any graph is kept: payloads are taken before they are overwritten, and arrive after what was
// there has been used.
class Symbolic {
 public:
  // `interleaved`: a finish comes after the next step has begun.
  Symbolic(const TaskGraph& graph, int steps, bool interleaved)
      : graph_(graph),
        steps_(steps),
        interleaved_(interleaved),
        places_(model::message_places(graph)) {
    columns_ = 1;
    for (const Task& task : graph.tasks()) {
      const bool copies = task.kind == TaskKind::add || task.lane == LaneKind::channel;
      if (copies) columns_ = std::max(columns_, task.columns.end);
    }
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Task& task = at(i);
      if (task.kind == TaskKind::load) loads_[task.device].push_back(i);
    }
    for (const TaskIndex i : graph.events()) ++room_[at(i).device];
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
    REQUIRE(done == after_.size());
    return read;
  }

 private:
  using Cell = std::tuple<DeviceIndex, model::BufferKind, std::int16_t, std::int32_t, std::int32_t,
                          std::int32_t>;

  [[nodiscard]] const Task& at(TaskIndex i) const {
    return graph_.tasks()[static_cast<std::size_t>(i)];
  }
  // A task, or a message's capture; 1 after it, a message's delivery.
  [[nodiscard]] std::size_t begin(int step, TaskIndex i) const {
    return 2 * (static_cast<std::size_t>(step) * static_cast<std::size_t>(graph_.size()) +
                static_cast<std::size_t>(i));
  }
  [[nodiscard]] std::size_t end(int step, TaskIndex i) const { return begin(step, i) + 1; }
  // What `device` does of it.
  [[nodiscard]] std::size_t number(int step, TaskIndex i, DeviceIndex device) const {
    return at(i).lane == LaneKind::channel && at(i).peer == device ? end(step, i) : begin(step, i);
  }
  void edge(std::size_t from, std::size_t to) {
    after_[from].push_back(to);
    ++waits_[to];
  }

  void order() {
    after_.resize(2 * static_cast<std::size_t>(graph_.size()) * static_cast<std::size_t>(steps_));
    waits_.assign(after_.size(), 0);
    for (std::size_t n = 0; n < after_.size(); n += 2) edge(n, n + 1);
    std::map<std::pair<DeviceIndex, DeviceIndex>, std::size_t> last;
    const auto lane = [&](int step, TaskIndex i) {
      const Task& task = at(i);
      const DeviceIndex what = task.lane == LaneKind::channel ? task.peer
                               : task.lane == LaneKind::cpu   ? -1
                                                              : -2;
      const auto [before, is_new] = last.try_emplace({task.device, what}, begin(step, i));
      if (is_new) return;
      const std::size_t previous = std::exchange(before->second, begin(step, i));
      edge(previous, begin(step, i));
      edge(previous + 1, end(step, i));
    };
    for (int step = 0; step < steps_; ++step) {
      for (TaskIndex i = 0; i < graph_.finish(); ++i) lane(step, i);
      if (!interleaved_) {
        for (TaskIndex i = graph_.finish(); i < graph_.size(); ++i) lane(step, i);
      } else if (step > 0) {
        for (TaskIndex i = graph_.finish(); i < graph_.size(); ++i) lane(step - 1, i);
      }
    }
    if (interleaved_) {
      for (TaskIndex i = graph_.finish(); i < graph_.size(); ++i) lane(steps_ - 1, i);
    }
    for (int step = 0; step < steps_; ++step) {
      for (TaskIndex i = 0; i < graph_.size(); ++i) {
        for (const TaskIndex d : graph_.dependencies(i)) edge(end(step, d), begin(step, i));
        if (step == 0) continue;
        for (const std::int32_t mark : graph_.awaited_events(i))
          edge(end(step - 1, graph_.events()[static_cast<std::size_t>(mark)]), begin(step, i));
      }
    }
    for (TaskIndex i = 0; i < graph_.size(); ++i) {
      for (TaskIndex j = i + 1; j < graph_.size(); ++j) promised(i, j);
      for (TaskIndex j = 0; j < graph_.size(); ++j) in_turn(i, j);
    }
  }

  // Whether a message is delivered by the finish.
  [[nodiscard]] bool comes_back(TaskIndex i) const {
    return interleaved_ && at(i).lane == LaneKind::channel &&
           places_.delivery[static_cast<std::size_t>(i)] >= graph_.finish();
  }

  // Task j of a step after i of the step before, where one of them is a message that the computing
  // thread of a device takes or delivers in its turn: steps follow each other there, but for a
  // finish, which comes after all else of the next step.
  void in_turn(TaskIndex i, TaskIndex j) {
    const auto acts = [&](TaskIndex task, DeviceIndex device) {
      return at(task).lane != LaneKind::disk &&
             (at(task).device == device || at(task).peer == device);
    };
    if (at(i).lane != LaneKind::channel && at(j).lane != LaneKind::channel) return;
    for (DeviceIndex device = 0; device < 16; ++device) {
      if (!acts(i, device) || !acts(j, device)) continue;
      const bool arrives = at(j).lane == LaneKind::channel && at(j).peer == device;
      const bool computes = at(j).lane == LaneKind::cpu;
      const bool last = i >= graph_.finish() || (comes_back(i) && at(i).peer == device);
      const bool later = j >= graph_.finish() || (comes_back(j) && at(j).peer == device);
      for (int step = 1; step < steps_; ++step) {
        if (interleaved_ && last && !later) {
          // The other way round: i's finish is behind this step's beginning.
          if (at(i).lane == LaneKind::channel)
            edge(number(step, j, device), number(step - 1, i, device));
        } else if (arrives || (computes && at(i).lane == LaneKind::channel)) {
          edge(number(step - 1, i, device), number(step, j, device));
        }
      }
    }
  }

  // Task i, of the same step as j and before it.
  void promised(TaskIndex i, TaskIndex j) {
    const bool sends = at(i).lane == LaneKind::channel;
    const bool arrives = at(j).lane == LaneKind::channel;
    for (const DeviceIndex device : {at(i).device, at(i).peer}) {
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
  void cells(DeviceIndex device, const model::Access& access, const Task& task, int step,
             const Use& use) {
    // Caches of the steps' sequences are apart, as are the steps' token ids.
    const bool own = access.buffer.kind == model::BufferKind::key_value ||
                     access.buffer.kind == model::BufferKind::tokens;
    const auto layer = access.layer * 8 + (own ? step : 0);
    const bool rows = !own && access.buffer.kind != model::BufferKind::logits;
    const model::Range r = rows ? task.rows : model::Range{0, 1};
    const bool named = task.kind == TaskKind::add || task.lane == LaneKind::channel;
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
    const auto i = static_cast<TaskIndex>(n / 2 % size);
    const int step = static_cast<int>(n / 2 / size);
    const Task& task = at(i);
    if (n % 2 == 1) {
      if (task.lane != LaneKind::channel) return 0;
      auto next = payloads_[n / 2].begin();
      for (const model::Access& a : model::accesses_of(task, task.peer))
        cells(task.peer, a, task, step, [&](const Cell& c) { memory_[c] = *next++; });
      return 0;
    }
    if (task.lane == LaneKind::channel) {
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
      const auto load = std::ranges::find_if(loads->second, [&](TaskIndex l) {
        const Task& block = at(l);
        return block.block == task.block && block.layer == task.layer &&
               (task.block != model::WeightBlock::head || block.columns == task.columns);
      });
      if (load != loads->second.end()) {
        const auto slot = (static_cast<std::size_t>(step) * loads->second.size() +
                           static_cast<std::size_t>(load - loads->second.begin())) %
                          static_cast<std::size_t>(room_[task.device]);
        std::uint64_t& room = slots_[{task.device, slot}];
        if (task.kind == TaskKind::load) room = begin(0, i) + 1;
        hash = mix(hash, room);
        if (task.kind == TaskKind::release) room = 0;
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

  const TaskGraph& graph_;
  int steps_;
  bool interleaved_;
  model::MessagePlaces places_;
  std::int32_t columns_ = 1;
  std::map<DeviceIndex, std::vector<TaskIndex>> loads_;
  std::map<DeviceIndex, int> room_;  // of the window
  std::vector<std::vector<std::size_t>> after_;
  std::vector<int> waits_;
  std::map<Cell, std::uint64_t> memory_;
  std::map<std::size_t, std::vector<std::uint64_t>> payloads_;  // by task, of each step
  std::map<std::pair<DeviceIndex, std::size_t>, std::uint64_t> slots_;
};

// Whether random orders of `graph` give what the serial execution of `whole` does.
bool executes_as(const TaskGraph& graph, const TaskGraph& whole, std::mt19937& random, int orders) {
  const std::vector<std::uint64_t> expected = Symbolic(whole, 2, false).run(nullptr);
  for (const bool interleaved : {false, true}) {
    if (interleaved && !graph.finishes()) continue;
    Symbolic symbolic(graph, 2, interleaved);
    for (int i = 0; i < orders; ++i) {
      if (symbolic.run(&random) != expected) return false;
    }
  }
  return true;
}

planner::Plan small_plan(const std::string& strategy, const std::string& allreduce, int devices,
                         std::int32_t window) {
  planner::Request request{
      .model = small_model({.layers = 3, .heads = 3, .kv_heads = 3, .head_dim = 2, .vocab = 7}),
      .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
      .strategy = strategy,
      .allreduce = allreduce,
      .workload = {.prompt_tokens = 2, .new_tokens = 2}};
  request.window.blocks = window;
  auto made = planner::make_plan(request);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  return std::get<planner::Plan>(std::move(made));
}

TEST_CASE("planner/conflicts: an edge that is left out is found, or was not needed") {
  std::mt19937 random(7);
  int found = 0;
  int wrong = 0;
  int redundant = 0;
  const auto check = [&](const TaskGraph& whole, TaskIndex of, std::size_t which, bool mark) {
    const TaskGraph less = without(whole, of, which, mark);
    const auto conflict = model::find_conflict(less);
    CAPTURE(of);
    CAPTURE(which);
    CAPTURE(mark);
    if (!conflict) {
      CHECK(executes_as(less, whole, random, 3));
      ++redundant;
    } else {
      ++found;
      if (found % 7 == 0 && !executes_as(less, whole, random, 6)) ++wrong;
    }
  };
  struct Given {
    const char* strategy;
    const char* allreduce;
    int devices;
    std::int32_t window;
  };
  for (const Given& given : {Given{"local", "star", 1, 2}, Given{"tensor", "star", 3, 0},
                             Given{"tensor", "tree:3", 3, 0}, Given{"tensor", "ring", 3, 0},
                             Given{"tensor", "halving", 3, 2}, Given{"pipeline", "star", 3, 0},
                             Given{"pipeline", "star", 2, 1}}) {
    const planner::Plan plan =
        small_plan(given.strategy, given.allreduce, given.devices, given.window);
    CAPTURE(given.strategy);
    CAPTURE(given.allreduce);
    CAPTURE(given.window);
    const TaskGraph graph =
        planner::find_strategy(plan.strategy).lower(plan, planner::decode_batch(3));
    REQUIRE(model::find_conflict(graph).value_or("") == "");
    REQUIRE(executes_as(graph, graph, random, 8));
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      for (std::size_t k = 0; k < graph.dependencies(i).size(); ++k) check(graph, i, k, false);
      for (std::size_t k = 0; k < graph.awaited_events(i).size(); ++k) check(graph, i, k, true);
    }
  }
  MESSAGE("found " << found << ", of which a seventh was executed and " << wrong
                   << " went wrong; not needed " << redundant);
  CHECK(found > 100);
  CHECK(wrong > 10);
  CHECK(redundant > 100);
}

TEST_CASE("planner/conflicts: random graphs that are in order execute as in serial order") {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::array kBuffers{model::BufferKind::hidden, model::BufferKind::partial,
                                model::BufferKind::receive};
  int ordered = 0;
  int disordered = 0;
  int wrong = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const std::size_t devices = 2 + below(2);
    const std::size_t density = 2 + below(4);
    TaskGraph graph(model::Batch{{{.rows = 2}}});
    for (std::size_t i = 3 + below(10); i > 0; --i) {
      Task task{
          .kind = TaskKind::add,
          .device = static_cast<DeviceIndex>(below(devices)),
          .rows = {0, 1 + static_cast<std::int32_t>(below(2))},
          .columns = {static_cast<std::int32_t>(below(2)), 2 + static_cast<std::int32_t>(below(2))},
          .input = {kBuffers.at(below(3))},
          .output = {kBuffers.at(below(3))}};
      if (below(2) == 0) {
        task.kind = TaskKind::transfer;
        task.lane = LaneKind::channel;
        task.peer = static_cast<DeviceIndex>(
            (static_cast<std::size_t>(task.device) + 1 + below(devices - 1)) % devices);
      }
      std::vector<TaskIndex> dependencies;
      for (TaskIndex j = 0; j < graph.size(); ++j) {
        const Task& before = graph.tasks()[static_cast<std::size_t>(j)];
        if ((before.device == task.device || before.peer == task.device) && below(density) == 0)
          dependencies.push_back(j);
      }
      graph.add(task, dependencies);
    }
    const std::vector<std::uint64_t> expected = Symbolic(graph, 1, false).run(nullptr);
    Symbolic symbolic(graph, 1, false);
    bool same = true;
    for (int i = 0; i < 8 && same; ++i) same = symbolic.run(&random) == expected;
    if (!model::find_conflict(graph)) {
      CHECK(same);
      ++ordered;
    } else {
      ++disordered;
      if (!same) ++wrong;
    }
  }
  CHECK(ordered > 150);
  CHECK(disordered > 300);
  CHECK(wrong > 200);
}

TEST_CASE("planner/conflicts: a finish that needs what was computed before it is found") {
  const planner::Plan plan = small_plan("pipeline", "star", 2, 0);
  const planner::Strategy& strategy = planner::find_strategy("pipeline");
  const TaskGraph graph = strategy.lower(plan, planner::decode_batch(3));
  REQUIRE(graph.finishes());
  // The last layer's sum stays on the master, and the finish reads it there.
  TaskGraph other(graph.batch());
  for (DeviceIndex d = 0; d < 2; ++d) {
    for (const model::BufferDeclaration& buffer : graph.declared(d)) other.declare(d, buffer);
  }
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    if (i == graph.finish()) other.begin_finish();
    Task task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane == LaneKind::channel && task.peer == plan.master)
      task.columns.end -= 1;  // not all of it comes back
    other.add(task,
              std::vector<TaskIndex>(graph.dependencies(i).begin(), graph.dependencies(i).end()));
  }
  const std::string fault = model::find_conflict(other).value_or("");
  CAPTURE(fault);
  CHECK(fault.find("of the finish reads hidden of another step") != std::string::npos);
  std::mt19937 random(3);
  CHECK(!executes_as(other, other, random, 20));
}

}  // namespace
}  // namespace tandem::test
