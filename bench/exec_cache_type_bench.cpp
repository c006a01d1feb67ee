// Attention over a cache in each type against one in F32, and, of a new token, each against a plain
// read of the same bytes. All take turns; ratios are medians of the turns'. Times are CPU seconds
// of the only thread; a benchmark's own is that of F16.
//   token   one row over `length` positions of many heads, more than caches hold
//   prompt  `length` rows, 32 at a time as the executor has them, of one key/value head

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/exec_kernels_reference.hpp"
#include "bench/kernel_benchmarks.hpp"
#include "bench/smoke.hpp"
#include "exec/kernels/attention.hpp"
#include "exec/kernels/cached_row.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/graph/memory.hpp"

namespace tandem::bench {
namespace {

using model::CacheFormat;
using model::quantile;

constexpr std::int64_t kNumbers = std::int64_t{96} * 1024 * 1024;  // of a token's caches
constexpr std::int64_t kTile = 32;

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Body>
double seconds_of(const Body& body) {
  const double start = seconds();
  body();
  return seconds() - start;
}

struct Shape {
  std::int64_t head_dim;
  std::int64_t group;
  std::int64_t length;
};

// Caches of as many heads as have `numbers`, at least one, in blocks that lie in order.
class Heads {
 public:
  Heads(CacheFormat format, const Shape& shape, std::int64_t numbers)
      : shape_(shape),
        format_(format),
        head_bytes_(exec::block_bytes(format, shape.length, shape.head_dim)),
        count_(
            std::max<std::int64_t>(1, numbers / exec::block_numbers(shape.length, shape.head_dim))),
        memory_(static_cast<std::size_t>(count_ * head_bytes_)),
        order_(static_cast<std::size_t>(shape.length / model::kCacheBlock)) {
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<float> row(static_cast<std::size_t>(shape.head_dim));
    float value = 0.1F;
    for (std::int64_t p = 0; p < shape.length; ++p) {
      for (float& x : row) x = value = value > 1.0F ? value - 1.9F : value + 0.37F;
      require(store_key(row.data(), p, head(0), shape.head_dim) &&
                  store_value(row.data(), p, head(0), shape.head_dim),
              "numbers of order one");
    }
    for (std::int64_t h = 1; h < count_; ++h)
      std::copy_n(memory_.data(), head_bytes_, memory_.data() + h * head_bytes_);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double bytes() const { return static_cast<double>(memory_.size()); }
  [[nodiscard]] exec::CachedHead head(std::int64_t index) const {
    return {const_cast<std::byte*>(memory_.data()) + index * head_bytes_, order_.data(),
            model::kCacheBlock, format_};
  }
  // `rows` after `past`, of every head.
  void attend(const std::vector<float>& queries, std::vector<float>& output, std::int64_t rows,
              std::int64_t past) const {
    const std::int64_t width = shape_.group * shape_.head_dim;
    for (std::int64_t h = 0; h < count_; ++h) {
      exec::attend({.queries = queries.data(),
                    .query_stride = width,
                    .cache = head(h),
                    .output = output.data(),
                    .output_stride = width,
                    .rows = rows,
                    .group = shape_.group,
                    .head_dim = shape_.head_dim,
                    .first_key = 0,
                    .end_key = shape_.length,
                    .past = past});
      benchmark::DoNotOptimize(output.data());
    }
  }
  void prompt(const std::vector<float>& queries, std::vector<float>& output) const {
    for (std::int64_t past = 0; past < shape_.length; past += kTile)
      attend(queries, output, kTile, past);
  }
  // Seconds of the fastest plain read.
  [[nodiscard]] double read() const {
    const auto* words = reinterpret_cast<const std::uint64_t*>(memory_.data());
    double best = std::numeric_limits<double>::infinity();
    for (const Read kernel : plain_reads()) {
      best = std::min(
          best, seconds_of([&] {
            benchmark::DoNotOptimize(kernel(words, memory_.size() / sizeof(std::uint64_t)));
          }));
    }
    return best;
  }

 private:
  Shape shape_;
  CacheFormat format_;
  std::int64_t head_bytes_;
  std::int64_t count_;
  exec::AlignedBuffer memory_;
  std::vector<std::int32_t> order_;
};

Shape shape_of(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2)};
}

// Caches of the same numbers in each type, and what turns measured of them.
class Types {
 public:
  Types(const Shape& shape, std::int64_t numbers) {
    for (const CacheFormat format : model::kCacheFormats)
      all_.push_back({.format = format, .heads = Heads(format, shape, numbers)});
  }
  // Measures each once: body(heads). Returns the seconds of F16.
  template <class Body>
  double turn(bool reads, const Body& body) {
    double whole_s = 0.0;
    double half_s = 0.0;
    for (Type& type : all_) {
      const double s = seconds_of([&] { body(type.heads); });
      if (type.format == CacheFormat::f32) whole_s = s;
      if (type.format == CacheFormat::f16) half_s = s;
      type.seconds.push_back(s);
      type.faster.push_back(whole_s / s);
      if (reads) type.of_read.push_back(type.heads.read() / s);
    }
    return half_s;
  }
  // `flops` of one turn; 0: bytes a second are what counts.
  void report(benchmark::State& state, double flops) const {
    for (const Type& type : all_) {
      const std::string name(to_string(type.format));
      const double work = flops > 0.0 ? flops : type.heads.bytes();
      state.counters[name + (flops > 0.0 ? "_GFLOPs" : "_GBps")] =
          1e-9 * work / quantile(type.seconds, 0.5);
      if (!type.of_read.empty()) state.counters[name + "_of_read"] = quantile(type.of_read, 0.5);
      if (type.format != CacheFormat::f32)
        state.counters["f32_over_" + name] = quantile(type.faster, 0.5);
    }
  }

 private:
  struct Type {
    CacheFormat format;
    Heads heads;
    std::vector<double> seconds{};
    std::vector<double> faster{};   // than F32 of the same turn
    std::vector<double> of_read{};  // the rate of a plain read
  };
  std::vector<Type> all_;
};

void token(benchmark::State& state) {
  const Shape shape = shape_of(state);
  Types types(shape, kNumbers);
  const std::vector<float> queries(static_cast<std::size_t>(shape.group * shape.head_dim), 0.01F);
  std::vector<float> output(queries.size());
  while (state.KeepRunning()) {
    state.SetIterationTime(types.turn(
        true, [&](const Heads& heads) { heads.attend(queries, output, 1, shape.length - 1); }));
  }
  types.report(state, 0.0);
}

void prompt(benchmark::State& state) {
  const Shape shape = shape_of(state);
  Types types(shape, 0);
  const std::vector<float> queries(static_cast<std::size_t>(kTile * shape.group * shape.head_dim),
                                   0.01F);
  std::vector<float> output(queries.size());
  const double keys =
      0.5 * static_cast<double>(shape.length) * static_cast<double>(shape.length + 1);
  const double flops = 4.0 * keys * static_cast<double>(shape.group * shape.head_dim);
  while (state.KeepRunning()) {
    state.SetIterationTime(
        types.turn(false, [&](const Heads& heads) { heads.prompt(queries, output); }));
  }
  types.report(state, flops);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"head_dim", "group", "length"});
  for (const auto& [head_dim, group] :
       {std::pair{64, 8}, {64, 4}, {64, 1}, {128, 8}, {128, 4}, {128, 1}}) {
    for (const int length : {4096, 16384}) bench->Args({head_dim, group, length});
  }
}

void prompts(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"head_dim", "group", "length"});
  for (const auto& [head_dim, group] : {std::pair{64, 8}, {64, 1}, {128, 8}, {128, 4}, {128, 1}})
    bench->Args({head_dim, group, 4096});
}

BENCHMARK(token)
    ->Apply(shapes)
    ->Iterations(repetitions(9))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(prompt)
    ->Apply(prompts)
    ->Iterations(repetitions(5))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::run_benchmarks(argc, argv); }
