// Strategies that part rows, really executed: galaxy with and without tiles, sp and csps.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::galaxy_run_test {
namespace {

using model::Family;
using testing::TemporaryFolder;

constexpr int kTokens = 5;

// Eight heads, four of keys and values where the family allows it.
model::Transformer geometry(Family family) {
  model::Transformer t = testing::eight_heads();
  t.family = family;
  t.max_context = 64;
  if (!t.architecture().gated) {
    t.hidden = 48;
    t.kv_heads = t.heads;
    t.activation = model::Activation::gelu;
  }
  t.tied_embeddings = family != Family::llama;
  t.token_types = family == Family::bert ? 2 : 0;
  return t;
}

struct Given {
  std::string strategy;
  int devices;
  std::string partition;
  std::string allreduce;
  std::int32_t tiles;
  bool gather_weights = false;
};

// Even and uneven shares, with and without tiles, on rings and others.
std::vector<Given> all_given() {
  return {{"galaxy", 1, "equal", "ring,star", 0},
          {"galaxy", 2, "equal", "ring,star", 1},
          {"galaxy", 2, "5:3", "ring,ring", 3},
          {"galaxy", 3, "equal", "ring,star", 0},
          {"galaxy", 3, "1:2:5", "halving,star", 1},
          {"galaxy", 3, "1:2:5", "ring,star", 2},
          {"galaxy", 5, "2:1:3:1:1", "ring,star", 1},
          {"galaxy", 5, "equal", "star,halving", 2},
          {"galaxy", 4, "2:1:3:2", "hierarchical:ring+star", 0},
          {"galaxy", 6, "equal", "hierarchical:ring+ring", 2},
          {"galaxy", 6, "2:1:1:1:2:1", "hierarchical:star+halving", 1},
          {"galaxy", 8, "equal", "hierarchical:halving+ring", 1},
          {"sp", 1, "", "ring", 0},
          {"sp", 2, "", "ring", 0},
          {"sp", 3, "", "star", 0},
          {"sp", 5, "", "ring", 0},
          {"sp", 5, "", "halving", 0},
          {"sp", 4, "", "hierarchical:star+ring", 0},
          {"sp", 6, "", "hierarchical:ring+halving", 0},
          {"csps", 1, "equal", "star", 0},
          {"csps", 2, "5:3", "ring", 1},
          {"csps", 3, "1:2:5", "star,ring", 0},
          {"csps", 5, "2:1:3:1:1", "halving", 2},
          {"csps", 8, "equal", "hierarchical:ring+star", 0},
          {"csps", 2, "5:3", "ring", 1, true},
          {"csps", 3, "1:2:5", "star,ring", 0, true},
          {"csps", 8, "equal", "hierarchical:ring+star", 2, true}};
}

planner::Plan planned(const model::Transformer& t, const Given& given, std::int64_t prompt) {
  planner::Request request{.model = t,
                           .cluster = given.allreduce.starts_with("hierarchical")
                                          ? tandem::test::some_homes(given.devices)
                                          : testing::star_of(given.devices),
                           .strategy = given.strategy,
                           .partition = given.partition.empty() ? "auto" : given.partition,
                           .allreduce = given.allreduce,
                           .gather_weights = given.gather_weights,
                           .workload = {prompt, t.architecture().generates() ? kTokens : 0}};
  if (given.strategy != "local" && given.strategy != "tensor" && given.strategy != "sp")
    request.tiles = given.tiles;
  return std::get<planner::Plan>(make_plan(request));
}

std::vector<std::int32_t> prompt_of(std::int64_t length) {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(length));
  for (std::int32_t i = 0; i < length; ++i) ids.push_back((17 + i * 31) % 250);
  return ids;
}

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> values;  // logits of each token; or the hidden states
};

Outcome executed_serially(const planner::Plan& plan, const std::filesystem::path& weights) {
  const std::vector<std::int32_t> prompt = prompt_of(plan.workload.prompt_tokens);
  testing::SerialExecutor executor(plan, weights);
  Outcome outcome;
  if (!plan.model.architecture().generates()) return {{}, {executor.encode(prompt)}};
  outcome.tokens = executor.generate(prompt, kTokens, outcome.values);
  return outcome;
}

// Every device on a thread, over channels that delay.
Outcome executed(const planner::Plan& plan, const std::filesystem::path& weights) {
  testing::MemoryNetwork network({.max_delay = std::chrono::microseconds(50), .seed = 9});
  Outcome outcome;
  const auto errors = testing::on_each_device(
      plan.devices.size(),
      [&](model::DeviceIndex self) {
        testing::MemoryTransport transport(network, self);
        DeviceRun device(
            plan, {.self = self, .run = {.workload = plan.workload}},
            {Shard::slice(weights, plan.model, plan.devices[static_cast<std::size_t>(self)].share),
             nullptr},
            &transport);
        const bool master = self == plan.master;
        Sampler greedy({});
        const auto sample = [&](std::span<const float> values) {
          outcome.values.emplace_back(values.begin(), values.end());
          return greedy.sample(values);
        };
        std::vector<std::int32_t> tokens = prompt_of(plan.workload.prompt_tokens);
        for (int i = 0; i < plan.workload.steps(); ++i) {
          const std::int32_t token =
              device.step(i, master ? tokens : std::vector<std::int32_t>{}, sample);
          if (!master) continue;
          if (plan.model.architecture().generates()) outcome.tokens.push_back(token);
          tokens = {token};
        }
        if (master && !plan.model.architecture().generates())
          outcome.values = {device.hidden(static_cast<std::int32_t>(plan.workload.prompt_tokens))};
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  return outcome;
}

// Largest difference over the largest value, step by step.
double relative_error(const Outcome& a, const Outcome& b) {
  REQUIRE(a.values.size() == b.values.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    REQUIRE(a.values[i].size() == b.values[i].size());
    double largest = 0.0;
    double difference = 0.0;
    for (std::size_t j = 0; j < a.values[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a.values[i][j])));
      const double d = std::abs(static_cast<double>(a.values[i][j] - b.values[i][j]));
      difference = d <= difference ? difference : d;  // keeps NaN
    }
    worst = difference / largest <= worst ? worst : difference / largest;
  }
  return worst;
}

TEST_CASE(
    "exec/galaxy: galaxy, sp and csps leave local's tokens and logits, bit for bit the serial "
    "ones" *
    doctest::test_suite("long")) {
  for (const Family family : {Family::llama, Family::gpt2, Family::opt, Family::bert}) {
    const model::Transformer t = geometry(family);
    const TemporaryFolder folder;
    write_random_weights(t, 17, model::DType::f32, folder.path());
    // Shorter than the devices are many, and longer; one row alone.
    for (const std::int64_t prompt : {1, 3, 17}) {
      const Outcome local =
          executed_serially(planned(t, {"local", 1, "", "", 0}, prompt), folder.path());
      const Outcome tensor =
          executed_serially(planned(t, {"tensor", 3, "1:2:5", "star", 0}, prompt), folder.path());
      for (const Given& given : all_given()) {
        CAPTURE(static_cast<int>(family));
        CAPTURE(prompt);
        CAPTURE(given.strategy);
        CAPTURE(given.devices);
        CAPTURE(given.partition);
        CAPTURE(given.allreduce);
        CAPTURE(given.tiles);
        CAPTURE(given.gather_weights);
        const planner::Plan plan = planned(t, given, prompt);
        const Outcome serial = executed_serially(plan, folder.path());
        CHECK(serial.tokens == local.tokens);
        CHECK(relative_error(local, serial) < 1e-4);
        CHECK(relative_error(tensor, serial) < 1e-4);
        const Outcome really = executed(plan, folder.path());
        CHECK(really.tokens == serial.tokens);
        CHECK(really.values == serial.values);
      }
    }
  }
}

TEST_CASE("exec/galaxy: buffers, caches and activations take what is predicted") {
  const model::Transformer t = geometry(Family::llama);
  const TemporaryFolder folder;
  write_random_weights(t, 3, model::DType::f32, folder.path());
  testing::Sampled taken(3);
  for (const Given& given : all_given()) {
    if (!taken()) continue;
    CAPTURE(given.strategy);
    CAPTURE(given.devices);
    CAPTURE(given.allreduce);
    CAPTURE(given.tiles);
    const planner::Plan plan = planned(t, given, 17);
    testing::MemoryNetwork network({});
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      CAPTURE(d);
      const auto self = static_cast<model::DeviceIndex>(d);
      testing::MemoryTransport transport(network, self);
      const DeviceRun run(plan, {.self = self, .run = {.workload = plan.workload}},
                          {Shard::slice(folder.path(), t, plan.devices[d].share), nullptr},
                          &transport);
      const model::MemoryUse got = run.report().peak_memory;
      CHECK(got.kv_cache == plan.devices[d].memory.kv_cache);
      CHECK(got.activations == plan.devices[d].memory.activations);
      // Predictions are of steps that ask for every row as well.
      CHECK(got.buffers <= plan.devices[d].memory.buffers);
    }
  }
}

}  // namespace
}  // namespace tandem::exec::galaxy_run_test
