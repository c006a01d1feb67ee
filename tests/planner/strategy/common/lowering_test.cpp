#include "planner/strategy/common/lowering.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/planner/planner_interpreter.hpp"

namespace tandem::test::lowering_test {
namespace {

using model::BufferKind;
using model::Task;
using model::TaskIndex;
using model::TaskKind;
using planner::Split;

struct Case {
  std::string name;
  ModelSizes sizes;
  model::DeviceIndex master;
  Split split;
};

// 1, 2, 3, 4, 5 and 7 devices; even and uneven; groups of query heads cut; more devices than
// key/value heads; devices without heads or without columns, the master among them.
std::vector<Case> cases() {
  const ModelSizes mha{.heads = 7, .kv_heads = 7, .intermediate = 13};
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  const ModelSizes mqa{.layers = 1, .heads = 5, .kv_heads = 1, .head_dim = 4, .intermediate = 5};
  return {
      {"one device", mha, 0, {{7}, {13}}},
      {"two, uneven", mha, 1, {{5, 2}, {1, 12}}},
      {"three, cut groups", gqa, 0, {{3, 3, 2}, {5, 3, 3}}},
      {"four, more devices than key/value heads", gqa, 2, {{2, 2, 2, 2}, {3, 3, 3, 2}}},
      {"five, one key/value head", mqa, 4, {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
      {"seven", mha, 3, {{1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 1}}},
      {"a worker without heads", gqa, 0, {{4, 0, 4}, {3, 5, 3}}},
      {"a worker without columns", gqa, 0, {{4, 3, 1}, {8, 0, 3}}},
      {"the master without heads", gqa, 1, {{4, 0, 4}, {3, 5, 3}}},
      {"the master without columns", gqa, 1, {{4, 1, 3}, {7, 0, 4}}},
      {"one device has all heads, another all columns", gqa, 0, {{8, 0}, {0, 11}}},
  };
}

TEST_CASE("planner/lowering: tensor gives the unsharded model's logits, prompt and decode") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    check_generation(plan_of("tensor", c.sizes, c.master, c.split));
  }
}

TEST_CASE("planner/lowering: local gives the unsharded model's logits, whoever is master") {
  const ModelSizes sizes{.layers = 2, .heads = 6, .kv_heads = 3, .intermediate = 7};
  check_generation(plan_of("local", sizes, 0, {{6}, {7}}));
  check_generation(plan_of("local", sizes, 1, {{0, 6, 0}, {0, 7, 0}}));
}

TEST_CASE("planner/lowering: random splits give the unsharded model's logits") {
  std::mt19937 random(20240607);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    const auto draw = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    const int group = draw(1, 3);
    const int kv_heads = draw(1, 3);
    const ModelSizes sizes{.layers = draw(1, 3),
                           .heads = group * kv_heads,
                           .kv_heads = kv_heads,
                           .intermediate = draw(2, 9)};
    const auto devices = static_cast<std::size_t>(draw(1, 5));
    Split split{std::vector<std::int64_t>(devices), std::vector<std::int64_t>(devices)};
    const auto spread = [&](std::vector<std::int64_t>& counts, std::int64_t total) {
      for (std::int64_t i = 0; i < total; ++i) {
        ++counts[static_cast<std::size_t>(draw(0, static_cast<int>(devices) - 1))];
      }
    };
    spread(split.heads, sizes.heads);
    spread(split.columns, sizes.intermediate);
    bool idle = false;
    for (std::size_t d = 0; d < devices; ++d) {
      idle = idle || (split.heads[d] == 0 && split.columns[d] == 0);
    }
    const int master = draw(0, static_cast<int>(devices) - 1);
    if (idle) {
      CHECK_THROWS_AS(plan_of("tensor", sizes, master, split), Error);
    } else {
      check_generation(plan_of("tensor", sizes, master, split));
    }
  }
}

TEST_CASE("planner/lowering: as many of a text's last rows are sampled as asked for") {
  const std::vector<int> text{3, 1, 4, 1, 5};
  const auto length = static_cast<std::int32_t>(text.size());
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const planner::Plan plan = plan_of("tensor", c.sizes, c.master, c.split);
    for (std::int32_t wanted = 0; wanted <= length; ++wanted) {
      CAPTURE(wanted);
      Interpreter interpreter(plan);
      const auto sampled = interpreter.run(
          planner::find_strategy("tensor").lower(plan, planner::scored_batch(length, wanted)),
          text);
      REQUIRE(sampled.size() == static_cast<std::size_t>(wanted));
      for (std::int32_t row = length - wanted; row < length; ++row) {
        check_close(sampled.at(row),
                    reference_logits(plan.model, {text.begin(), text.begin() + row + 1}));
      }
    }
  }
}

TEST_CASE("planner/lowering: several sequences share a step and do not see each other") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const planner::Plan plan = plan_of("tensor", c.sizes, c.master, c.split);
    const planner::Strategy& strategy = planner::find_strategy("tensor");
    Interpreter interpreter(plan);
    // A prompt of three, then one joined by a prompt of two, then both decoding.
    std::vector<int> a{3, 1, 4};
    std::vector<int> b{2, 7};
    interpreter.run(strategy.lower(plan, {{{.sequence = 0, .past = 0, .rows = 3}}}), a);
    a.push_back(5);
    auto sampled = interpreter.run(strategy.lower(plan, {{{.sequence = 0, .past = 3, .rows = 1},
                                                          {.sequence = 1, .past = 0, .rows = 2}}}),
                                   {5, 2, 7});
    REQUIRE(sampled.size() == 2);
    check_close(sampled.at(0), reference_logits(plan.model, a));
    check_close(sampled.at(2), reference_logits(plan.model, b));
    a.push_back(8);
    b.push_back(1);
    sampled = interpreter.run(strategy.lower(plan, {{{.sequence = 1, .past = 2, .rows = 1},
                                                     {.sequence = 0, .past = 4, .rows = 1}}}),
                              {1, 8});
    REQUIRE(sampled.size() == 2);
    check_close(sampled.at(0), reference_logits(plan.model, b));
    check_close(sampled.at(1), reference_logits(plan.model, a));
  }
}

// Whether a must precede b, by dependencies and the order within lanes.
class Order {
 public:
  explicit Order(const model::TaskGraph& graph) {
    const auto size = static_cast<std::size_t>(graph.size());
    before_.assign(size, std::vector<bool>(size, false));
    std::map<std::array<int, 3>, TaskIndex> lanes;
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      for (const TaskIndex d : graph.dependencies(i)) follow(i, d);
      const std::array<int, 3> lane{static_cast<int>(task.lane), task.device, task.peer};
      // A channel's messages are not in each other's way: only a dependency makes one arrive before
      // another starts.
      if (task.lane == model::LaneKind::channel) continue;
      if (const auto last = lanes.find(lane); last != lanes.end()) follow(i, last->second);
      lanes[lane] = i;
    }
  }
  [[nodiscard]] bool before(TaskIndex a, TaskIndex b) const {
    return before_[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)];
  }

 private:
  void follow(TaskIndex i, TaskIndex earlier) {
    auto& mine = before_[static_cast<std::size_t>(i)];
    const auto& theirs = before_[static_cast<std::size_t>(earlier)];
    for (std::size_t k = 0; k < theirs.size(); ++k) mine[k] = mine[k] || theirs[k];
    mine[static_cast<std::size_t>(earlier)] = true;
  }
  std::vector<std::vector<bool>> before_;  // [i][k]: k precedes i
};

TEST_CASE("planner/lowering: what a task reads has been written, by dependencies and lanes") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const planner::Plan plan = plan_of("tensor", c.sizes, c.master, c.split);
    const model::TaskGraph graph =
        planner::find_strategy("tensor").lower(plan, planner::prompt_batch({3, 1}));
    const Order order(graph);
    using Place = std::array<int, 3>;  // device, kind, slot
    const auto place = [](model::DeviceIndex device, model::BufferRef buffer) {
      return Place{device, static_cast<int>(buffer.kind), buffer.slot};
    };
    std::map<Place, TaskIndex> writer;
    int raced = 0;
    for (TaskIndex i = 0; i < graph.size(); ++i) {
      const Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      const bool transfer = task.kind == TaskKind::transfer;
      const auto read = [&](Place what) {
        const auto found = writer.find(what);
        if (found == writer.end() || !order.before(found->second, i)) ++raced;
      };
      if (task.input.kind != BufferKind::none) read(place(task.device, task.input));
      if (task.output.kind == BufferKind::none) continue;
      const Place output = place(transfer ? task.peer : task.device, task.output);
      if (task.kind == TaskKind::add) read(output);
      writer[output] = i;
    }
    CHECK(raced == 0);
  }
}

TEST_CASE("planner/lowering: tokens, embedding and logits stay on the master") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const planner::Plan plan = plan_of("tensor", c.sizes, c.master, c.split);
    const model::TaskGraph graph =
        planner::find_strategy("tensor").lower(plan, planner::prompt_batch({5, 1}));
    int embeds = 0;
    int samples = 0;
    for (const Task& task : graph.tasks()) {
      embeds += task.kind == TaskKind::embed ? 1 : 0;
      samples += task.kind == TaskKind::sample ? 1 : 0;
      if (task.kind == TaskKind::embed || task.kind == TaskKind::lm_head ||
          task.kind == TaskKind::sample) {
        CHECK(task.device == plan.master);
      }
      if (task.kind != TaskKind::transfer) continue;
      CHECK((task.input.kind == BufferKind::hidden || task.input.kind == BufferKind::partial));
      CHECK((task.device == plan.master || task.peer == plan.master));
    }
    CHECK(embeds == 1);
    CHECK(samples == 1);
  }
}

double wire_bytes(const planner::Plan& plan, const model::TaskGraph& graph) {
  double bytes = 0.0;
  for (const Task& task : graph.tasks()) {
    bytes += model::work_of(plan.model, graph.batch(), task).bytes_wire;
  }
  return bytes;
}

TEST_CASE("planner/lowering: tensor sends 4 L (N-1) messages of rows * hidden * 4 bytes") {
  const planner::Strategy& strategy = planner::find_strategy("tensor");
  for (std::int64_t devices = 1; devices <= 7; ++devices) {
    for (std::int64_t layers = 1; layers <= 3; ++layers) {
      for (const std::int32_t rows : {1, 2, 5}) {
        CAPTURE(devices);
        CAPTURE(layers);
        CAPTURE(rows);
        const ModelSizes sizes{
            .layers = layers, .heads = devices, .kv_heads = devices, .intermediate = devices};
        const std::vector<std::int64_t> ones(static_cast<std::size_t>(devices), 1);
        const planner::Plan plan = plan_of("tensor", sizes, 0, {ones, ones});
        const model::TaskGraph graph = strategy.lower(plan, planner::prompt_batch({rows, 1}));
        const auto messages = static_cast<double>(4 * layers * (devices - 1));
        const auto payload = 4.0 * rows * static_cast<double>(plan.model.hidden);
        CHECK(wire_bytes(plan, graph) == messages * payload);
        Interpreter interpreter(plan);
        interpreter.run(graph, std::vector<int>(static_cast<std::size_t>(rows), 1));
        CHECK(interpreter.elements_sent() * 4.0 == messages * payload);
      }
    }
  }
}

TEST_CASE("planner/lowering: a device without work in a half sends nothing for it") {
  // 3 devices, 3 layers, device 1 without heads: of 4 L (N-1) = 24 messages, 3 terms fall away.
  const ModelSizes gqa{.layers = 3, .heads = 8, .kv_heads = 2, .intermediate = 11};
  const planner::Plan no_heads = plan_of("tensor", gqa, 0, {{4, 0, 4}, {3, 5, 3}});
  // Without columns it also needs no sum of the last attention: 24 - 3 - 1.
  const planner::Plan no_columns = plan_of("tensor", gqa, 0, {{4, 3, 1}, {8, 0, 3}});
  const planner::Strategy& strategy = planner::find_strategy("tensor");
  const double payload = 4.0 * static_cast<double>(no_heads.model.hidden);
  CHECK(wire_bytes(no_heads, strategy.lower(no_heads, planner::decode_batch(7))) == 21 * payload);
  CHECK(wire_bytes(no_columns, strategy.lower(no_columns, planner::decode_batch(7))) ==
        20 * payload);
}

TEST_CASE("planner/lowering: a generation lowers the prompt once and the decode step once") {
  const planner::Plan plan = plan_of("tensor", {}, 0, {{2, 2}, {3, 3}});
  planner::GenerationSteps steps(plan, {.prompt_tokens = 5, .new_tokens = 4});
  REQUIRE(steps.count() == 4);
  CHECK(steps.graph(0).batch() == model::Batch{{{.sequence = 0, .past = 0, .rows = 5}}});
  const model::TaskGraph* decode = &steps.graph(1);
  for (std::int32_t i = 1; i < 4; ++i) {
    const model::TaskGraph& graph = steps.graph(i);
    CHECK(&graph == decode);
    CHECK(graph.batch() == model::Batch{{{.sequence = 0, .past = 5 + i - 1, .rows = 1}}});
  }
  CHECK_THROWS_AS(steps.graph(4), std::logic_error);
  CHECK_THROWS_AS(planner::GenerationSteps(plan, {60, 5}), Error);
}

TEST_CASE("planner/lowering: an unknown strategy is an error that names the known ones") {
  CHECK_THROWS_WITH_AS((void)planner::find_strategy("magic"),
                       "strategy 'magic': unknown, expected one of local, tensor, pipeline, "
                       "galaxy, sp, csps, spread",
                       Error);
}

}  // namespace
}  // namespace tandem::test::lowering_test
