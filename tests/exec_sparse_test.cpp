// Sparse attention, really executed: the logits of a slow reference, one device's where nothing is
// dropped, and the predicted bytes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "device_threads.hpp"
#include "exec/runtime/device_run.hpp"
#include "exec/synthetic_shard.hpp"
#include "memory_transport.hpp"
#include "model/work.hpp"
#include "planner/search.hpp"
#include "planner/strategy/rows.hpp"
#include "serial_executor.hpp"
#include "sparse_reference.hpp"
#include "weights_support.hpp"

namespace tandem::exec {
namespace {

constexpr std::int32_t kTokens = 4;

// Devices of two routers, which are far from one another; the first half is the master's.
model::Cluster two_rooms(int devices) {
  std::vector<model::Device> all = testing::star_of(devices).devices();
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  const auto link = [&](const std::string& from, const std::string& to, double seconds) {
    links.push_back({from + "-" + to, model::Seconds{seconds}, model::BytesPerSecond{1e8},
                     model::Sharing::shared});
    edges.push_back({from,
                     to,
                     {{static_cast<model::LinkIndex>(links.size() - 1), model::Direction::none}},
                     true});
  };
  for (int i = 0; i < devices; ++i)
    link(all[static_cast<std::size_t>(i)].name, 2 * i < devices ? "near" : "far", 1e-4);
  link("near", "far", 5e-3);
  return {"rooms", all, {"near", "far"}, links, edges};
}

model::Transformer small() {
  model::Transformer t = testing::eight_heads();
  t.layers = 5;
  return t;
}

planner::Plan planned(const model::Transformer& geometry, int devices, std::int64_t prompt,
                      std::optional<planner::SparseRequest> sparse,
                      const std::string& partition = "equal",
                      model::WireFormat wire = model::WireFormat::f32,
                      planner::DecodeMoves moves = planner::DecodeMoves::queries) {
  const planner::Request request{.model = geometry,
                                 .cluster = two_rooms(devices),
                                 .strategy = devices == 1 ? "local" : "csps",
                                 .partition = devices == 1 ? "auto" : partition,
                                 .tiles = std::nullopt,
                                 .decode_moves = moves,
                                 .workload = {prompt, kTokens},
                                 .wire = wire,
                                 .sparse = sparse};
  return std::get<planner::Plan>(make_plan(request));
}

std::vector<std::int32_t> prompt_of(std::int64_t size) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < size; ++i) ids.push_back((17 + i * 31 + i * i % 7) % 250);
  return ids;
}

struct Ran {
  std::vector<std::vector<float>> logits;  // of each step
  std::vector<std::int32_t> tokens;
  std::vector<double> sent;  // bytes, by device
};

std::vector<Shard> shards_of(const planner::Plan& plan) {
  std::vector<Shard> shards;
  for (const planner::DevicePlan& device : plan.devices)
    shards.push_back(
        synthetic_shard(plan.model, device.share, testing::RandomWeights{.scale = 0.3}));
  return shards;
}

// Every device on a thread, warmed up before as runs are.
Ran executed(const planner::Plan& plan) {
  testing::MemoryNetwork network({.max_delay = std::chrono::microseconds(50), .seed = 9});
  Ran ran{.logits = {}, .tokens = {}, .sent = std::vector<double>(plan.devices.size())};
  std::vector<Shard> shards = shards_of(plan);
  const auto errors = testing::on_each_device(
      plan.devices.size(),
      [&](model::DeviceIndex self) {
        const auto d = static_cast<std::size_t>(self);
        testing::MemoryTransport transport(network, self);
        DeviceRun device(plan, {.self = self, .run = {.workload = plan.workload}},
                         {std::move(shards[d]), nullptr}, &transport);
        Sampler greedy({});
        const auto sample = [&](std::span<const float> values) {
          ran.logits.emplace_back(values.begin(), values.end());
          ran.tokens.push_back(greedy.sample(values));
          return ran.tokens.back();
        };
        std::vector<std::int32_t> tokens = prompt_of(plan.workload.prompt_tokens);
        for (int i = 0; i < plan.workload.steps(); ++i) {
          const std::int32_t token =
              device.step(i, self == plan.master ? tokens : std::vector<std::int32_t>{}, sample);
          tokens = {token};
        }
        const DeviceReport report = device.report();
        ran.sent[d] = report.bytes_sent;
        const model::MemoryUse& got = report.peak_memory;
        const model::MemoryUse& said = plan.devices[d].memory;
        if (got.kv_cache != said.kv_cache || got.activations != said.activations ||
            got.buffers > said.buffers)
          throw Error("memory is not as predicted");
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  return ran;
}

Ran in_order(const planner::Plan& plan) {
  Ran ran{.logits = {}, .tokens = {}, .sent = {}};
  testing::SerialExecutor executor(plan, shards_of(plan));
  ran.tokens = executor.generate(prompt_of(plan.workload.prompt_tokens), kTokens, ran.logits);
  return ran;
}

std::vector<double> predicted_bytes(const planner::Plan& plan) {
  std::vector<double> sent(plan.devices.size());
  planner::GenerationSteps steps(plan);
  for (std::int32_t i = 0; i < steps.count(); ++i) {
    const model::TaskGraph& graph = steps.graph(i);
    for (const model::Task& task : graph.tasks()) {
      if (task.kind == model::TaskKind::transfer)
        sent[static_cast<std::size_t>(task.device)] +=
            model::work_of(plan.model, graph.batch(), task).bytes_wire;
    }
  }
  return sent;
}

// How far apart at most, of the largest.
double apart(const std::vector<std::vector<float>>& got,
             const std::vector<std::vector<float>>& wanted) {
  double worst = got.size() == wanted.size() ? 0.0 : 1.0;
  for (std::size_t step = 0; step < std::min(got.size(), wanted.size()); ++step) {
    double largest = 0.0;
    double difference = got[step].size() == wanted[step].size() ? 0.0 : 1.0;
    for (std::size_t i = 0; i < std::min(got[step].size(), wanted[step].size()); ++i) {
      const double d = std::abs(static_cast<double>(got[step][i]) - wanted[step][i]);
      difference = std::isnan(d) ? 1e9 : std::max(difference, d);
      largest = std::max(largest, std::abs(static_cast<double>(wanted[step][i])));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// Rows by D'Hondt's highest averages, one after another.
testing::SparseRule rule_of(const planner::Plan& plan) {
  const planner::SparseAttention& sparse = *plan.sparse;
  const std::size_t places = sparse.order.size();
  std::vector<double> weight;
  for (const model::DeviceIndex d : sparse.order)
    weight.push_back(plan.devices[static_cast<std::size_t>(d)].share.part.columns.size());
  std::vector<int> rows(places);
  for (std::int64_t row = 0; row < plan.workload.prompt_tokens; ++row) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < places; ++i) {
      if (weight[i] / (rows[i] + 1) > weight[next] / (rows[next] + 1)) next = i;
    }
    ++rows[next];
  }
  if (std::ranges::find(rows, 0) != rows.end()) {
    std::ranges::fill(rows, 0);
    rows.back() = static_cast<int>(plan.workload.prompt_tokens);
  }
  testing::SparseRule rule{.place = {}, .group = sparse.groups, .drop = {}};
  // What one device has alone is one level.
  rule.overlap = sparse.overlap && std::ranges::find(rows, 0) == rows.end();
  for (const std::vector<planner::DropRatio>& by_level : sparse.drop) {
    auto& layer = rule.drop.emplace_back();
    for (const planner::DropRatio& ratio : by_level)
      layer.push_back(ratio.parts.size() > 1
                          ? ratio.parts
                          : std::vector<double>(static_cast<std::size_t>(plan.model.kv_heads),
                                                ratio.parts.front()));
  }
  rule.group.emplace_back(places, 0);
  for (std::size_t i = 0; i < places; ++i)
    rule.place.insert(rule.place.end(), static_cast<std::size_t>(rows[i]), static_cast<int>(i));
  return rule;
}

// The reference's logits of each step, the run's own tokens given.
std::vector<std::vector<float>> wanted_logits(const planner::Plan& plan,
                                              const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> text = prompt_of(plan.workload.prompt_tokens);
  text.insert(text.end(), tokens.begin(), tokens.end() - 1);
  const testing::Matrix all =
      testing::sparse_logits(plan.model, testing::RandomWeights{.scale = 0.3}, text, rule_of(plan));
  std::vector<std::vector<float>> logits;
  for (std::int64_t row = plan.workload.prompt_tokens - 1; row < all.rows; ++row) {
    std::vector<float>& one = logits.emplace_back();
    for (std::int64_t c = 0; c < all.columns; ++c)
      one.push_back(static_cast<float>(all.at(row, c)));
  }
  return logits;
}

TEST_CASE("exec/sparse: with nothing dropped gives one device's logits and tokens") {
  for (const std::int64_t prompt : {1, 2, 3, 4, 65}) {
    const Ran alone = in_order(planned(small(), 1, prompt, {}));
    for (const auto& [devices, levels] :
         std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {3, 3}, {4, 3}}) {
      CAPTURE(prompt);
      CAPTURE(devices);
      CAPTURE(levels);
      const planner::Plan plan =
          planned(small(), devices, prompt, planner::SparseRequest{.levels = levels, .drop = 0.0});
      const Ran ran = executed(plan);
      CHECK(ran.tokens == alone.tokens);
      CHECK(apart(ran.logits, alone.logits) < 1e-4);
      CHECK(ran.sent == predicted_bytes(plan));
    }
  }
}

TEST_CASE("exec/sparse: keeps the rows, and gives the logits, that the rules say") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
  };
  for (const double drop : {0.25, 0.5, 0.9}) {
    for (const Given& given : {Given{2, 2, "equal"}, Given{2, 2, "5:2"}, Given{3, 3, "1:3:2"},
                               Given{4, 3, "equal"}, Given{4, 2, "2:1:3:1"}}) {
      for (const std::int64_t prompt : {given.devices - 1, given.devices, 11, 65}) {
        CAPTURE(drop);
        CAPTURE(given.devices);
        CAPTURE(given.levels);
        CAPTURE(std::string(given.partition));
        CAPTURE(prompt);
        const planner::Plan plan =
            planned(small(), given.devices, prompt,
                    planner::SparseRequest{.levels = given.levels, .drop = drop}, given.partition);
        const Ran ran = in_order(plan);
        CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
      }
    }
  }
}

TEST_CASE(
    "exec/sparse: levels that overlap give the logits that the rules say, and send what is "
    "predicted") {
  struct Given {
    int devices;
    int levels;
    const char* partition;
    double drop;
  };
  for (const Given& given :
       {Given{2, 2, "5:2", 0.0}, Given{3, 3, "1:3:2", 0.5}, Given{4, 3, "equal", 0.0},
        Given{4, 3, "2:1:3:1", 0.3}, Given{4, 2, "equal", 0.9}}) {
    for (const std::int64_t prompt : {given.devices - 1, 11, 33}) {
      CAPTURE(given.devices);
      CAPTURE(given.levels);
      CAPTURE(given.drop);
      CAPTURE(prompt);
      const planner::Plan plan = planned(
          small(), given.devices, prompt,
          planner::SparseRequest{.levels = given.levels, .drop = given.drop, .overlap = true},
          given.partition);
      const Ran ran = executed(plan);
      CHECK(ran.logits == in_order(plan).logits);
      CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
      CHECK(ran.sent == predicted_bytes(plan));
      if (!rule_of(plan).overlap) continue;
      // Each key once is another result.
      planner::Plan once = plan;
      once.sparse->overlap = false;
      CHECK(apart(ran.logits, wanted_logits(once, ran.tokens)) > 1e-3);
    }
  }
}

TEST_CASE("exec/sparse: heads that drop apart keep the rows that the rules say") {
  for (const auto& [devices, levels] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {4, 3}}) {
    for (const bool overlap : {false, true}) {
      for (const std::int64_t prompt : {devices, 33}) {
        CAPTURE(devices);
        CAPTURE(overlap);
        CAPTURE(prompt);
        model::Transformer geometry = small();
        geometry.kv_heads = 4;
        planner::Plan plan =
            planned(geometry, devices, prompt,
                    planner::SparseRequest{.levels = levels, .drop = 0.0, .overlap = overlap});
        const auto heads = static_cast<std::size_t>(geometry.kv_heads);
        for (std::size_t layer = 2; layer < 4; ++layer) {
          for (std::size_t level = 0; level < plan.sparse->drop[layer].size(); ++level) {
            std::vector<double>& parts = plan.sparse->drop[layer][level].parts;
            parts.clear();
            for (std::size_t h = 0; h < heads; ++h)
              parts.push_back((h + layer) % 2 == 0 ? 0.3 * static_cast<double>(level)
                                                   : 0.6 + 0.2 * static_cast<double>(level));
          }
        }
        plan = planner::with_predicted_memory(std::move(plan));
        plan.validate();
        const Ran ran = executed(plan);
        CHECK(ran.logits == in_order(plan).logits);
        CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
        CHECK(ran.sent == predicted_bytes(plan));
      }
    }
  }
}

TEST_CASE(
    "exec/sparse: devices beside one another give the bits of the serial order, and send what is "
    "predicted") {
  for (const auto& [devices, levels] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {4, 3}}) {
    for (const double drop : {0.3, 0.8}) {
      CAPTURE(devices);
      CAPTURE(drop);
      const planner::Plan plan =
          planned(small(), devices, 33, planner::SparseRequest{.levels = levels, .drop = drop});
      const Ran ran = executed(plan);
      const Ran serial = in_order(plan);
      CHECK(ran.logits == serial.logits);
      CHECK(ran.sent == predicted_bytes(plan));
    }
  }
}

TEST_CASE("exec/sparse: activations travel in the wire type, and the bits are the serial order's") {
  const Ran alone = in_order(planned(small(), 1, 33, {}));
  for (const model::WireFormat wire : {model::WireFormat::f16, model::WireFormat::q8_0}) {
    CAPTURE(to_string(wire));
    const auto made = [&](double drop, model::WireFormat travels) {
      return planned(small(), 4, 33, planner::SparseRequest{.levels = 3, .drop = drop}, "equal",
                     travels);
    };
    for (const double drop : {0.0, 0.6}) {
      CAPTURE(drop);
      const planner::Plan plan = made(drop, wire);
      const Ran ran = executed(plan);
      CHECK(ran.logits == in_order(plan).logits);
      CHECK(ran.sent == predicted_bytes(plan));
      for (std::size_t d = 0; d < ran.sent.size(); ++d)
        CHECK(ran.sent[d] < predicted_bytes(made(drop, model::WireFormat::f32))[d]);
      // Of the first token: later ones follow other tokens, where rounding turned one.
      if (drop == 0.0)
        CHECK(apart({ran.logits.front()}, {alone.logits.front()}) <
              (wire == model::WireFormat::f16 ? 0.01 : 0.1));
    }
  }
}

TEST_CASE("exec/sparse: new tokens that the master computes alone see what those see that ask") {
  for (const std::int64_t prompt : {2, 33}) {
    const auto of = [&](planner::DecodeMoves moves) {
      return planned(small(), 3, prompt, planner::SparseRequest{.levels = 2, .drop = 0.5}, "1:3:2",
                     model::WireFormat::f32, moves);
    };
    const planner::Plan plan = of(planner::DecodeMoves::keys_once);
    const Ran ran = executed(plan);
    const Ran asking = in_order(of(planner::DecodeMoves::queries));
    CAPTURE(prompt);
    CHECK(ran.tokens == asking.tokens);
    CHECK(apart(ran.logits, asking.logits) < 1e-5);
    CHECK(ran.sent == predicted_bytes(plan));
  }
}

TEST_CASE("exec/sparse: a cache in F16 is gathered as it is attended to") {
  model::Transformer half = small();
  half.cache = model::CacheFormat::f16;
  const Ran alone = in_order(planned(half, 1, 21, {}));
  const Ran ran = in_order(planned(half, 3, 21, planner::SparseRequest{.levels = 2, .drop = 0.0}));
  CHECK(ran.tokens == alone.tokens);
  CHECK(apart(ran.logits, alone.logits) < 1e-3);
}

}  // namespace
}  // namespace tandem::exec
