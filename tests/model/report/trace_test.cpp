#include "model/report/trace.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::trace_test {
namespace {
Span span(std::int32_t step, TaskKind kind, DeviceIndex device, double start, double end) {
  return {.step = step, .kind = kind, .device = device, .start = start, .end = end};
}
Span transfer(DeviceIndex from, DeviceIndex to, double start, double end, double bytes) {
  return {.kind = TaskKind::transfer,
          .lane = LaneKind::channel,
          .device = from,
          .peer = to,
          .start = start,
          .end = end,
          .bytes = bytes};
}
}  // namespace

TEST_CASE("model/trace: first token from the master's first start to its first sample") {
  const Cluster cluster = test::star(2);
  RunRecorder recorder(cluster, 1, false);
  recorder.record(span(0, TaskKind::norm, 0, 0.5, 0.7));  // not the master
  recorder.record(span(0, TaskKind::norm, 1, 3.0, 4.0));
  recorder.record(span(0, TaskKind::embed, 1, 2.0, 3.0));  // out of order
  recorder.record(span(0, TaskKind::sample, 1, 6.0, 7.0));
  recorder.record(span(1, TaskKind::sample, 1, 8.0, 9.5));
  recorder.record(span(2, TaskKind::sample, 1, 11.0, 11.5));
  const Metrics metrics = recorder.metrics();
  CHECK(metrics.ttft_s == 5.0);
  CHECK(metrics.token_times_s == std::vector<double>{5.0, 7.5, 9.5});
  CHECK(metrics.token_latencies_s() == std::vector<double>{2.5, 2.0});
  CHECK(recorder.trace().spans.empty());
}

TEST_CASE("model/trace: a run without a sample has no first token") {
  const Cluster cluster = test::star(2);
  const RunRecorder recorder(cluster, 0, false);
  CHECK(std::isnan(recorder.metrics().ttft_s));
  CHECK(recorder.metrics().token_latencies_s().empty());
}

TEST_CASE("model/trace: no device stalls while no step is under way") {
  const Cluster cluster = test::star(2);
  RunRecorder recorder(cluster, 0, false);
  // Steps from 0 to 4, from 10 to 13 and from 12 to 20; d1 computes for 1 second in each.
  const auto step = [&](double begin, double end) {
    return ServedStep{.step = {.not_before_s = begin}, .end_s = end};
  };
  recorder.set_served({step(0.0, 4.0), step(10.0, 13.0), step(12.0, 20.0)});
  recorder.record(span(0, TaskKind::add, 0, 0.0, 4.0));
  recorder.record(span(1, TaskKind::add, 0, 10.0, 13.0));
  recorder.record(span(2, TaskKind::add, 0, 13.0, 20.0));
  recorder.record(span(0, TaskKind::add, 1, 1.0, 2.0));
  recorder.record(span(1, TaskKind::add, 1, 11.0, 12.0));
  recorder.record(span(2, TaskKind::add, 1, 15.0, 16.0));
  SUBCASE("from 1 to 16, less 6 without a step and 3 busy") {
    CHECK(recorder.devices()[1].stall_s == 6.0);
    CHECK(recorder.devices()[0].stall_s == 0.0);
  }
  SUBCASE("of a generation, whose steps follow one another, all of it") {
    recorder.set_served({});
    CHECK(recorder.devices()[1].stall_s == 12.0);
    CHECK(recorder.devices()[0].stall_s == 6.0);
  }
}

TEST_CASE("model/trace: busy and stalled time, bytes by device and by link, kinds") {
  const Cluster cluster = test::star(3);
  RunRecorder recorder(cluster, 0, true);
  recorder.record(span(0, TaskKind::add, 1, 1.0, 2.0));
  recorder.record(span(0, TaskKind::add, 1, 5.0, 6.0));
  recorder.record(span(0, TaskKind::norm, 1, 2.5, 3.0));
  recorder.record(transfer(1, 0, 2.0, 4.0, 100.0));
  recorder.record(transfer(1, 2, 3.0, 4.0, 10.0));
  Span load = span(0, TaskKind::load, 2, 0.0, 2.0);
  load.lane = LaneKind::disk;
  load.bytes = 1000.0;
  recorder.record(load);
  Span fetch = span(0, TaskKind::fetch, 2, 2.0, 2.0);  // of embedding rows, on the cpu lane
  fetch.bytes = 64.0;
  recorder.record(fetch);
  const DeviceMetrics d1 = recorder.devices()[1];
  CHECK(d1.name == "d1");
  CHECK(d1.busy_cpu_s == 2.5);
  CHECK(d1.stall_s == 2.5);  // from 1 to 6, of which 2.5 busy
  CHECK(d1.busy_channel_s == 3.0);
  CHECK(d1.bytes_sent == 110.0);
  CHECK(recorder.devices()[0].stall_s == 0.0);
  CHECK(recorder.devices()[2].bytes_loaded == 1064.0);
  CHECK(recorder.devices()[2].busy_disk_s == 2.0);
  const auto& add = recorder.kinds()[1][static_cast<std::size_t>(TaskKind::add)];
  CHECK(add.count == 2);
  CHECK(add.total_s == 2.0);
  const std::vector<LinkMetrics> links = recorder.links();
  CHECK(links[0].bytes == 100.0);
  CHECK(links[1].bytes == 110.0);
  CHECK(links[2].bytes == 10.0);
  CHECK(recorder.trace().spans.size() == 7);
  CHECK(recorder.trace().devices == std::vector<std::string>{"d0", "d1", "d2"});
}

TEST_CASE("model/trace: peak memory is what it is told") {
  const Cluster cluster = test::star(2);
  RunRecorder recorder(cluster, 0, false);
  const MemoryUse use{.weights = 1, .kv_cache = 2, .activations = 3, .buffers = 4, .program = 5};
  recorder.set_peak_memory(1, use);
  CHECK(recorder.devices()[1].peak_memory == use);
  CHECK(recorder.devices()[1].peak_memory.total() == 15.0);
  CHECK_THROWS_AS(recorder.set_peak_memory(2, use), std::logic_error);
  CHECK_THROWS_AS(recorder.record(span(0, TaskKind::add, 2, 0, 1)), std::logic_error);
  CHECK_THROWS_AS(RunRecorder(cluster, 2, false), std::logic_error);
}

TEST_CASE("model/trace: steady over the second half of the tokens, by the worst device") {
  const Cluster cluster = test::star(3);
  RunRecorder recorder(cluster, 0, false);
  // Tokens at 10, 20, 30, 40 s; d1 loads 6 s and d2 3 s of each 10.
  const auto step = [&](std::int32_t i, double stall) {
    const double begin = 10.0 * i;
    for (const DeviceIndex device : {1, 2}) {
      Span load = span(i, TaskKind::load, device, begin, begin + (device == 1 ? 6.0 : 3.0));
      load.lane = LaneKind::disk;
      load.bytes = 1.0;
      recorder.record(load);
    }
    Span norm = span(i, TaskKind::norm, 1, begin + 6.0, begin + 7.0);
    norm.stall = stall;
    recorder.record(norm);
    recorder.record(span(i, TaskKind::sample, 0, begin + 9.0, begin + 10.0));
  };
  step(0, 6.0);
  CHECK(!recorder.steady(0.0));  // one token
  step(1, 5.0);
  step(2, 0.0);
  step(3, 0.0);
  SUBCASE("the start-up's stalls do not count; 10 - 6 s to spare") {
    const auto steady = recorder.steady(0.0);
    REQUIRE(steady);
    CHECK(steady->verdict == "steady");
    CHECK(steady->stall_fraction == 0.0);
    CHECK(steady->slack_s == doctest::Approx(4.0));
  }
  SUBCASE("5 s more in the last of three tokens: 5 of 30 s, (30 - 5 - 18) / 3 s to spare") {
    step(4, 0.0);  // 5 tokens: the last 3 count
    step(5, 5.0);  // 6 tokens: the last 3 count
    const auto steady = recorder.steady(0.1);
    REQUIRE(steady);
    CHECK(steady->verdict == "stalling");
    CHECK(steady->stall_fraction == doctest::Approx(5.0 / 30.0));
    CHECK(steady->slack_s == doctest::Approx(7.0 / 3.0));
    CHECK(recorder.steady(0.2)->verdict == "steady");
  }
  RunRecorder bare(cluster, 0, false);
  bare.record(span(0, TaskKind::sample, 0, 0.0, 1.0));
  bare.record(span(1, TaskKind::sample, 0, 1.0, 2.0));
  CHECK(!bare.steady(0.0));  // nothing is loaded
}

}  // namespace tandem::model::trace_test
