#include "cli/fidelity/reference_times.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "model/base/statistics.hpp"

namespace tandem::cli {
namespace {

constexpr int kSamples = 15;
constexpr int kBursts = 5;
constexpr int kTimesABurst = 100;  // some 40 ms

// Seconds until all cores have done a burst each.
double burst_s() {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < cores; ++i) {
      threads.emplace_back([] {
        exec::ReferenceKernel kernel;
        for (int k = 0; k < kTimesABurst; ++k) static_cast<void>(kernel.time_s());
      });
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void ReferenceClock::sample() {
  std::vector<double> cpu_s(kSamples);
  for (double& time : cpu_s) time = kernel_.time_s();
  std::vector<double> wall_s(kBursts);
  for (double& time : wall_s) time = burst_s();
  times_.cpu_s.push_back(model::quantile(std::move(cpu_s), 0.5));
  times_.wall_s.push_back(model::quantile(std::move(wall_s), 0.5));
}

}  // namespace tandem::cli
