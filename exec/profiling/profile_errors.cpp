#include "exec/profiling/profile_errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "exec/profiling/profile_fit.hpp"
#include "model/base/limits.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {

double relative_spread(std::span<const std::vector<double>> groups) {
  double squares = 0.0;
  double freedom = 0.0;
  for (const std::vector<double>& group : groups) {
    double mean = 0.0;
    for (const double value : group) mean += std::log(value) / static_cast<double>(group.size());
    for (const double value : group) squares += std::pow(std::log(value) - mean, 2);
    if (!group.empty()) freedom += static_cast<double>(group.size() - 1);
  }
  return freedom > 0.0 ? std::sqrt(squares / freedom) : 0.0;
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
  double squares = 0.0;
  for (const double error : held_out) squares += error * error;
  const double count = std::max(1.0, static_cast<double>(held_out.size()));
  const double spread = relative_spread(log.moments(kind, format));
  return {.fit = kept_deviation(std::sqrt(squares / count)),
          .spread = kept_deviation(std::sqrt(std::max(0.0, spread * spread - drift * drift)))};
}

double kept_deviation(double deviation) {
  constexpr double kUnit = 1e4;
  return std::min(model::limits::kMostDeviation, std::round(kUnit * deviation) / kUnit);
}

}  // namespace tandem::exec
