#include "advice/fidelity/report_page.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "advice/fidelity/deviation_summary.hpp"
#include "advice/fidelity/matrix.hpp"
#include "advice/fidelity/report_text.hpp"
#include "advice/fidelity/svg_chart.hpp"
#include "model/base/digest.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/base/units.hpp"

namespace tandem::study {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2733; --soft: #66717f; --line: #d9dee4; --paper: #fff;
  --dot: #1f6fb2; --band: #1f6fb222; --median: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa5b1; --line: #39424d;
  --paper: #14181d; --dot: #6cb2f0; --band: #6cb2f022; --median: #fb923c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p { max-width: 46rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px 3px 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child, td.name { text-align: left; }
td:last-child, td.long { white-space: normal; overflow-wrap: anywhere; }
td.long { text-align: left; }
tr.drifted td { color: var(--soft); }
.charts { display: flex; flex-wrap: wrap; gap: 8px 16px; }
.wide { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg text.heading { fill: var(--ink); font-weight: 600; font-size: 13px; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg .band { fill: var(--band); } svg .bar { fill: var(--dot); }
svg .median { stroke: var(--median); stroke-width: 2.5; }
svg .dot { fill: var(--dot); fill-opacity: 0.55; stroke: var(--dot); }
svg .drifted { fill: none; }
)";

using Cells = std::vector<std::string>;

std::string row(const char* cell, const Cells& cells, std::string_view kind = "") {
  std::string html = kind.empty() ? "<tr>" : "<tr class=\"" + std::string(kind) + "\">";
  for (const std::string& one : cells)
    html += "<" + std::string(cell) + ">" + html_text(one) + "</" + cell + ">";
  return html + "</tr>\n";
}

std::string begin_table(const Cells& header) {
  return "<div class=\"wide\"><table><thead>" + row("th", header) + "</thead><tbody>\n";
}

constexpr std::string_view kEndTable = "</tbody></table></div>\n";

std::string value_text(const std::optional<double>& value, std::string_view unit) {
  if (!value) return "-";
  return unit == "bytes" ? to_text(model::Bytes{*value}) : to_text(model::Seconds{*value});
}

std::string point_label(const Recording& recording, const Quantity& one) {
  return recording.configuration + ": predicted " + value_text(one.predicted, one.unit) +
         ", measured " + value_text(one.median(), one.unit) + ", " + percent_text(*one.percent());
}

std::string facts_table(const PageFacts& facts) {
  std::string html = "<table><tbody>\n";
  for (const auto& [name, value] : facts.rows)
    html += "<tr><td>" + html_text(name) + "</td><td class=\"long\">" + html_text(value) +
            "</td></tr>\n";
  return html + "</tbody></table>\n";
}

std::string coverage(const DeviationSpread& spread) {
  if (spread.intervals == 0) return "-";
  const Interval at = wilson_interval(spread.covered, spread.intervals);
  return std::to_string(spread.covered) + " of " + std::to_string(spread.intervals) +
         ", 95%: " + model::fixed(100.0 * at.first, 0) + " to " +
         model::fixed(100.0 * at.second, 0) + "%";
}

std::string summary(const Recordings& recordings) {
  std::string html =
      begin_table({"metric", "sittings", "configurations", "bias", "median", "95th percentile",
                   "worst", "in their 90% interval", "worst configuration"});
  for (const auto& [name, some] :
       {std::pair("all", recordings), std::pair("that count", counted_of(recordings))}) {
    for (const JudgedMetric& metric : judged_metrics()) {
      const DeviationSpread spread = spread_of(some, metric.name);
      html += row("td", {std::string(metric.title), name, std::to_string(spread.count),
                         percent_text(spread.bias), size_text(spread.median), size_text(spread.p95),
                         size_text(spread.worst), coverage(spread), spread.worst_configuration});
    }
  }
  return html + std::string(kEndTable);
}

std::string distributions(const Recordings& all) {
  std::string html = "<div class=\"charts\">";
  for (const JudgedMetric& metric : judged_metrics()) {
    std::vector<double> values;
    for (const Recording* const recording : all) {
      if (const Quantity* const one = judged(*recording, metric.name))
        values.push_back(*one->percent());
    }
    html += histogram_svg("Deviation of " + std::string(metric.title), values);
  }
  return html + "</div>\n";
}

std::string scatters(const Recordings& all) {
  std::string html = "<div class=\"charts\">";
  for (const JudgedMetric& metric : judged_metrics()) {
    const double scale = metric.unit == "bytes" ? 1.0 / (1024.0 * 1024.0) : 1e3;
    std::vector<ChartPoint> points;
    for (const Recording* const recording : all) {
      const Quantity* const one = judged(*recording, metric.name);
      if (one == nullptr) continue;
      points.push_back({*one->median() * scale, *one->predicted * scale,
                        point_label(*recording, *one), recording->counts()});
    }
    html += scatter_svg(metric.title, metric.unit == "bytes" ? "MiB" : "ms", points);
  }
  return html + "</div>\n";
}

// A chart a factor and metric: a strip a level.
std::string by_factor(const Recordings& all) {
  std::string html;
  for (const Factor& factor : factors()) {
    html += "<h3>" + html_text(factor.name) + "</h3><div class=\"charts\">";
    for (const JudgedMetric& metric : judged_metrics().first(2)) {
      std::vector<Strip> strips;
      for (const std::string_view level : factor.levels) {
        Strip strip{std::string(level), {}};
        for (const Recording* const recording : all) {
          const Quantity* const one = judged(*recording, metric.name);
          if (one == nullptr || recording->level(factor.name) != level) continue;
          strip.points.push_back(
              {*one->percent(), 0.0, point_label(*recording, *one), recording->counts()});
        }
        if (!strip.points.empty()) strips.push_back(std::move(strip));
      }
      html += strips_svg(metric.title, strips);
    }
    html += "</div>\n";
  }
  return html;
}

std::string by_part(const Recordings& all, std::string_view scope, std::string_view title) {
  const std::vector<PartSpread> parts = spreads_by_part(all, scope);
  std::vector<Strip> strips;
  std::string table = begin_table({std::string(title), "part of the difference", "configurations",
                                   "bias", "median", "95th percentile", "worst"});
  for (const PartSpread& part : parts) {
    table +=
        row("td", {part.name, size_text(100.0 * part.weight), std::to_string(part.spread.count),
                   percent_text(part.spread.bias), size_text(part.spread.median),
                   size_text(part.spread.p95), size_text(part.spread.worst)});
    Strip strip{part.name, {}};
    for (const Recording* const recording : all) {
      const Quantity* const one = recording->find(scope, part.name, "total");
      if (one == nullptr || !one->percent()) continue;
      strip.points.push_back(
          {*one->percent(), 0.0, point_label(*recording, *one), recording->counts()});
    }
    strips.push_back(std::move(strip));
  }
  return "<div class=\"charts\">" + strips_svg("Deviation by " + std::string(title), strips) +
         "</div>\n" + table + std::string(kEndTable);
}

// The worst first.
std::string every_configuration(Recordings all) {
  const auto worst = [](const Recording* recording) {
    double most = 0.0;
    for (const JudgedMetric& metric : judged_metrics().first(2)) {
      if (const Quantity* const one = judged(*recording, metric.name))
        most = std::max(most, std::abs(*one->percent()));
    }
    return most;
  };
  std::ranges::stable_sort(all, std::greater<>(), worst);
  std::string html =
      begin_table({"configuration", "way", "TTFT predicted", "measured", "off", "token predicted",
                   "measured", "off", "by profile after", "memory off", "most in", "drift"});
  for (const Recording* const recording : all) {
    Cells cells{recording->configuration, recording->way};
    for (const JudgedMetric& metric : judged_metrics().first(2)) {
      const Quantity* const one = judged(*recording, metric.name);
      cells.push_back(one != nullptr ? value_text(one->predicted, one->unit) : "-");
      cells.push_back(one != nullptr ? value_text(one->median(), one->unit) : "-");
      cells.push_back(one != nullptr ? percent_text(*one->percent()) : "-");
    }
    const Quantity* const token = judged(*recording, "token_latency");
    cells.push_back(token != nullptr ? value_text(token->predicted_after, token->unit) : "-");
    const Quantity* const memory = judged(*recording, "memory");
    cells.push_back(memory != nullptr ? percent_text(*memory->percent()) : "-");
    cells.push_back(worst_kind(*recording));
    cells.push_back(size_text(100.0 * recording->reference.drift()));
    html += row("td", cells, recording->counts() ? "" : "drifted");
  }
  return html + std::string(kEndTable);
}

std::string missing_list(const std::vector<std::string>& missing) {
  if (missing.empty()) return "";
  std::string html = "<h2>Without a recording</h2>\n<ul>\n";
  for (const std::string& one : missing) html += "<li>" + html_text(one) + "</li>\n";
  return html + "</ul>\n";
}

constexpr std::string_view kTestbedNote =
    "<p>Messages crossed the kernel's TCP over the platform's links, and time was the wall "
    "clock's. "
    "Devices are slower than in the emulated runs, so that this machine has room for all "
    "of them: compare a deviation with its own prediction only. Predictions know no TCP: with the "
    "system's, each run begins with new connections, whose first messages wait for its "
    "windows.</p>\n";

// How far the predictions of one group are off: summary, charts, by factor, kind and lane.
std::string deviations(const Recordings& all) {
  std::string html =
      "<h2>How far predictions are off</h2>\n<p>Deviation: 100 (predicted - measured) / measured, "
      "where measured is the median of a configuration's runs. Bias is the median with its sign; "
      "median, 95th percentile and worst are of its size. A sitting measures the profile, runs, "
      "and measures the profile again; it counts if a reference kernel moved by less than 5% "
      "meanwhile. Hollow points and grey rows are of sittings that do not count. Memory is that "
      "of the device whose memory deviates most.</p>\n";
  html += summary(all) + distributions(all);
  html += "<h2>Predicted against measured</h2>\n" + scatters(all);
  html +=
      "<h2>By factor</h2>\n<p>A point a configuration, percent; the bar is the median. Points "
      "beyond 50% are drawn at the ends.</p>\n" +
      by_factor(all);
  html +=
      "<h2>By task kind</h2>\n<p>Time of all tasks of a kind, all devices together. The part of "
      "the difference is of all |predicted - measured| task seconds, each configuration taken "
      "relative to its measured tasks.</p>\n" +
      by_part(all, "kind", "task kind");
  html +=
      "<h2>By lane</h2>\n<p>Busy time of computing, disks and channels, and the time that "
      "computing waited, all devices together.</p>\n" +
      by_part(all, "lane", "lane");
  return html;
}

}  // namespace

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::string_view kHex = "0123456789abcdef";
  // Three hexadecimal digits are two of base64; what is missing of a group of six is zeros.
  std::string padded(hex);
  while (padded.size() % 6 != 0) padded += '0';
  std::string text;
  for (std::size_t i = 0; i < padded.size(); i += 3) {
    const std::size_t bits =
        kHex.find(padded[i]) * 256 + kHex.find(padded[i + 1]) * 16 + kHex.find(padded[i + 2]);
    text += kDigits[bits / 64];
    text += kDigits[bits % 64];
  }
  const std::size_t unused = (padded.size() - hex.size()) / 2;  // bytes
  return text.substr(0, text.size() - unused) + std::string(unused, '=');
}

std::string fidelity_page(const std::vector<Recording>& recordings, const PageFacts& facts) {
  const Recordings all = all_of(recordings);
  const std::string hash = base64_of_hex(model::sha256_hex(kStyle));
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'sha256-" +
      hash +
      "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      html_text(facts.title) + "</title>\n<style>" + std::string(kStyle) +
      "</style>\n</head>\n<body>\n<h1>" + html_text(facts.title) + "</h1>\n";
  html += facts_table(facts);
  const std::vector<RecordingGroup> groups = groups_by_network(recordings);
  if (groups.empty()) html += deviations({});
  for (const RecordingGroup& group : groups) {
    if (!group.title.empty())
      html += "<h1>Testbed: " + html_text(group.title) + "</h1>\n" + std::string(kTestbedNote);
    html += deviations(group.recordings);
  }
  html += "<h2>Every configuration, the worst first</h2>\n" + every_configuration(all);
  html += missing_list(facts.missing);
  return html + "</body>\n</html>\n";
}

}  // namespace tandem::study
