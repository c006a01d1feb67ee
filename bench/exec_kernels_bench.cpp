// How near the executor comes to what this machine can do, within one run: a decode step against a
// plain read of as many bytes, a prompt step against Eigen's large product, and a step with tuned
// kernels against one with the reference kernels. Reference and subject alternate; counters are
// medians over the iterations, ratios the medians of the pairs' ratios. Times are CPU seconds of
// the process over its threads, so that other programs lengthen none (but with two threads that
// rarely run at once, on a busy machine, they include up to 50 us of waiting a task); `wall_ratio`
// compares time on the wall, for quiet machines.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "bench/exec_kernels_reference.hpp"
#include "bench/kernel_benchmarks.hpp"
#include "bench/smoke.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"

namespace tandem::bench {
namespace {

using model::quantile;

// Well beyond any last-level cache.
double layer_bytes() { return 1024.0 * 1024.0 * (smoke() ? 16.0 : 1024.0); }

struct Times {
  double cpu = 0.0;  // seconds a thread
  double wall = 0.0;
};

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// How long body() takes.
template <class Body>
Times timed(int threads, const Body& body) {
  const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double wall = seconds_of(CLOCK_MONOTONIC);
  body();
  return {(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / threads,
          seconds_of(CLOCK_MONOTONIC) - wall};
}

model::Transformer tinyllama() {
  model::Transformer t;
  t.name = "tinyllama-1.1b";
  t.layers = 22;
  t.hidden = 2048;
  t.heads = 32;
  t.kv_heads = 4;
  t.head_dim = 64;
  t.intermediate = 5632;
  t.vocab = 32000;
  t.max_context = 2048;
  return t;
}

// The demo's geometry: small matrices, where what lies between them weighs more.
model::Transformer demo() {
  model::Transformer t = tinyllama();
  t.name = "tandem-demo";
  t.hidden = 768;
  t.heads = 12;
  t.intermediate = 2048;
  return t;
}

exec::ProfileRig rig_of(const model::Transformer& transformer, int threads, double bytes,
                        std::int32_t rows, exec::KernelSet kernels = exec::KernelSet::tuned) {
  return exec::ProfileRig({.transformer = transformer,
                           .fraction = 1.0,
                           .layer_bytes = bytes,
                           .max_rows = rows,
                           .max_positions = std::max(rows, 128),
                           .threads = threads,
                           .kernels = kernels});
}

constexpr std::int32_t kAllLayers = std::numeric_limits<std::int32_t>::max();

// Subject and reference, each as an amount of work and the time it took.
class Pairs {
 public:
  void add(double subject, Times subject_time, double reference, Times reference_time) {
    subject_.push_back(subject / subject_time.cpu);
    reference_.push_back(reference / reference_time.cpu);
    ratio_.push_back(subject_.back() / reference_.back());
    wall_ratio_.push_back(subject / subject_time.wall / (reference / reference_time.wall));
  }
  void report(benchmark::State& state, const char* subject, const char* reference) const {
    state.counters[subject] = quantile(subject_, 0.5);
    state.counters[reference] = quantile(reference_, 0.5);
    state.counters["ratio"] = quantile(ratio_, 0.5);
    state.counters["ratio_p10"] = quantile(ratio_, 0.1);
    state.counters["ratio_p90"] = quantile(ratio_, 0.9);
    state.counters["wall_ratio"] = quantile(wall_ratio_, 0.5);
  }

 private:
  std::vector<double> subject_, reference_, ratio_, wall_ratio_;
};

// One token, or those of several sequences, through a gigabyte of layers, context 64: either way a
// step reads the weights once. Reference: the fastest of 1, 2, 4 and 8
// streams through a gigabyte, chosen anew in every iteration.
void decode(benchmark::State& state, const model::Transformer& transformer) {
  const auto threads = static_cast<int>(state.range(0));
  const auto rows = static_cast<std::int32_t>(state.range(1));
  exec::ProfileRig rig = rig_of(transformer, threads, layer_bytes(), rows);
  exec::AlignedBuffer memory(static_cast<std::size_t>(layer_bytes()));
  std::fill_n(memory.data(), memory.size(), std::byte{1});  // pages of zeros may be one page
  const auto* words = reinterpret_cast<const std::uint64_t*>(memory.data());
  const auto count = static_cast<std::int64_t>(memory.size() / sizeof(std::uint64_t));
  exec::ThreadPool pool(threads);
  const exec::ProfileClock clock(threads);
  exec::ProfileLog log;
  Pairs pairs;
  rig.step(rows, 63, kAllLayers, clock, log);
  while (state.KeepRunning()) {
    Times read{1e9, 1e9};
    for (const Read kernel : plain_reads()) {
      const Times time = timed(threads, [&] {
        pool.parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end, int) {
          benchmark::DoNotOptimize(kernel(words + begin, static_cast<std::size_t>(end - begin)));
        });
      });
      read = {std::min(read.cpu, time.cpu), std::min(read.wall, time.wall)};
    }
    const Times time = timed(threads, [&] { rig.step(rows, 63, kAllLayers, clock, log); });
    state.SetIterationTime(time.cpu);
    pairs.add(rig.weight_bytes() * 1e-9, time, layer_bytes() * 1e-9, read);
  }
  pairs.report(state, "decode_GBps", "read_GBps");
}

// A whole prompt step, its matrix products' operations alone counted, against Eigen on 2048 x 2048
// matrices.
void prompt(benchmark::State& state, const model::Transformer& transformer) {
  const auto threads = static_cast<int>(state.range(0));
  const auto rows = static_cast<std::int32_t>(state.range(1));
  exec::ProfileRig rig = rig_of(transformer, threads, layer_bytes() / 4.0, rows);
  LargeProduct large(2048);
  exec::ThreadPool pool(threads);
  const exec::ProfileClock clock(threads);
  exec::ProfileLog log;
  Pairs pairs;
  // Two operations a weight and row; norms are a thousandth of the weights.
  const double flops = 2.0 * rows * rig.weight_bytes() / sizeof(float);
  rig.step(rows, 0, kAllLayers, clock, log);
  while (state.KeepRunning()) {
    const Times reference = timed(threads, [&] {
      pool.parallel_for(
          threads, 1, [&](std::int64_t, std::int64_t, int thread) { large.run(thread, threads); });
    });
    const Times time = timed(threads, [&] { rig.step(rows, 0, kAllLayers, clock, log); });
    state.SetIterationTime(time.cpu);
    pairs.add(flops * 1e-9, time, large.flops() * 1e-9, reference);
  }
  pairs.report(state, "prompt_GFLOPs", "eigen_GFLOPs");
}

// A step with the tuned kernels beside one with the reference (`--kernels eigen`), on 64 MiB of
// layers.
void reference(benchmark::State& state, const model::Transformer& transformer) {
  const auto threads = static_cast<int>(state.range(0));
  const auto rows = static_cast<std::int32_t>(state.range(1));
  const double bytes = layer_bytes() / 16.0;
  exec::ProfileRig tuned = rig_of(transformer, threads, bytes, rows, exec::KernelSet::tuned);
  exec::ProfileRig eigen = rig_of(transformer, threads, bytes, rows, exec::KernelSet::eigen);
  const exec::ProfileClock clock(threads);
  exec::ProfileLog log;
  Pairs pairs;
  const double gflop = 2e-9 * rows * tuned.weight_bytes() / sizeof(float);
  tuned.step(rows, 0, kAllLayers, clock, log);
  eigen.step(rows, 0, kAllLayers, clock, log);
  while (state.KeepRunning()) {
    const Times plain = timed(threads, [&] { eigen.step(rows, 0, kAllLayers, clock, log); });
    const Times time = timed(threads, [&] { tuned.step(rows, 0, kAllLayers, clock, log); });
    state.SetIterationTime(time.cpu);
    pairs.add(gflop, time, gflop, plain);
  }
  pairs.report(state, "tuned_GFLOPs", "reference_GFLOPs");
}

BENCHMARK_CAPTURE(decode, tinyllama, tinyllama())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {1, 8}})
    ->Iterations(repetitions(9))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, demo, demo())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {1, 8}})
    ->Iterations(repetitions(9))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prompt, tinyllama, tinyllama())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {32, 128, 512}})
    ->Iterations(repetitions(5))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prompt, demo, demo())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {64, 128, 512}})
    ->Iterations(repetitions(5))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(reference, demo, demo())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {1, 8, 32, 128}})
    ->Iterations(repetitions(9))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::run_benchmarks(argc, argv); }
