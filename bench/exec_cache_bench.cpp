// What attention loses by reading keys and values through a table of blocks: the same queries over
// the same memory, once contiguous (one block has all positions), once in blocks that follow one
// another, as those of a sequence that is alone, once in blocks of eight sequences that grew side
// by side. The three alternate; a ratio is the median of contiguous time over a table's, 1: no
// loss. Times are CPU seconds of the only thread.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "bench/smoke.hpp"
#include "exec/kernels/attention.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "model/base/statistics.hpp"
#include "model/graph/memory.hpp"
#include "model/report/trace.hpp"

namespace tandem::bench {
namespace {

using model::quantile;

constexpr std::int64_t kSequences = 8;  // that grew side by side
double decode_bytes() { return 1024.0 * 1024.0 * (smoke() ? 16.0 : 256.0); }
constexpr double kPromptFlops = 1e9;

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Caches of `count` heads of one length, all in one memory.
struct Heads {
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
  exec::AlignedBuffer memory;
  std::vector<std::int32_t> alone;                     // blocks in order
  std::vector<std::vector<std::int32_t>> interleaved;  // of each of kSequences

  Heads(std::int64_t heads, std::int64_t positions, std::int64_t d, std::int64_t block)
      : count((heads + kSequences - 1) / kSequences * kSequences),
        length(positions),
        head_dim(d),
        memory(static_cast<std::size_t>(count * exec::block_numbers(positions, d)) * sizeof(float)),
        alone(static_cast<std::size_t>(positions / block)),
        interleaved(kSequences) {
    float value = 0.1F;
    for (float& x : memory.floats()) x = value = value > 1.0F ? value - 1.9F : value + 0.37F;
    std::iota(alone.begin(), alone.end(), 0);
    for (std::size_t s = 0; s < interleaved.size(); ++s) {
      for (const std::int32_t i : alone)
        interleaved[s].push_back(i * static_cast<std::int32_t>(kSequences) +
                                 static_cast<std::int32_t>(s));
    }
  }

  [[nodiscard]] std::byte* at(std::int64_t head) {
    return reinterpret_cast<std::byte*>(memory.floats().data() +
                                        head * exec::block_numbers(length, head_dim));
  }
};

void attention(benchmark::State& state) {
  const std::int64_t head_dim = state.range(0);
  const std::int64_t group = state.range(1);
  const std::int64_t rows = state.range(2);
  const std::int64_t length = state.range(3);
  const std::int64_t block = state.range(4);
  const double bytes = 8.0 * static_cast<double>(length * head_dim);
  const double flops = 4.0 * static_cast<double>(rows * group * length * head_dim);
  const double heads = rows == 1 ? decode_bytes() / bytes : kPromptFlops / flops;
  Heads caches(static_cast<std::int64_t>(std::max(heads, 1.0)), length, head_dim, block);
  std::vector<float> queries(static_cast<std::size_t>(rows * group * head_dim), 0.01F);
  std::vector<float> output(queries.size());
  const auto run = [&](const auto& cache_of) {
    const double start = seconds();
    for (std::int64_t head = 0; head < caches.count; ++head) {
      exec::attend({.queries = queries.data(),
                    .query_stride = group * head_dim,
                    .cache = cache_of(head),
                    .output = output.data(),
                    .output_stride = group * head_dim,
                    .rows = rows,
                    .group = group,
                    .head_dim = head_dim,
                    .first_key = 0,
                    .end_key = length,
                    .past = length - rows});
      benchmark::DoNotOptimize(output.data());
    }
    return seconds() - start;
  };
  const std::int32_t only = 0;
  const auto contiguous = [&](std::int64_t head) {
    return exec::CachedHead{caches.at(head), &only, length};
  };
  const auto in_order = [&](std::int64_t head) {
    return exec::CachedHead{caches.at(head), caches.alone.data(), block};
  };
  const auto interleaved = [&](std::int64_t head) {
    const std::int64_t s = head % kSequences;
    return exec::CachedHead{caches.at(head - s),
                            caches.interleaved[static_cast<std::size_t>(s)].data(), block};
  };
  std::vector<double> alone;
  std::vector<double> beside;
  std::vector<double> plain;
  run(contiguous);
  while (state.KeepRunning()) {
    // Each between two of the reference, so that a slow drift cancels.
    const double before = run(contiguous);
    const double one = run(in_order);
    const double between = run(contiguous);
    const double eight = run(interleaved);
    const double after = run(contiguous);
    plain.push_back(between);
    alone.push_back((before + between) / 2.0 / one);
    beside.push_back((between + after) / 2.0 / eight);
    state.SetIterationTime(one);
  }
  const double scale = 1e-9 * static_cast<double>(caches.count) / quantile(plain, 0.5);
  state.counters["contiguous_GBps"] = bytes * scale;
  state.counters["contiguous_GFLOPs"] = flops * scale;
  state.counters["ratio"] = quantile(alone, 0.5);
  state.counters["ratio_p10"] = quantile(alone, 0.1);
  state.counters["interleaved"] = quantile(beside, 0.5);
  state.counters["interleaved_p10"] = quantile(beside, 0.1);
}

void lengths(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"head_dim", "group", "rows", "length", "block"});
  for (const auto& [head_dim, group] : {std::pair{64, 8}, {128, 1}}) {
    for (const int rows : {1, 128}) {
      for (const int length : {128, 512, 1024, 2048, 4096})
        bench->Args({head_dim, group, rows, length, model::kCacheBlock});
    }
  }
}

BENCHMARK(attention)
    ->Apply(lengths)
    ->Iterations(repetitions(15))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::bench

BENCHMARK_MAIN();
