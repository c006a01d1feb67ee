// What copying on write takes of an emulated device.

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "exec/runtime/runtime.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/graph/cache_copies.hpp"
#include "model/predict/program.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::cache_copies_run_test {
namespace {

constexpr std::int32_t kPrompt = 70;

std::int64_t length_ns(const TaskTime& time) { return time.end_ns - time.start_ns; }

TEST_CASE("exec/runtime: a step's first task has the time of copies on write, as predicted") {
  model::Transformer t = testing::eight_heads();
  t.max_context = 256;
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const planner::Plan plan = testing::plan_for(t, "local", 1, "equal", kPrompt, 4);
  const model::CostModel costs = plan.cost_model();
  const planner::Strategy& strategy = planner::find_strategy("local");
  model::TaskGraph prompt = strategy.lower(plan, planner::prompt_batch({kPrompt, 1}));
  const auto step_of = [&](bool forks) {
    Compute compute(t, Shard::slice(folder.path(), t, plan.devices[0].share),
                    {.max_rows = kPrompt, .cache_positions = 512, .sequences = 2});
    Pacer pacer({.pace = Pace::nominal, .costs = &costs, .dilation = 3.0});
    Runtime runtime(compute, nullptr, nullptr, pacer, {.device = 0});
    // The second sequence is the first one's copy, or was computed by itself.
    model::TaskGraph second = prompt;
    model::TaskGraph token = strategy.lower(plan, planner::decode_batch(kPrompt));
    runtime.prepare(prompt);
    runtime.prepare(token);
    const SampleToken sample = [](std::span<const float>) { return 0; };
    TimeLog log;
    compute.set_tokens(std::vector<std::int32_t>(kPrompt, 7));
    static_cast<void>(runtime.step(0, prompt, nullptr, sample, log));
    model::Batch batch{{{.sequence = 1, .past = kPrompt, .rows = 1}}};
    if (forks) {
      batch.cache = {
          {.kind = model::CacheOpKind::fork, .sequence = 1, .from = 0, .positions = kPrompt}};
    } else {
      model::Batch own = prompt.batch();
      own.segments[0].sequence = 1;
      second.advance(own);
      runtime.prepare(second);
      static_cast<void>(runtime.step(1, second, nullptr, sample, log));
    }
    token.advance(batch);
    compute.set_tokens(std::array{std::int32_t{7}});
    log.clear();
    static_cast<void>(runtime.step(2, token, nullptr, sample, log));
    return log;
  };
  const TimeLog alone = step_of(false);
  const TimeLog forked = step_of(true);
  REQUIRE(alone.size() == forked.size());
  const model::TaskGraph token = strategy.lower(plan, planner::decode_batch(kPrompt));
  const double copy_s =
      model::cache_copy_time(costs, 0, model::copied_bytes(token, 0, {.keys = 16, .values = 6}))
          .value();
  CHECK(copy_s > 0.0);
  // Emulated time is a schedule: to the nanosecond, however late this machine is.
  CHECK(std::abs(static_cast<double>(length_ns(forked[0]) - length_ns(alone[0])) -
                 3.0 * copy_s * 1e9) <= 2.0);
  for (std::size_t i = 1; i < alone.size(); ++i)
    CHECK(std::abs(length_ns(forked[i]) - length_ns(alone[i])) <= 1);
}

}  // namespace
}  // namespace tandem::exec::cache_copies_run_test
