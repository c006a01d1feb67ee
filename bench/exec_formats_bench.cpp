// Products of weights in formats, within one run: of one token against a plain read (of as many
// bytes from memory; from the second-level cache as many weights as floats are read), of many
// tokens against f32. Reference and subject alternate; the ratios are medians of the pairs'.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/exec_kernels_reference.hpp"
#include "bench/kernel_benchmarks.hpp"
#include "bench/smoke.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/kernels/weight_product.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "model/base/statistics.hpp"

namespace tandem::bench {
namespace {

using exec::WeightProduct;
using model::WeightFormat;

constexpr std::int64_t kDepth = 2048;
constexpr std::int64_t kMatrix = 2048;  // outputs of one product
constexpr std::int64_t kGranule = 48;   // of the executor's

template <class Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rows of weights, the same some hundred over and over.
class Weights {
 public:
  Weights(WeightFormat format, std::int64_t bytes)
      : format_(format),
        row_(model::row_bytes(format, kDepth)),
        rows_(bytes / row_),
        memory_(static_cast<std::size_t>(rows_ * row_)) {
    std::vector<float> values(static_cast<std::size_t>(kDepth));
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    const std::int64_t several = std::min<std::int64_t>(rows_, 64);
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::byte* const to = memory_.data() + row * row_;
      if (row >= several) {
        std::copy_n(memory_.data() + row % several * row_, row_, to);
        continue;
      }
      std::ranges::generate(values, [&] { return normal(random); });
      exec::encode(format, values, {to, static_cast<std::size_t>(row_)});
    }
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t bytes() const { return rows_ * row_; }
  // All rows, `kMatrix` a product.
  void multiply(exec::ThreadPool& pool, const std::vector<float>& x, std::int64_t tokens,
                std::vector<float>& y) const {
    for (std::int64_t first = 0; first < rows_; first += kMatrix) {
      const WeightProduct p{
          x.data(), kDepth, memory_.data() + first * row_,    row_,  format_, y.data(),
          kMatrix,  tokens, std::min(kMatrix, rows_ - first), kDepth};
      pool.parallel_for(p.outputs, kGranule, [&p](std::int64_t begin, std::int64_t end, int) {
        product(p.slice(begin, end));
      });
    }
  }

 private:
  WeightFormat format_;
  std::int64_t row_;
  std::int64_t rows_;
  exec::AlignedBuffer memory_;
};

std::vector<float> some_floats(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::ranges::generate(x, [&] { return normal(random); });
  return x;
}

// The fastest plain read of `memory`, seconds.
double read(exec::ThreadPool& pool, const exec::AlignedBuffer& memory) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(memory.data());
  const auto count = static_cast<std::int64_t>(memory.size() / sizeof(std::uint64_t));
  double best = 1e9;
  for (const Read kernel : plain_reads()) {
    best = std::min(
        best, seconds_of([&] {
          pool.parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end, int) {
            benchmark::DoNotOptimize(kernel(words + begin, static_cast<std::size_t>(end - begin)));
          });
        }));
  }
  return best;
}

void report(benchmark::State& state, const char* subject, const std::vector<double>& subjects,
            const char* reference, const std::vector<double>& references) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < subjects.size(); ++i) ratios.push_back(subjects[i] / references[i]);
  state.counters[subject] = model::quantile(subjects, 0.5);
  state.counters[reference] = model::quantile(references, 0.5);
  state.counters["ratio"] = model::quantile(ratios, 0.5);
}

// One token's products over more bytes than any cache has.
void memory(benchmark::State& state, WeightFormat format) {
  const std::int64_t bytes = std::int64_t{smoke() ? 8 : 1920} * 1024 * 1024;
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t tokens = state.range(1);
  const Weights weights(format, bytes);
  exec::AlignedBuffer plain(static_cast<std::size_t>(bytes));
  std::fill_n(plain.data(), plain.size(), std::byte{1});  // pages of zeros may be one page
  exec::ThreadPool pool(threads);
  const std::vector<float> x = some_floats(tokens * kDepth);
  std::vector<float> y(static_cast<std::size_t>(tokens * kMatrix));
  std::vector<double> products;
  std::vector<double> reads;
  for ([[maybe_unused]] auto _ : state) {
    reads.push_back(static_cast<double>(bytes) * 1e-9 / read(pool, plain));
    products.push_back(static_cast<double>(weights.bytes()) * 1e-9 /
                       seconds_of([&] { weights.multiply(pool, x, tokens, y); }));
  }
  report(state, "GBps", products, "read_GBps", reads);
}

// The same over what a second-level cache holds, weights against floats.
void cached(benchmark::State& state, WeightFormat format) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 20;
  const int times = repetitions(200);
  const Weights weights(format, kBytes);
  exec::AlignedBuffer plain(static_cast<std::size_t>(kBytes));
  std::fill_n(plain.data(), plain.size(), std::byte{1});
  exec::ThreadPool pool(1);
  const std::vector<float> x = some_floats(kDepth);
  std::vector<float> y(static_cast<std::size_t>(weights.rows()));
  std::vector<double> products;
  std::vector<double> reads;
  for ([[maybe_unused]] auto _ : state) {
    double best = 1e9;
    for (int i = 0; i < times; ++i) best = std::min(best, read(pool, plain));
    reads.push_back(static_cast<double>(kBytes) / sizeof(float) * 1e-9 / best);
    products.push_back(static_cast<double>(weights.rows() * kDepth) * times * 1e-9 /
                       seconds_of([&] {
                         for (int i = 0; i < times; ++i) weights.multiply(pool, x, 1, y);
                       }));
  }
  report(state, "Gweights", products, "read_Gfloats", reads);
}

// Prompts: products of 64 MiB of f32's weights, in operations a second.
void prompt(benchmark::State& state, WeightFormat format) {
  constexpr std::int64_t kRows = 8192;
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t tokens = state.range(1);
  const Weights weights(format, kRows * model::row_bytes(format, kDepth));
  const Weights floats(WeightFormat::f32, kRows * model::row_bytes(WeightFormat::f32, kDepth));
  exec::ThreadPool pool(threads);
  const std::vector<float> x = some_floats(tokens * kDepth);
  std::vector<float> y(static_cast<std::size_t>(tokens * kMatrix));
  const double gflop = 2e-9 * static_cast<double>(kRows * kDepth * tokens);
  std::vector<double> products;
  std::vector<double> of_f32;
  for ([[maybe_unused]] auto _ : state) {
    products.push_back(gflop / seconds_of([&] { weights.multiply(pool, x, tokens, y); }));
    of_f32.push_back(gflop / seconds_of([&] { floats.multiply(pool, x, tokens, y); }));
  }
  report(state, "GFLOPs", products, "f32_GFLOPs", of_f32);
}

void add_all() {
  for (const WeightFormat format : model::kWeightFormats) {
    const std::string name(to_string(format));
    const auto add = [&](std::string kind, auto body) {
      kind += "/";
      kind += name;
      return benchmark::RegisterBenchmark(kind.c_str(),
                                          [=](benchmark::State& state) { body(state, format); })
          ->Unit(benchmark::kMillisecond);
    };
    add("memory", memory)
        ->ArgNames({"threads", "tokens"})
        ->ArgsProduct({{1, 2}, {1, 4}})
        ->Iterations(repetitions(5));
    add("cached", cached)->Iterations(repetitions(15));
    if (format == WeightFormat::f32) continue;
    add("prompt", prompt)
        ->ArgNames({"threads", "tokens"})
        ->ArgsProduct({{1, 2}, {32, 128, 512}})
        ->Iterations(repetitions(5));
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::add_all();
  return tandem::bench::run_benchmarks(argc, argv);
}
