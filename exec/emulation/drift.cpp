#include "exec/emulation/drift.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kFloats = std::size_t{1} << 16;  // 256 KiB: in the second-level cache
constexpr int kPasses = 16;
constexpr int kTries = 3;
constexpr std::size_t kMostSamples = 4096;
constexpr std::chrono::milliseconds kIdle{2};

}  // namespace

ReferenceKernel::ReferenceKernel(LaneClock& clock) : clock_(&clock), data_(kFloats) {
  for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<float>(i % 7) - 3.0F;
}

void ReferenceKernel::repeat() {
  std::array<float, 16> sums{};
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < data_.size(); i += sums.size()) {
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += data_[i + j] * data_[i + j];
    }
    data_[static_cast<std::size_t>(pass)] += 1e-3F;  // or one pass could stand for all
  }
  volatile float keep = std::accumulate(sums.begin(), sums.end(), 0.0F);
  static_cast<void>(keep);
}

double ReferenceKernel::time_s() {
  repeat();
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < kTries; ++i) {
    const auto start = clock_->cpu_time();
    repeat();
    least = std::min(least, clock_->cpu_time() - start);
  }
  return std::chrono::duration<double>(least).count();
}

DriftWatch::DriftWatch(Turn* turn, LaneClock& clock)
    : turn_(turn), clock_(&clock), kernel_(clock), before_s_(median_of_repetitions()) {
  during_.reserve(kMostSamples);
}

double DriftWatch::time_s() {
  clock_->sleep_until(clock_->now() + kIdle);
  if (turn_ != nullptr) turn_->take();
  const double time = kernel_.time_s();
  if (turn_ != nullptr) turn_->give_back();
  return time;
}

double DriftWatch::median_of_repetitions() {
  std::vector<double> times(kRepetitions);
  for (double& time : times) time = time_s();
  return model::quantile(std::move(times), 0.5);
}

void DriftWatch::sample() {
  if (during_.size() < kMostSamples) during_.push_back(time_s());
}

double DriftWatch::finish() {
  const double after_s = median_of_repetitions();
  const double during_s = during_.empty() ? before_s_ : model::quantile(during_, 0.5);
  const auto [least, most] = std::minmax({before_s_, during_s, after_s});
  return most / least - 1.0;
}

}  // namespace tandem::exec
