#include "advice/fidelity/report_text.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "advice/fidelity/deviation_summary.hpp"
#include "advice/fidelity/matrix.hpp"
#include "model/base/csv.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::study {
namespace {

constexpr std::size_t kPartsShown = 5;

std::string number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? model::shortest_text(*value) : "";
}

void add_rows(const Recordings& recordings, const std::string& sittings, model::Table& table) {
  for (const JudgedMetric& metric : judged_metrics()) {
    const DeviationSpread spread = spread_of(recordings, metric.name);
    std::string covered = "-";
    if (spread.intervals > 0) {
      const Interval at = wilson_interval(spread.covered, spread.intervals);
      covered = std::to_string(spread.covered) + " of " + std::to_string(spread.intervals) + " (" +
                model::fixed(100.0 * at.first, 0) + " to " + model::fixed(100.0 * at.second, 0) +
                "%)";
    }
    table.add({std::string(metric.title), sittings, std::to_string(spread.count),
               percent_text(spread.bias), size_text(spread.median), size_text(spread.p95),
               size_text(spread.worst), covered});
  }
}

}  // namespace

std::string size_text(double percent) {
  return std::isfinite(percent) ? model::fixed(percent, 1) + '%' : "-";
}

std::string percent_text(double percent) {
  return (std::isfinite(percent) && percent > 0.0 ? "+" : "") + size_text(percent);
}

std::string fidelity_csv(const std::vector<Recording>& recordings) {
  std::vector<std::string> header{"configuration"};
  for (const Factor& factor : factors()) header.emplace_back(factor.name);
  for (const char* const name :
       {"way", "metric", "unit", "predicted", "predicted_after", "measured", "measured_min",
        "measured_max", "runs", "percent", "interval_low", "interval_high", "drift", "counts"})
    header.emplace_back(name);
  std::string text = model::csv_line(header);
  for (const Recording& recording : recordings) {
    for (const JudgedMetric& metric : judged_metrics()) {
      const Quantity* const one = judged(recording, metric.name);
      if (one == nullptr) continue;
      std::vector<std::string> row{recording.configuration};
      for (const Factor& factor : factors()) row.emplace_back(recording.level(factor.name));
      const auto [least, most] = std::ranges::minmax_element(one->measured);
      std::optional<double> low;
      std::optional<double> high;
      if (one->interval_90) {
        low = one->interval_90->first;
        high = one->interval_90->second;
      }
      for (std::string& cell : std::vector<std::string>{
               recording.way, std::string(metric.name), one->unit, number(one->predicted),
               number(one->predicted_after), number(one->median()), number(*least), number(*most),
               std::to_string(one->measured.size()), number(one->percent()), number(low),
               number(high), number(recording.reference.drift()), recording.counts() ? "1" : "0"})
        row.push_back(std::move(cell));
      text += model::csv_line(row);
    }
  }
  return text;
}

namespace {

void print_group(const RecordingGroup& group, std::ostream& out) {
  const Recordings& all = group.recordings;
  const Recordings counted = counted_of(all);
  out << all.size() << (all.size() == 1 ? " configuration" : " configurations")
      << (group.title.empty() ? "" : " in a testbed, " + group.title) << ", " << counted.size()
      << " of them in sittings that count (drift below " << model::fixed(100.0 * kMostDrift, 0)
      << "%)\n\n";
  model::Table table({"deviation of the median of the runs", "sittings", "configurations", "bias",
                      "median", "95th percentile", "worst", "in their 90% interval"});
  add_rows(all, "all", table);
  add_rows(counted, "that count", table);
  table.print(out);
  out << '\n';
  for (const JudgedMetric& metric : judged_metrics()) {
    const DeviationSpread spread = spread_of(all, metric.name);
    if (spread.count == 0) continue;
    const auto of = std::ranges::find(all, spread.worst_configuration, &Recording::configuration);
    const std::string kind = worst_kind(**of);
    out << "worst " << metric.title << "  " << size_text(spread.worst) << "  "
        << spread.worst_configuration;
    if (metric.unit == "s" && !kind.empty()) out << ", most of it in task kind " << kind;
    out << '\n';
  }
  const std::vector<PartSpread> kinds = spreads_by_part(all, "kind");
  if (kinds.empty()) return;
  out << '\n';
  model::Table parts({"task kind", "part of all |predicted - measured| task seconds", "bias",
                      "median", "95th percentile", "worst"});
  for (std::size_t i = 0; i < std::min(kPartsShown, kinds.size()); ++i) {
    const PartSpread& kind = kinds[i];
    parts.add({kind.name, size_text(100.0 * kind.weight), percent_text(kind.spread.bias),
               size_text(kind.spread.median), size_text(kind.spread.p95),
               size_text(kind.spread.worst)});
  }
  parts.print(out);
}

}  // namespace

void print_fidelity(const std::vector<Recording>& recordings, std::ostream& out) {
  const std::vector<RecordingGroup> groups = groups_by_network(recordings);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i > 0) out << '\n';
    print_group(groups[i], out);
  }
}

}  // namespace tandem::study
