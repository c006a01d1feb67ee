// Choosing a token of a vocabulary of 128,256 (Llama 3): microseconds, by how far the likeliest
// tokens stand out and by what is asked for.

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "exec/compute/sampling.hpp"

namespace {

using tandem::exec::Sampler;

constexpr std::size_t kVocabulary = 128256;

// `deviation`: of the logits; a trained model's is about 3.
std::vector<float> logits(double deviation) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0.0, deviation);
  std::vector<float> values(kVocabulary);
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

void sample(benchmark::State& state, double temperature, double top_p, double deviation) {
  const std::vector<float> values = logits(deviation);
  Sampler sampler({temperature, top_p, 1});
  for ([[maybe_unused]] const auto& round : state) {
    benchmark::DoNotOptimize(sampler.sample(values));
  }
}

BENCHMARK_CAPTURE(sample, greedy, 0.0, 1.0, 3.0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, all, 0.8, 1.0, 3.0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, top_p_95, 0.8, 0.95, 3.0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, top_p_95_flat, 1.0, 0.95, 0.1)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
