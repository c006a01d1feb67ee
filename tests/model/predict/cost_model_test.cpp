#include "model/predict/cost_model.hpp"

#include <doctest/doctest.h>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::cost_model_test {
namespace {

DeviceProfile profile_with(std::vector<RatePoint> points, double overhead_s = 0.0) {
  DeviceProfile profile = nominal_profile(test::device("d"));
  profile.rate[static_cast<std::size_t>(TaskKind::ffn_up)] = {overhead_s, std::move(points)};
  return profile;
}

double time_at(const DeviceProfile& profile, double intensity, double bytes = 1.0) {
  const CostModel costs(test::small_llama(), {profile});
  return costs.compute_time(0, TaskKind::ffn_up, {.streamed_bytes = bytes, .intensity = intensity})
      .value();
}

}  // namespace

TEST_CASE("model/cost_model: interpolates between points, constant before, proportional beyond") {
  const DeviceProfile profile = profile_with({{2, 1.0}, {4, 3.0}, {8, 4.0}}, 0.5);
  CHECK(time_at(profile, 1) == 1.5);
  CHECK(time_at(profile, 2) == 1.5);
  CHECK(time_at(profile, 3) == 2.5);
  CHECK(time_at(profile, 4) == 3.5);
  CHECK(time_at(profile, 6) == 4.0);
  CHECK(time_at(profile, 8) == 4.5);
  CHECK(time_at(profile, 16) == 8.5);
  CHECK(time_at(profile, 3, 10) == 20.5);
  CHECK(time_at(profile, 3, 0) == 0.5);
}

TEST_CASE("model/cost_model: nominal times are the roofline's") {
  const Transformer t = test::named_model("llama-2-7b");
  const Device device = test::device("d");  // 50 Gf, 20 GB/s: the knee is at 5 rows
  const CostModel costs(t, {nominal_profile(device)});
  for (std::int32_t rows = 1; rows <= 64; ++rows) {
    CAPTURE(rows);
    const Batch batch{{{.past = 10, .rows = rows}}};
    for (const TaskKind kind : {TaskKind::project_qkv, TaskKind::project_out, TaskKind::attend}) {
      const Task task{.kind = kind, .rows = {0, rows}, .columns = {3, 17}};
      const Work w = work_of(t, batch, task);
      const double expected = std::max(w.streamed_bytes / 20e9, w.flops / 50e9);
      CHECK(costs.compute_time(batch, task).value() == doctest::Approx(expected).epsilon(1e-12));
    }
    const Task add{.kind = TaskKind::add, .rows = {0, rows}, .columns = {0, 4096}};
    CHECK(costs.compute_time(batch, add).value() ==
          doctest::Approx(12.0 * rows * 4096 / 20e9).epsilon(1e-12));
  }
  CHECK(costs.message_overhead(0, Bytes{1e6}, false).value() == 0.0);
}

TEST_CASE("model/cost_model: a device that computes slower than it reads is bound by flops") {
  Device device = test::device("d");
  device.flop_rate = FlopsPerSecond{1e9};  // the knee is below one row
  const Transformer t = test::small_llama();
  const CostModel costs(t, {nominal_profile(device)});
  const Batch batch{{{}}};
  const Task norm{.kind = TaskKind::norm, .rows = {0, 1}};
  const Work w = work_of(t, batch, norm);
  CHECK(costs.compute_time(batch, norm).value() ==
        doctest::Approx(0.5 * w.streamed_bytes / 1e9).epsilon(1e-12));
}

TEST_CASE("model/cost_model: messages cost the sender's overhead and bytes") {
  DeviceProfile profile = nominal_profile(test::device("d"));
  profile.rate[static_cast<std::size_t>(TaskKind::transfer)] = {20e-6, {{1, 1e-9}}};
  const CostModel costs(test::small_llama(), {profile});
  CHECK(costs.message_overhead(0, Bytes{1000}, false).value() == doctest::Approx(21e-6));
  CHECK(costs.message_overhead(0, Bytes{1000}, true).value() == doctest::Approx(21e-6));
}

TEST_CASE("model/cost_model: copies cost each end, small messages sending and receiving too") {
  DeviceProfile profile = nominal_profile(test::device("d"));  // 20 GB/s
  profile.rate[static_cast<std::size_t>(TaskKind::deliver)] = {1e-6, {{1, 1e-9}}};
  const CostModel copies(test::small_llama(), {profile});
  const auto time = [](const CostModel& costs, TaskKind kind, bool computing_thread) {
    return costs.copy_time(0, kind, plain_copy(Bytes{1000}), computing_thread).value();
  };
  // Read and written once: 2000 bytes.
  CHECK(time(copies, TaskKind::capture, false) == doctest::Approx(2000 / 20e9));
  CHECK(time(copies, TaskKind::deliver, false) == doctest::Approx(1e-6 + 2e-6));
  CHECK(time(copies, TaskKind::deliver, true) == doctest::Approx(1e-6 + 2e-6));
  profile.inlined = InlineRates{
      .send = {5e-6, {{1, 1e-9}}}, .transfer = {9e-6, {{1, 2e-9}}}, .receive = {7e-6, {{1, 3e-9}}}};
  const CostModel costs(test::small_llama(), {profile});
  CHECK(time(costs, TaskKind::capture, true) == doctest::Approx(2000 / 20e9 + 6e-6));
  CHECK(time(costs, TaskKind::deliver, true) == doctest::Approx(3e-6 + 10e-6));
  CHECK(time(costs, TaskKind::deliver, false) == doctest::Approx(3e-6));
  CHECK(costs.message_overhead(0, Bytes{1000}, true).value() == doctest::Approx(11e-6));
  CHECK(costs.message_overhead(0, Bytes{1000}, false).value() == 0.0);
  CHECK_THROWS_AS((void)costs.copy_time(0, TaskKind::add, plain_copy(Bytes{1}), false),
                  std::logic_error);
}

TEST_CASE("model/cost_model: what it has no rate for is a caller's error") {
  const CostModel costs(test::small_llama(), {nominal_profile(test::device("d"))});
  const Batch batch{{{}}};
  Task task{.kind = TaskKind::transfer, .lane = LaneKind::channel, .peer = 1, .rows = {0, 1}};
  CHECK_THROWS_AS((void)costs.compute_time(batch, task), std::logic_error);
  task = {.kind = TaskKind::norm, .device = 1, .rows = {0, 1}};
  CHECK_THROWS_AS((void)costs.compute_time(batch, task), std::logic_error);
  CHECK_THROWS_AS((void)costs.message_overhead(1, Bytes{1}, false), std::logic_error);
  CHECK(costs.compute_time(batch, {.kind = TaskKind::release}).value() == 0.0);
  CHECK_THROWS_AS(CostModel(test::small_llama(), {DeviceProfile{}}), std::logic_error);
  CHECK_THROWS_AS(CostModel(test::small_llama(), {profile_with({{2, 1}, {2, 1}})}),
                  std::logic_error);
  CHECK_THROWS_AS(CostModel(test::small_llama(), {profile_with({{0, 1}})}), std::logic_error);
}

}  // namespace tandem::model::cost_model_test
