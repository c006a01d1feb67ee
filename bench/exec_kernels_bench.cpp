// How near the executor comes to what this machine can do, within one run: a decode step against a
// plain read of as many bytes, a prompt step against Eigen's large product. Reference and subject
// alternate; counters are medians over the iterations, `ratio` the median of the pairs' ratios.
// Times are CPU seconds of the process over its threads, so that other programs lengthen none.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/exec_kernels_reference.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/profile_rig.hpp"
#include "exec/weights/aligned_buffer.hpp"
#include "model/trace.hpp"

namespace tandem::bench {
namespace {

using model::quantile;

constexpr double kBytes = 1024.0 * 1024.0 * 1024.0;  // well beyond any last-level cache

// CPU seconds a thread that body() takes.
template <class Body>
double timed(int threads, const Body& body) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  body();
  return (now() - start) / threads;
}

// Reads memory in S streams at once and nothing else. Integers, so that the compiler may vectorise
// the sums.
template <int S>
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), noinline)) std::uint64_t
read_streams(const std::uint64_t* memory, std::size_t count) {
  std::uint64_t sums[S] = {};
  const std::size_t stream = count / S;
  for (std::size_t i = 0; i < stream; ++i) {
    for (int s = 0; s < S; ++s) sums[s] += memory[static_cast<std::size_t>(s) * stream + i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

using Read = std::uint64_t (*)(const std::uint64_t*, std::size_t);
constexpr Read kReads[] = {read_streams<1>, read_streams<2>, read_streams<4>, read_streams<8>};

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

exec::ProfileRig rig_of(const model::Transformer& shape, int threads, double bytes,
                        std::int32_t rows) {
  return exec::ProfileRig({.shape = shape,
                           .fraction = 1.0,
                           .layer_bytes = bytes,
                           .max_rows = rows,
                           .max_positions = std::max(rows, 128),
                           .threads = threads});
}

// Rates of subject and reference in `unit`s a second.
class Pairs {
 public:
  void add(double subject, double reference) {
    subject_.push_back(subject);
    reference_.push_back(reference);
    ratio_.push_back(subject / reference);
  }
  void report(benchmark::State& state, const char* subject, const char* reference) const {
    state.counters[subject] = quantile(subject_, 0.5);
    state.counters[reference] = quantile(reference_, 0.5);
    state.counters["ratio"] = quantile(ratio_, 0.5);
    state.counters["ratio_p10"] = quantile(ratio_, 0.1);
    state.counters["ratio_p90"] = quantile(ratio_, 0.9);
  }

 private:
  std::vector<double> subject_, reference_, ratio_;
};

// One token through a gigabyte of layers, context 64. Reference: the fastest of 1, 2, 4 and 8
// streams through a gigabyte, chosen anew in every iteration.
void decode(benchmark::State& state, const model::Transformer& shape) {
  const auto threads = static_cast<int>(state.range(0));
  exec::ProfileRig rig = rig_of(shape, threads, kBytes, 1);
  exec::AlignedBuffer memory(static_cast<std::size_t>(kBytes));
  std::fill_n(memory.data(), memory.size(), std::byte{1});  // pages of zeros may be one page
  const auto* words = reinterpret_cast<const std::uint64_t*>(memory.data());
  const auto count = static_cast<std::int64_t>(memory.size() / sizeof(std::uint64_t));
  exec::ThreadPool pool(threads);
  const exec::ProfileClock clock(threads);
  exec::ProfileLog log;
  Pairs pairs;
  rig.step(1, 63, clock, log);
  for (auto _ : state) {
    double read = 0.0;
    for (const Read kernel : kReads) {
      const double seconds = timed(threads, [&] {
        pool.parts(count, 4096, [&](std::int64_t begin, std::int64_t end, int) {
          benchmark::DoNotOptimize(kernel(words + begin, static_cast<std::size_t>(end - begin)));
        });
      });
      read = std::max(read, kBytes / seconds);
    }
    const double seconds = timed(threads, [&] { rig.step(1, 63, clock, log); });
    state.SetIterationTime(seconds);
    pairs.add(rig.weight_bytes() / seconds * 1e-9, read * 1e-9);
  }
  pairs.report(state, "decode_GBps", "read_GBps");
}

// A whole prompt step, its matrix products' operations alone counted, against Eigen on 2048 x 2048
// matrices.
void prompt(benchmark::State& state, const model::Transformer& shape) {
  const auto threads = static_cast<int>(state.range(0));
  const auto rows = static_cast<std::int32_t>(state.range(1));
  exec::ProfileRig rig = rig_of(shape, threads, kBytes / 4.0, rows);
  LargeProduct large(2048);
  exec::ThreadPool pool(threads);
  const exec::ProfileClock clock(threads);
  exec::ProfileLog log;
  Pairs pairs;
  // Two operations a weight and row; norms are a thousandth of the weights.
  const double flops = 2.0 * rows * rig.weight_bytes() / sizeof(float);
  rig.step(rows, 0, clock, log);
  for (auto _ : state) {
    const double reference = timed(threads, [&] {
      pool.parts(threads, 1,
                 [&](std::int64_t, std::int64_t, int thread) { large.run(thread, threads); });
    });
    const double seconds = timed(threads, [&] { rig.step(rows, 0, clock, log); });
    state.SetIterationTime(seconds);
    pairs.add(flops / seconds * 1e-9, large.flops() / reference * 1e-9);
  }
  pairs.report(state, "prompt_GFLOPs", "eigen_GFLOPs");
}

BENCHMARK_CAPTURE(decode, tinyllama, tinyllama())
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, demo, demo())
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prompt, tinyllama, tinyllama())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {128, 512}})
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prompt, demo, demo())
    ->ArgNames({"threads", "rows"})
    ->ArgsProduct({{1, 2}, {64, 128, 512}})
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::bench

BENCHMARK_MAIN();
