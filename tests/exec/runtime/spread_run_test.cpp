// Caches spread by positions, really executed: one device's logits and tokens, the predicted bytes
// and memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "exec/emulation/rehearsal.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "planner/search/token_ffn.hpp"
#include "planner/strategy/common/positions.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_runs.hpp"
#include "tests/support/near_ties.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::spread_run_test {
namespace {

using testing::predicted_bytes;
using testing::Ran;
using testing::TemporaryFolder;

constexpr int kTokens = 4;

// Of so many devices, of which `room` has the largest budget; -1: all have the same.
planner::Plan planned(const model::Transformer& geometry, const char* strategy, int devices,
                      std::int64_t prompt, int room = -1, const char* partition = "equal",
                      planner::DecodeMoves moves = planner::DecodeMoves::queries) {
  const model::Cluster star = testing::star_of(devices);
  std::vector<model::Device> all = star.devices();
  if (room >= 0) all[static_cast<std::size_t>(room)].memory = model::Bytes{2e10};
  planner::Request request{.model = geometry,
                           .cluster = {"star", all, {"router"}, star.links(), star.edges()},
                           .strategy = strategy,
                           .partition = partition,
                           .decode_moves = moves,
                           .workload = {prompt, kTokens}};
  return std::get<planner::Plan>(make_plan(request));
}

std::vector<std::int32_t> prompt_of(std::int64_t size) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < size; ++i) ids.push_back((17 + i * 31) % 250);
  return ids;
}

Ran executed(const planner::Plan& plan, const std::filesystem::path& weights) {
  return testing::executed(plan, prompt_of(plan.workload.prompt_tokens), [&](std::size_t device) {
    return Shard::slice(weights, plan.model, plan.devices[device].share);
  });
}

std::vector<std::pair<const char*, model::Transformer>> models() {
  model::Transformer capped = testing::small_llama();
  capped.family = model::Family::gemma2;
  capped.activation = model::Activation::gelu_tanh;
  capped.tied_embeddings = true;
  capped.embedding_scale = std::sqrt(static_cast<double>(capped.hidden));
  capped.score_cap = 50.0;
  capped.logit_cap = 3.0;
  model::Transformer windowed = capped;
  windowed.window = 6;
  windowed.windowed = {true, false, true};
  using testing::with_cache;
  return {{"grouped", testing::eight_heads()},
          {"windowed", windowed},
          {"capped", capped},
          {"half", with_cache(testing::eight_heads(), model::CacheFormat::f16)},
          {"bytes", with_cache(testing::eight_heads(), model::CacheFormat::q8_0)}};
}

// Of logits. Sums in another order may round a cached number to the other neighbour.
float limit_of(const model::Transformer& geometry) {
  switch (geometry.cache) {
    case model::CacheFormat::f32:
      break;
    case model::CacheFormat::f16:
      return 1e-4F;
    case model::CacheFormat::q8_0:
      return 5e-3F;
  }
  return 2e-5F;
}

TEST_CASE("exec/spread: gives one device's logits and tokens, and sends what is predicted") {
  testing::Sampled taken(3);
  for (const auto& [name, geometry] : models()) {
    const TemporaryFolder folder;
    write_random_weights(geometry, 17, model::DType::f32, folder.path());
    for (const std::int64_t prompt : {1, 2, 3, 11, 90}) {
      const planner::Plan alone = planned(geometry, "local", 1, prompt);
      std::vector<std::vector<float>> wanted;
      const std::vector<std::int32_t> tokens = testing::SerialExecutor(alone, folder.path())
                                                   .generate(prompt_of(prompt), kTokens, wanted);
      for (const auto& [devices, room] :
           std::vector<std::pair<int, int>>{{1, -1}, {2, -1}, {2, 1}, {3, 1}, {4, -1}}) {
        if (!taken()) continue;
        CAPTURE(std::string(name));
        CAPTURE(prompt);
        CAPTURE(devices);
        CAPTURE(room);
        const planner::Plan plan = planned(geometry, "spread", devices, prompt, room);
        const Ran ran = executed(plan, folder.path());
        testing::check_text(ran, tokens, wanted, limit_of(geometry));
        CHECK(ran.sent == predicted_bytes(plan));
      }
    }
  }
}

TEST_CASE("exec/spread: uneven parts, and keys and values that move, give one device's tokens") {
  testing::Sampled taken(3);
  for (auto& [name, geometry] : models()) {
    geometry.max_context = 256;
    const TemporaryFolder folder;
    write_random_weights(geometry, 17, model::DType::f32, folder.path());
    for (const std::int64_t prompt : {7, 130}) {
      const planner::Plan alone = planned(geometry, "local", 1, prompt);
      std::vector<std::vector<float>> wanted;
      const std::vector<std::int32_t> tokens = testing::SerialExecutor(alone, folder.path())
                                                   .generate(prompt_of(prompt), kTokens, wanted);
      using enum planner::DecodeMoves;
      using Way = std::pair<const char*, planner::DecodeMoves>;
      for (const auto& [partition, moves] :
           {Way{"equal", keys_each_step}, Way{"4:1:2", queries}, Way{"4:1:2", keys_each_step},
            Way{"equal", keys_once},
            // Of 7 positions the first part has one, where devices warm up.
            Way{"1:3:3", queries}, Way{"1:3:3", keys_each_step}, Way{"1:3:3", keys_once}}) {
        for (const int room : {0, 1}) {
          if (prompt > 7 && room == 0) continue;
          if (moves == keys_once && room == 0) continue;  // it is the master's anyway
          if (!taken()) continue;
          CAPTURE(std::string(name));
          CAPTURE(prompt);
          CAPTURE(std::string(partition));
          CAPTURE(room);
          CAPTURE(to_string(moves));
          const planner::Plan plan = planned(geometry, "spread", 3, prompt, room, partition, moves);
          const Ran ran = executed(plan, folder.path());
          testing::check_text(ran, tokens, wanted, limit_of(geometry));
          CHECK(ran.sent == predicted_bytes(plan));
        }
      }
    }
  }
}

TEST_CASE("exec/spread: an FFN of new tokens that devices share out gives one device's tokens") {
  testing::Sampled taken(3);
  auto all = models();
  model::Transformer biased = testing::small_llama();
  biased.family = model::Family::gpt2;
  biased.heads = biased.kv_heads = 5;
  biased.head_dim = 6;
  biased.tied_embeddings = true;
  biased.activation = model::Activation::gelu;
  all.emplace_back("biased", biased);
  for (auto& [name, geometry] : all) {
    geometry.max_context = 256;
    const TemporaryFolder folder;
    write_random_weights(geometry, 17, model::DType::f32, folder.path());
    const auto columns = static_cast<std::int32_t>(geometry.intermediate);
    for (const std::int64_t prompt : {1, 70}) {
      const planner::Plan alone = planned(geometry, "local", 1, prompt);
      std::vector<std::vector<float>> wanted;
      const std::vector<std::int32_t> tokens = testing::SerialExecutor(alone, folder.path())
                                                   .generate(prompt_of(prompt), kTokens, wanted);
      using enum planner::DecodeMoves;
      for (const auto& [moves, room] : std::vector<std::pair<planner::DecodeMoves, int>>{
               {queries, 0}, {queries, 1}, {keys_each_step, 2}, {keys_once, 0}}) {
        planner::Plan plan = planned(geometry, "spread", 3, prompt, room, "equal", moves);
        // By device; some have none, be it the owner or the master.
        for (const std::vector<std::int32_t>& ends :
             std::vector<std::vector<std::int32_t>>{{columns / 2, columns / 2 + 1, columns},
                                                    {0, columns / 4, columns},
                                                    {columns - 1, columns - 1, columns},
                                                    {columns / 2, columns, columns}}) {
          if (!taken()) continue;
          std::int32_t begin = 0;
          for (std::size_t d = 0; d < ends.size(); ++d) {
            plan.devices[d].share.part.columns =
                ends[d] > begin ? model::Range{begin, ends[d]} : model::Range{};
            begin = ends[d];
          }
          CAPTURE(std::string(name));
          CAPTURE(prompt);
          CAPTURE(room);
          CAPTURE(to_string(moves));
          CAPTURE(ends[0]);
          plan = planner::with_predicted_memory(std::move(plan));
          const Ran ran = executed(plan, folder.path());
          testing::check_text(ran, tokens, wanted, limit_of(geometry));
          CHECK(ran.sent == predicted_bytes(plan));
        }
      }
    }
  }
}

TEST_CASE(
    "exec/spread: what devices share out travels in the wire type, in the serial order's bits") {
  const model::Transformer geometry = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(geometry, 17, model::DType::f32, folder.path());
  for (const model::WireFormat wire : {model::WireFormat::f16, model::WireFormat::q8_0}) {
    for (const int room : {0, 2}) {
      CAPTURE(to_string(wire));
      CAPTURE(room);
      planner::Plan plan = planned(geometry, "spread", 3, 40, room);
      plan.wire = wire;
      plan = planner::with_shared_ffn(std::move(plan), false);
      const Ran ran = executed(plan, folder.path());
      std::vector<std::vector<float>> serial;
      const std::vector<std::int32_t> tokens =
          testing::SerialExecutor(plan, folder.path()).generate(prompt_of(40), kTokens, serial);
      CHECK(ran.tokens == tokens);
      CHECK(ran.logits == serial);
      CHECK(ran.sent == predicted_bytes(plan));
    }
  }
}

TEST_CASE("exec/spread: memory for keys and values falls with the number of devices") {
  model::Transformer t = testing::small_llama();
  t.max_context = 2048;
  const auto most = [&](const char* strategy, int devices) {
    double bytes = 0.0;
    for (const planner::DevicePlan& device : planned(t, strategy, devices, 1020).devices)
      bytes = std::max(bytes, device.memory.kv_cache);
    return bytes;
  };
  const double whole = most("local", 1);
  // 1,023 positions are 16 blocks; parts of 510, 340 and 255 and three new ones begin anywhere.
  CHECK(most("spread", 1) == whole);
  CHECK(most("spread", 2) == whole * 9 / 16);
  CHECK(most("spread", 3) == whole * 6 / 16);
  CHECK(most("spread", 4) == whole * 5 / 16);
  CHECK(most("sp", 4) == whole);
}

TEST_CASE("exec/spread: once keys and values are with the master, its tokens need nobody") {
  using planner::DecodeMoves;
  const model::Transformer geometry = testing::small_llama();
  const planner::Plan plan = planned(geometry, "spread", 3, 30, 1, "equal", DecodeMoves::keys_once);
  const planner::Strategy& strategy = planner::find_strategy("spread");
  const model::TaskGraph token = strategy.lower(plan, planner::decode_batch(30));
  CHECK(std::ranges::all_of(token.tasks(), [&](const model::Task& task) {
    return task.lane == model::LaneKind::cpu && task.device == plan.master;
  }));
  // It has a cache of all positions, as alone.
  const planner::Plan alone = planned(geometry, "local", 1, 30);
  CHECK(plan.devices[0].memory.kv_cache == alone.devices[0].memory.kv_cache);
}

TEST_CASE("exec/spread: a device rehearses tokens of moved caches without room for them") {
  model::Transformer geometry = testing::small_llama();
  geometry.max_context = 256;
  const TemporaryFolder folder;
  write_random_weights(geometry, 17, model::DType::f32, folder.path());
  const planner::Plan plan =
      planned(geometry, "spread", 2, 130, 0, "1:3", planner::DecodeMoves::keys_each_step);
  const model::TaskGraph token =
      planner::find_strategy("spread").lower(plan, planner::decode_batch(0));
  const auto declared = token.declared(0);
  REQUIRE(model::find_buffer(declared, {model::BufferKind::remote_kv})->blocks == 2);
  const Shard shard = Shard::slice(folder.path(), plan.model, plan.devices[0].share);
  Rehearsal rehearsal(token, 0, geometry, shard,
                      {.max_rows = 130,
                       .cache_positions = 192,
                       .logit_rows = 1,
                       .buffers = {declared.begin(), declared.end()}});
  for (const model::Task& task : rehearsal.tasks()) {
    rehearsal.executed(task);
    CHECK_NOTHROW(rehearsal.refill());
  }
}

TEST_CASE("exec/spread: lengths that caches are not parted by are refused") {
  const planner::Plan plan = planned(testing::small_llama(), "spread", 2, 11);
  const auto refused = [&](planner::Workload other, const char* reason) {
    CHECK_THROWS_WITH_AS(StepGraphs(plan, other), doctest::Contains(reason), Error);
    CHECK_THROWS_WITH_AS(planner::GenerationSteps(plan, other), doctest::Contains(reason), Error);
  };
  refused({7, kTokens}, "7 prompt and 4 new tokens, expected 11 and at most 4");
  refused({12, kTokens}, "--prompt-tokens 12");
  refused({11, kTokens + 1}, "5 new tokens");
  CHECK_NOTHROW(StepGraphs(plan, planner::Workload{11, kTokens - 1}));
}

}  // namespace
}  // namespace tandem::exec::spread_run_test
