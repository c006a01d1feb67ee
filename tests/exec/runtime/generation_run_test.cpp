// Generations by one runtime a device, each on a thread, over channels in memory.

#include <doctest/doctest.h>

#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/runtime/run_result.hpp"
#include "exec/weights/random_weights.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/run_accounts.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::generation_run_test {
namespace {

std::unique_ptr<FirstSteps> first_steps(StepGraphs& graphs, std::int32_t count) {
  return std::make_unique<FirstSteps>(graphs, count);
}

using testing::plan_for;
using testing::TemporaryFolder;

const std::vector<std::int32_t> kPrompt{79, 110, 99, 101, 32, 117, 112, 111, 110};
constexpr int kTokens = 12;

planner::Plan plan_of(const model::Transformer& t, int devices, const char* partition) {
  return plan_for(t, devices == 1 ? "local" : "tensor", devices, partition,
                  static_cast<std::int64_t>(kPrompt.size()), kTokens);
}

struct Generation {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
  std::vector<std::string> errors;  // by device
  std::vector<DeviceAccount> accounts;
};

TEST_CASE("exec/runtime: every byte that a device allocates was predicted, by category") {
  const TemporaryFolder folder;
  model::Transformer t = testing::eight_heads();
  write_random_weights(t, 3, model::DType::f32, folder.path());
  for (const auto& [devices, partition] : std::vector<std::pair<int, const char*>>{
           {1, "equal"}, {2, "3:1"}, {3, "equal"}, {5, "4:1:1:1:1"}}) {
    CAPTURE(devices);
    const planner::Plan plan = plan_of(t, devices, partition);
    testing::MemoryNetwork network({});
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      CAPTURE(d);
      const auto self = static_cast<model::DeviceIndex>(d);
      testing::MemoryTransport transport(network, self);
      const DeviceRun run(plan, {.self = self, .run = {.workload = plan.workload}},
                          {Shard::slice(folder.path(), t, plan.devices[d].share), nullptr},
                          &transport);
      const model::MemoryUse got = run.report().peak_memory;
      const model::MemoryUse& predicted = plan.devices[d].memory;
      const auto within = [](double bytes, double predicted_bytes, double most_padding) {
        CHECK(bytes >= predicted_bytes);
        CHECK(bytes <= predicted_bytes + most_padding);
      };
      within(got.weights, predicted.weights, 4096.0 * static_cast<double>(2 * t.layers + 2));
      CHECK(got.kv_cache == predicted.kv_cache);
      CHECK(got.activations == predicted.activations);
      CHECK(got.buffers == predicted.buffers);
    }
  }
}

// Streamed from a store beside the weights where the plan says so.
DeviceWeights weights_of(const planner::Plan& plan, model::DeviceIndex self,
                         const std::filesystem::path& weights) {
  const model::Share& share = plan.devices[static_cast<std::size_t>(self)].share;
  const StepGraphs graphs(plan, plan.workload);
  if (!streams(graphs, self)) return {Shard::slice(weights, plan.model, share), nullptr};
  BlockStore store(weights / "cache");
  ResidentBlocks memory;
  return open_weights_of(plan, self, graphs,
                         testing::files_of(testing::blocks_of(weights, plan.model, share, store)),
                         memory);
}

// Every device of `plan` on a thread. `disturb` is called with the runs before the first step.
Generation generate(
    const planner::Plan& plan, const std::filesystem::path& weights,
    const testing::MemoryOptions& options,
    const std::function<void(std::vector<std::unique_ptr<DeviceRun>>&)>& disturb = {},
    bool keep_records = false) {
  testing::MemoryNetwork network(options);
  const auto count = plan.cluster.devices().size();
  std::vector<std::unique_ptr<testing::MemoryTransport>> transports;
  std::vector<std::unique_ptr<DeviceRun>> runs;
  for (std::size_t d = 0; d < count; ++d) {
    const auto self = static_cast<model::DeviceIndex>(d);
    transports.push_back(std::make_unique<testing::MemoryTransport>(network, self));
    runs.push_back(std::make_unique<DeviceRun>(
        plan,
        DeviceRunOptions{.self = self,
                         .run = {.workload = plan.workload, .keep_records = keep_records}},
        weights_of(plan, self, weights), transports.back().get()));
  }
  Generation generation;
  generation.errors.resize(count);
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < count; ++d) {
    threads.emplace_back([&, d] {
      const bool master = static_cast<model::DeviceIndex>(d) == plan.master;
      Sampler greedy({});
      std::vector<std::int32_t> tokens = kPrompt;
      try {
        for (int i = 0; i < kTokens; ++i) {
          const auto sample = [&](std::span<const float> logits) {
            generation.logits.emplace_back(logits.begin(), logits.end());
            return greedy.sample(logits);
          };
          const std::int32_t token =
              runs[d]->step(i, master ? tokens : std::vector<std::int32_t>{}, sample);
          if (!master) continue;
          generation.tokens.push_back(token);
          tokens = {token};
        }
      } catch (const std::exception& error) {
        generation.errors[d] = error.what();
      }
    });
  }
  if (disturb) disturb(runs);
  for (std::thread& thread : threads) thread.join();
  for (const auto& run : runs) {
    generation.accounts.push_back({.report = run->report(), .times = run->take_records()});
  }
  return generation;
}

TEST_CASE("exec/runtime: tokens and logits are those of the serial execution, bit by bit") {
  struct Split {
    int devices;
    const char* partition;
    model::WeightFormat format = model::WeightFormat::f32;
  };
  const TemporaryFolder folder;
  std::uint64_t seed = 0;
  testing::Sampled taken(4);
  for (const Split& split : {Split{1, "equal", model::WeightFormat::bf16},
                             {3, "equal", model::WeightFormat::q8_0},
                             {4, "4:2:1:1", model::WeightFormat::q4_0},
                             {1, "equal", model::WeightFormat::q4_k},
                             {2, "5:3", model::WeightFormat::q5_k},
                             {3, "equal", model::WeightFormat::q6_k},
                             {3, "1:2:1", model::WeightFormat::q3_k},
                             {1, "equal"},
                             {2, "equal"},
                             {2, "7:1"},
                             {3, "equal"},
                             {4, "4:2:1:1"},
                             {5, "equal"},
                             {7, "1:2:1:1:1:1:1"}}) {
    if (!taken()) continue;
    CAPTURE(split.devices);
    CAPTURE(split.partition);
    CAPTURE(to_string(split.format));
    const model::Transformer t = split.format == model::WeightFormat::f32
                                     ? testing::eight_heads()
                                     : testing::in_blocks(testing::eight_heads(), split.format);
    write_random_weights(t, 17, model::DType::f32, folder.path());
    const planner::Plan plan = plan_of(t, split.devices, split.partition);
    testing::SerialExecutor serial(plan, folder.path());
    std::vector<std::vector<float>> logits;
    const std::vector<std::int32_t> tokens = serial.generate(kPrompt, kTokens, logits);
    for (const bool inline_messages : {false, true}) {
      CAPTURE(inline_messages);
      const Generation generation = generate(plan, folder.path(),
                                             {.sends_inline = inline_messages,
                                              .receives_inline = inline_messages,
                                              .max_delay = std::chrono::microseconds(150),
                                              .seed = ++seed});
      for (const std::string& error : generation.errors) CHECK(error == "");
      CHECK(generation.tokens == tokens);
      CHECK(generation.logits == logits);
    }
  }
}

TEST_CASE("exec/runtime: any window, retention and release rule leaves every bit as it was") {
  model::Transformer t = testing::eight_heads();
  std::uint64_t seed = 100;
  testing::Sampled taken(7);
  for (const bool tied : {false, true}) {
    t.tied_embeddings = tied;
    const TemporaryFolder folder;
    write_random_weights(t, 23, model::DType::f16, folder.path());
    for (const auto& [devices, partition] : std::vector<std::pair<int, const char*>>{
             {1, "equal"}, {2, "7:1"}, {3, "equal"}, {5, "1:2:1:1:1"}}) {
      CAPTURE(tied);
      CAPTURE(devices);
      planner::Plan plan = plan_of(t, devices, partition);
      testing::SerialExecutor serial(plan, folder.path());
      std::vector<std::vector<float>> logits;
      const std::vector<std::int32_t> tokens = serial.generate(kPrompt, kTokens, logits);
      for (const std::int32_t window : {1, 2, 3, 4, 7}) {
        for (const std::int32_t retain : {0, 1, 2}) {
          if (!taken()) continue;
          plan.release = window % 2 == 0 ? model::ReleaseRule::late : model::ReleaseRule::early;
          for (std::size_t d = 0; d < plan.devices.size(); ++d) {
            // Each device its own; one of several has all its weights.
            const bool whole = d == 2;
            plan.devices[d].window = planner::normalized(
                t, plan.devices[d].share,
                {.blocks = whole ? 0 : window + static_cast<std::int32_t>(d), .retain = retain});
          }
          CAPTURE(window);
          CAPTURE(retain);
          const Generation generation = generate(
              plan, folder.path(), {.sends_inline = true, .receives_inline = true, .seed = ++seed});
          for (const std::string& error : generation.errors) CHECK(error == "");
          CHECK(generation.tokens == tokens);
          CHECK(generation.logits == logits);
        }
      }
    }
  }
}

TEST_CASE("exec/runtime: rounds and groups of a pipeline give one device's tokens") {
  model::Transformer t = testing::eight_heads();
  t.layers = 11;
  const TemporaryFolder folder;
  write_random_weights(t, 23, model::DType::f16, folder.path());
  const planner::Workload workload{.prompt_tokens = static_cast<std::int64_t>(kPrompt.size()),
                                   .new_tokens = kTokens};
  const planner::Plan one = plan_of(t, 1, "equal");
  testing::SerialExecutor serial(one, folder.path());
  std::vector<std::vector<float>> logits;
  const std::vector<std::int32_t> tokens = serial.generate(kPrompt, kTokens, logits);
  std::uint64_t seed = 300;
  const auto check = [&](const planner::Plan& plan, bool every_bit) {
    const Generation generation = generate(
        plan, folder.path(), {.sends_inline = true, .receives_inline = true, .seed = ++seed});
    for (const std::string& error : generation.errors) CHECK(error == "");
    CHECK(generation.tokens == tokens);
    if (every_bit) CHECK(generation.logits == logits);
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const model::MemoryUse& got = generation.accounts[d].report.peak_memory;
      CHECK(got.kv_cache == plan.devices[d].memory.kv_cache);
      CHECK(got.activations == plan.devices[d].memory.activations);
      CHECK(got.buffers == plan.devices[d].memory.buffers);
    }
  };
  testing::Sampled taken(5);
  for (const int devices : {1, 2, 3, 5}) {
    for (const std::int32_t rounds : {1, 2, 3}) {
      for (const std::int32_t window : {0, 1, 3}) {
        if (!taken()) continue;
        CAPTURE(devices);
        CAPTURE(rounds);
        CAPTURE(window);
        check(testing::stages_for(t, devices, workload, rounds, "", window), true);
      }
    }
  }
  for (const auto& [devices, groups] : std::vector<std::pair<int, std::string>>{
           {4, "device-0,device-1/device-2,device-3"},
           {5, "device-0/device-1,device-2/device-3,device-4"},
           {6, "device-0,device-3/device-1,device-4/device-2,device-5"}}) {
    for (const std::int32_t window : {0, 2}) {
      CAPTURE(groups);
      CAPTURE(window);
      for (const char* const prompts : {"", "galaxy"}) {
        CAPTURE(prompts);
        check(testing::stages_for(t, devices, workload, 1, groups, window, prompts), false);
      }
    }
  }
}

// A loader that finds `good` blocks, then none, until it is healed.
class Ailing : public BlockLoader {
 public:
  Ailing(BlockLoader& sound, int good) : sound_(&sound), good_(good) {}
  void heal() { good_ = std::numeric_limits<int>::max(); }
  [[nodiscard]] std::size_t find(const model::Task& task) const override {
    if (good_-- <= 0) throw Error("no such block");
    return sound_->find(task);
  }
  [[nodiscard]] LoadedBlock load(std::size_t block, const std::atomic<bool>& stop) override {
    return sound_->load(block, stop);
  }

 private:
  BlockLoader* sound_;
  mutable int good_;
};

TEST_CASE("exec/runtime: a graph whose preparation failed is not prepared, and can be later") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 31, model::DType::f32, folder.path());
  planner::Plan plan = plan_of(t, 1, "equal");
  std::vector<std::vector<float>> logits;
  const std::vector<std::int32_t> tokens =
      testing::SerialExecutor(plan, folder.path()).generate(kPrompt, 1, logits);
  plan.devices[0].window = planner::normalized(t, plan.devices[0].share, {.blocks = 2});
  const StepGraphs graphs(plan, plan.workload);
  for (const int good : {0, 1, 3}) {  // blocks that are found before one is not
    CAPTURE(good);
    DeviceWeights weights = weights_of(plan, 0, folder.path());
    Compute compute(t, std::move(weights.shard),
                    {.max_rows = static_cast<std::int32_t>(kPrompt.size()),
                     .cache_positions = plan.workload.positions(),
                     .sequences = 1,
                     .logit_rows = 1});
    compute.set_embedding_rows(*weights.window);
    Ailing loader(*weights.window, good);
    Pacer pacer({});
    Runtime runtime(compute, nullptr, &loader, pacer, {.device = 0});
    TimeLog log;
    for (int attempt = 0; attempt < 2; ++attempt) {
      CHECK_THROWS_WITH_AS(runtime.prepare(graphs.prompt()), "no such block", Error);
      CHECK_THROWS_AS(static_cast<void>(runtime.records(graphs.prompt())), std::logic_error);
    }
    loader.heal();
    runtime.prepare(graphs.prompt());
    compute.set_tokens(kPrompt);
    Sampler sampler({});
    const std::int32_t token = runtime.step(
        0, graphs.prompt(), nullptr,
        [&](std::span<const float> row) { return sampler.sample(row); }, log);
    CHECK(token == tokens.front());
    CHECK(log.size() == runtime.records(graphs.prompt()));
    CHECK(log.size() > graphs.prompt().tasks().size() / 2);
  }
}

TEST_CASE(
    "exec/runtime: a graph that a device cannot execute is refused as often as it is offered") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 31, model::DType::f32, folder.path());
  const planner::Plan plan = plan_of(t, 1, "equal");
  Compute compute(t, Shard::slice(folder.path(), t, plan.devices[0].share),
                  {.max_rows = 1, .cache_positions = 1, .sequences = 1, .logit_rows = 1});
  Pacer pacer({});
  Runtime runtime(compute, nullptr, nullptr, pacer, {.device = 0});
  model::TaskGraph graph(model::Batch{.segments = {{.rows = 1, .sampled = 1}}});
  const model::Task elsewhere{.kind = model::TaskKind::add,
                              .device = 1,
                              .rows = {0, 1},
                              .columns = {0, 1},
                              .input = {model::BufferKind::hidden},
                              .output = {model::BufferKind::partial}};
  model::Task here = elsewhere;
  here.device = 0;
  graph.add(here, {graph.add(elsewhere, {})});
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK_THROWS_WITH_AS(runtime.prepare(graph), doctest::Contains("expected a transfer"), Error);
    CHECK_THROWS_AS(static_cast<void>(runtime.records(graph)), std::logic_error);
  }
}

TEST_CASE("exec/runtime: a run leaves sums, and the records that they are of if asked") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 29, model::DType::f32, folder.path());
  for (const int devices : {1, 3}) {
    planner::Plan plan = plan_of(t, devices, "equal");
    for (planner::DevicePlan& device : plan.devices) {
      device.window = planner::normalized(t, device.share, {.blocks = 2});
    }
    StepGraphs graphs(plan, plan.workload);
    CAPTURE(devices);
    for (const bool keep_records : {false, true}) {
      CAPTURE(keep_records);
      Generation run = generate(plan, folder.path(), {.seed = 3}, {}, keep_records);
      for (const std::string& error : run.errors) CHECK(error == "");
      const RunResult merged =
          merge(plan, *first_steps(graphs, kTokens), run.accounts, keep_records);
      CHECK(merged.result.steady.has_value());
      CHECK(merged.trace.spans.empty() != keep_records);
      std::vector<DeviceAccount> again = run.accounts;
      if (keep_records) testing::add_tallies(graphs, kTokens, again);
      for (std::size_t d = 0; d < again.size(); ++d) {
        CHECK(again[d].report.tally.kinds == run.accounts[d].report.tally.kinds);
        CHECK(again[d].report.tally.late_stall_ns == run.accounts[d].report.tally.late_stall_ns);
        CHECK(run.accounts[d].times.empty() != keep_records);
      }
    }
  }
}

TEST_CASE("exec/runtime: cancelling ends waits in every mode, with the reason") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 17, model::DType::f32, folder.path());
  const planner::Plan plan = plan_of(t, 3, "equal");
  for (const bool inline_messages : {false, true}) {
    CAPTURE(inline_messages);
    // Messages take a second, so that everybody waits.
    const auto begin = Clock::now();
    const Generation generation =
        generate(plan, folder.path(),
                 {.sends_inline = inline_messages,
                  .receives_inline = inline_messages,
                  .max_delay = std::chrono::seconds(30),
                  .seed = 2},
                 [](std::vector<std::unique_ptr<DeviceRun>>& runs) {
                   std::this_thread::sleep_for(std::chrono::milliseconds(50));
                   for (auto& run : runs) run->cancel("the user said so");
                 });
    for (const std::string& error : generation.errors) CHECK(error == "the user said so");
    CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 20.0);
  }
}

TEST_CASE("exec/runtime: a device cancelled before it begins does not begin") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 17, model::DType::f32, folder.path());
  const planner::Plan plan = plan_of(t, 1, "equal");
  DeviceRun run(plan, {.self = 0, .run = {.workload = plan.workload}},
                {Shard::slice(folder.path(), t, plan.devices[0].share), nullptr}, nullptr);
  run.cancel("too late");
  CHECK_THROWS_WITH_AS(run.step(0, kPrompt, [](std::span<const float>) { return 0; }), "too late",
                       Error);
}

TEST_CASE("exec/runtime: a failing channel fails the step with its reason") {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 17, model::DType::f32, folder.path());
  const planner::Plan plan = plan_of(t, 2, "equal");
  for (const bool inline_messages : {false, true}) {
    testing::MemoryNetwork network(
        {.sends_inline = inline_messages, .receives_inline = inline_messages});
    // A message that nobody expects is waiting already.
    testing::MemoryTransport stranger(network, 1);
    stranger.send(0, {.step = 7, .task = 7}, {});
    testing::MemoryTransport transport(network, 0);
    DeviceRun run(plan, {.self = 0, .run = {.workload = plan.workload}},
                  {Shard::slice(folder.path(), t, plan.devices[0].share), nullptr}, &transport);
    CHECK_THROWS_WITH_AS(run.step(0, kPrompt, [](std::span<const float>) { return 0; }),
                         "memory transport: another message than expected", Error);
    CHECK_THROWS_AS(run.step(1, kPrompt, [](std::span<const float>) { return 0; }), Error);
  }
}

TEST_CASE("exec/runtime: a run longer than planned is refused if a device cannot hold it") {
  const model::Transformer t = testing::eight_heads();
  planner::Plan plan = plan_of(t, 2, "equal");
  const planner::Workload longer{.prompt_tokens = 60, .new_tokens = 40};
  CHECK(StepGraphs(plan, longer).count() == 40);
  std::vector<model::Device> devices = plan.cluster.devices();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    devices[d].memory = model::Bytes{plan.devices[d].memory.total()};
  }
  plan.cluster = model::Cluster(plan.cluster.name(), devices, plan.cluster.routers(),
                                plan.cluster.links(), plan.cluster.edges());
  CHECK(StepGraphs(plan, plan.workload).count() == kTokens);
  CHECK_THROWS_WITH_AS(StepGraphs(plan, longer),
                       doctest::Contains("run: 60 prompt and 40 new tokens need"), Error);
  CHECK_THROWS_AS(StepGraphs(plan, {.prompt_tokens = 1000, .new_tokens = 1}), Error);
}

}  // namespace
}  // namespace tandem::exec::generation_run_test
