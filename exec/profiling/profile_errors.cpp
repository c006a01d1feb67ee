#include "exec/profiling/profile_errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "exec/profiling/profile_fit.hpp"
#include "model/base/limits.hpp"
#include "model/base/statistics.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/deviation.hpp"

namespace tandem::exec {

std::optional<double> relative_spread(std::span<const std::vector<double>> groups) {
  constexpr std::size_t kMany = 20;
  constexpr double kNormal90 = 2.0 * 1.645;
  std::vector<double> deviations;
  double squares = 0.0;
  double freedom = 0.0;
  for (const std::vector<double>& group : groups) {
    if (group.size() < 2) continue;
    const auto n = static_cast<double>(group.size());
    double mean = 0.0;
    for (const double value : group) mean += std::log(value) / n;
    for (const double value : group) {
      const double deviation = std::log(value) - mean;
      squares += deviation * deviation;
      deviations.push_back(deviation * std::sqrt(n / (n - 1.0)));
    }
    freedom += n - 1.0;
  }
  if (deviations.empty()) return std::nullopt;
  if (deviations.size() < kMany) return std::sqrt(squares / freedom);
  return (model::quantile(deviations, 0.95) - model::quantile(deviations, 0.05)) / kNormal90;
}

void add_errors(const ProfileLog& log, const ProfileLog& measured, HeldOut& held_out) {
  for (std::size_t k = 0; k < held_out.size(); ++k) {
    const auto kind = static_cast<model::TaskKind>(k);
    const std::vector<ProfileSample> others = log.samples(kind);
    if (others.empty()) continue;
    const model::KindRate rate = fit_rate(others);
    for (const ProfileSample& sample : measured.samples(kind)) {
      held_out[k].push_back(std::log(
          model::task_seconds(rate, sample.streamed_bytes, sample.intensity) / sample.seconds));
    }
  }
}

model::RateError rate_error(const ProfileLog& log, model::TaskKind kind,
                            std::optional<model::WeightFormat> format,
                            std::span<const double> held_out, double drift) {
  model::RateError error{.fit = model::kAssumedKindDeviation,
                         .spread = model::kAssumedKindDeviation};
  if (!held_out.empty()) {
    double squares = 0.0;
    for (const double one : held_out) squares += one * one;
    error.fit = kept_deviation(std::sqrt(squares / static_cast<double>(held_out.size())));
  }
  if (const std::optional<double> spread = relative_spread(log.moments(kind, format)))
    error.spread = kept_deviation(std::sqrt(std::max(0.0, *spread * *spread - drift * drift)));
  return error;
}

double kept_deviation(double deviation) {
  constexpr double kUnit = 1e4;
  return std::min(model::limits::kMostDeviation, std::round(kUnit * deviation) / kUnit);
}

}  // namespace tandem::exec
