#include "advice/fidelity/deviation_summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "model/base/error.hpp"
#include "model/base/statistics.hpp"

namespace tandem::study {
namespace {

constexpr std::array<JudgedMetric, 3> kJudged{{
    {"ttft", "TTFT", "s"},
    {"token_latency", "token latency", "s"},
    {"memory", "peak memory", "bytes"},
}};

struct Sample {
  const Recording* recording;
  const Quantity* quantity;
};

DeviationSpread spread_of(const std::vector<Sample>& samples) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  DeviationSpread spread{.count = samples.size(), .worst = kNone};
  std::vector<double> signs;
  std::vector<double> sizes;
  for (const auto& [recording, quantity] : samples) {
    const double percent = *quantity->percent();
    signs.push_back(percent);
    sizes.push_back(std::abs(percent));
    if (!(sizes.back() <= spread.worst)) {
      spread.worst = sizes.back();
      spread.worst_configuration = recording->configuration;
    }
    if (!quantity->interval_90) continue;
    ++spread.intervals;
    const double median = *quantity->median();
    if (median >= quantity->interval_90->first && median <= quantity->interval_90->second)
      ++spread.covered;
  }
  spread.bias = model::quantile(signs, 0.5);
  spread.median = model::quantile(sizes, 0.5);
  spread.p95 = model::quantile(sizes, 0.95);
  return spread;
}

double difference(const Quantity& quantity) {
  return std::abs(quantity.predicted.value_or(0.0) - quantity.median().value_or(0.0));
}

// Of the measured kinds together.
double measured_kinds(const Recording& recording) {
  double sum = 0.0;
  for (const Quantity& one : recording.quantities)
    if (one.scope == "kind") sum += one.median().value_or(0.0);
  return sum;
}

}  // namespace

std::span<const JudgedMetric> judged_metrics() { return kJudged; }

const Quantity* judged(const Recording& recording, std::string_view metric) {
  const auto with_deviation = [](const Quantity* one) {
    return one != nullptr && one->percent() ? one : nullptr;
  };
  if (metric == "ttft") return with_deviation(recording.find("run", "", "ttft"));
  if (metric == "token_latency")
    return with_deviation(recording.find("run", "", "token_latency_mean"));
  require(metric == "memory", "judged: no metric of this name");
  const Quantity* worst = nullptr;
  for (const Quantity& one : recording.quantities) {
    if (one.scope != "device" || one.metric != "memory_total" || !one.percent()) continue;
    if (worst == nullptr || std::abs(*one.percent()) > std::abs(*worst->percent())) worst = &one;
  }
  return worst;
}

DeviationSpread spread_of(const Recordings& recordings, std::string_view metric) {
  std::vector<Sample> samples;
  for (const Recording* const recording : recordings) {
    if (const Quantity* const quantity = judged(*recording, metric))
      samples.push_back({recording, quantity});
  }
  return spread_of(samples);
}

std::vector<PartSpread> spreads_by_part(const Recordings& recordings, std::string_view scope) {
  std::map<std::string, std::vector<Sample>> samples;
  std::map<std::string, double> weights;
  double all = 0.0;
  for (const Recording* const recording : recordings) {
    const double together = measured_kinds(*recording);
    for (const Quantity& one : recording->quantities) {
      if (one.scope != scope || one.measured.empty()) continue;
      if (one.percent()) samples[one.name].push_back({recording, &one});
      if (together <= 0.0) continue;
      weights[one.name] += difference(one) / together;
      all += difference(one) / together;
    }
  }
  std::vector<PartSpread> parts;
  parts.reserve(samples.size());
  for (const auto& [name, of_part] : samples)
    parts.push_back({name, spread_of(of_part), all > 0.0 ? weights[name] / all : 0.0});
  std::ranges::stable_sort(parts, std::greater<>(), &PartSpread::weight);
  return parts;
}

std::string worst_kind(const Recording& recording) {
  const Quantity* worst = nullptr;
  for (const Quantity& one : recording.quantities) {
    if (one.scope != "kind" || one.measured.empty()) continue;
    if (worst == nullptr || difference(one) > difference(*worst)) worst = &one;
  }
  return worst != nullptr ? worst->name : std::string();
}

Interval wilson_interval(std::size_t k, std::size_t n) {
  require(n > 0 && k <= n, "wilson_interval: k of n, n above 0");
  constexpr double kZ = 1.959964;
  const auto count = static_cast<double>(n);
  const double part = static_cast<double>(k) / count;
  const double middle = part + kZ * kZ / (2.0 * count);
  const double half = kZ * std::sqrt(part * (1.0 - part) / count + kZ * kZ / (4.0 * count * count));
  const double scale = 1.0 + kZ * kZ / count;
  return {(middle - half) / scale, (middle + half) / scale};
}

Recordings all_of(const std::vector<Recording>& recordings) {
  Recordings all;
  for (const Recording& one : recordings) all.push_back(&one);
  return all;
}

Recordings counted_of(Recordings recordings) {
  std::erase_if(recordings, [](const Recording* one) { return !one->counts(); });
  return recordings;
}

std::vector<RecordingGroup> groups_by_network(const std::vector<Recording>& recordings) {
  std::map<std::string, Recordings> by_tcp;  // the empty text first
  for (const Recording& one : recordings) by_tcp[one.tcp()].push_back(&one);
  std::vector<RecordingGroup> groups;
  groups.reserve(by_tcp.size());
  for (const auto& [tcp, some] : by_tcp)
    groups.push_back({tcp.empty() ? "" : "over TCP (" + tcp + ")", some});
  return groups;
}

}  // namespace tandem::study
