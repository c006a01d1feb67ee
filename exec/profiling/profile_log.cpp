#include "exec/profiling/profile_log.hpp"

#include "model/base/statistics.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::exec {

using model::TaskKind;

void ProfileLog::add(TaskKind kind, const model::Work& work, double seconds) {
  std::vector<Moment>& moments = times_[{kind, work.intensity, work.streamed_bytes, work.format}];
  if (moments.empty() || moments.back().number != moment_) moments.push_back({.number = moment_});
  ++moments.back().count;
  moments.back().seconds += seconds;
}

void ProfileLog::add(const ProfileLog& other) {
  const int first = moment_ + 1;
  for (const auto& [size, moments] : other.times_) {
    std::vector<Moment>& all = times_[size];
    for (Moment moment : moments) {
      moment.number += first;
      all.push_back(moment);
    }
  }
  moment_ = first + other.moment_;
}

bool ProfileLog::is_of(const Size& size, TaskKind kind, std::optional<model::WeightFormat> format) {
  return std::get<TaskKind>(size) == kind &&
         (!format || std::get<model::WeightFormat>(size) == *format);
}

std::vector<double> ProfileLog::means(const std::vector<Moment>& moments) {
  std::vector<double> all;
  all.reserve(moments.size());
  for (const Moment& moment : moments) all.push_back(moment.seconds / moment.count);
  return all;
}

std::vector<ProfileSample> ProfileLog::samples(TaskKind kind,
                                               std::optional<model::WeightFormat> format) const {
  std::vector<ProfileSample> samples;
  for (const auto& [size, moments] : times_) {
    if (!is_of(size, kind, format)) continue;
    samples.push_back({.streamed_bytes = std::get<2>(size),
                       .intensity = std::get<1>(size),
                       .seconds = model::quantile(means(moments), 0.5),
                       .by_row = model::reads_weights(kind) && kind != TaskKind::embed &&
                                 model::multiplies_integers(std::get<model::WeightFormat>(size))});
  }
  return samples;
}

std::vector<std::vector<double>> ProfileLog::moments(
    TaskKind kind, std::optional<model::WeightFormat> format) const {
  std::vector<std::vector<double>> all;
  for (const auto& [size, moments] : times_) {
    if (is_of(size, kind, format)) all.push_back(means(moments));
  }
  return all;
}

double ProfileLog::total_s() const {
  double sum = 0.0;
  for (const auto& [size, moments] : times_) {
    for (const Moment& moment : moments) sum += moment.seconds;
  }
  return sum;
}

}  // namespace tandem::exec
