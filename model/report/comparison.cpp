#include "model/report/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"

namespace tandem::model {
namespace {

using Results = std::vector<ComparedResult>;
using Values = std::vector<std::optional<double>>;

// The value of each result.
template <class Value>
Values values_of(const Results& results, const Value& value) {
  Values values;
  for (const ComparedResult& one : results) values.push_back(value(one.result));
  return values;
}

// A metric of one part of a result: of a device, a link, a request.
template <class Entry>
struct Metric {
  std::string name;
  std::string unit;
  std::function<double(const Entry&)> value;
};

// Rows of the parts that carry the same name in the results, in the order of their appearance.
template <class Entry, class Name>
void add_rows(const std::string& scope, const Results& results,
              const std::vector<Entry> Result::*parts, Name name_of,
              const std::vector<Metric<Entry>>& metrics, std::vector<ComparedRow>& rows) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<const Entry*>> found;  // by result; null: it has none
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const Entry& part : results[i].result.*parts) {
      const std::string name = name_of(part);
      const auto [at, is_new] = found.try_emplace(name, results.size(), nullptr);
      if (is_new) names.push_back(name);
      if (at->second[i] == nullptr) at->second[i] = &part;
    }
  }
  for (const std::string& name : names) {
    const std::vector<const Entry*>& entries = found.at(name);
    for (const Metric<Entry>& metric : metrics) {
      ComparedRow row{scope, name, metric.name, metric.unit, Values(results.size())};
      for (std::size_t i = 0; i < results.size(); ++i)
        if (entries[i] != nullptr) row.values[i] = metric.value(*entries[i]);
      rows.push_back(std::move(row));
    }
  }
}

// The metrics of a run that its latencies give; absent without tokens.
using OptionalMetric = std::function<std::optional<double>(const Metrics&)>;

OptionalMetric of_latencies(std::function<double(const std::vector<double>&)> value) {
  return [value = std::move(value)](const Metrics& metrics) -> std::optional<double> {
    const std::vector<double> latencies = metrics.token_latencies_s();
    if (latencies.empty()) return std::nullopt;
    return value(latencies);
  };
}

// Of all requests together, or of the only one's latencies.
OptionalMetric of_stats(double LatencyStats::*value) {
  return [value](const Metrics& metrics) -> std::optional<double> {
    if (metrics.token_latency) return (*metrics.token_latency).*value;
    const std::vector<double> latencies = metrics.token_latencies_s();
    if (latencies.empty()) return std::nullopt;
    return latency_stats(latencies).*value;
  };
}

void add_run(const Results& results, std::vector<ComparedRow>& rows) {
  const std::array<std::tuple<const char*, const char*, OptionalMetric>, 9> metrics{{
      // Of many requests, each has its own.
      {"ttft", "s",
       [](const Metrics& m) { return m.token_latency ? std::nullopt : std::optional(m.ttft_s); }},
      {"token_latency_mean", "s", of_stats(&LatencyStats::mean)},
      {"token_latency_p50", "s", of_stats(&LatencyStats::p50)},
      {"token_latency_p90", "s", of_stats(&LatencyStats::p90)},
      {"token_latency_p99", "s", of_stats(&LatencyStats::p99)},
      {"token_latency_worst", "s",
       of_latencies([](const std::vector<double>& latencies) { return quantile(latencies, 1.0); })},
      {"all_tokens", "s",
       [](const Metrics& m) {
         return m.token_times_s.empty() ? std::nullopt : std::optional(m.token_times_s.back());
       }},
      {"ready", "s", [](const Metrics& m) { return m.ready_s; }},
      {"throughput", "tokens/s", [](const Metrics& m) { return m.throughput_tokens_per_s; }},
  }};
  for (const auto& [name, unit, value] : metrics) {
    rows.push_back(
        {"run", "", name, unit, values_of(results, [&value = value](const Result& result) {
           return value(result.metrics);
         })});
  }
}

bool any(const Values& values) {
  return std::ranges::any_of(values, [](const auto& value) { return value.has_value(); });
}

// Of results that have timelines.
void add_communication(const Results& results, std::vector<ComparedRow>& rows) {
  using Sums = std::optional<Communication> Result::*;
  constexpr std::array<std::pair<const char*, Sums>, 3> kParts{{
      {"communication_hidden", &Result::communication},
      {"communication_hidden_prompt", &Result::prompt_communication},
      {"communication_hidden_new_tokens", &Result::token_communication},
  }};
  for (const auto& [name, part] : kParts) {
    Values values = values_of(results, [sums_of = part](const Result& result) {
      const std::optional<Communication>& sums = result.*sums_of;
      return sums ? std::optional(sums->hidden_fraction()) : std::nullopt;
    });
    if (any(values)) rows.push_back({"run", "", name, "1", std::move(values)});
  }
}

void add_requests(const Results& results, std::vector<ComparedRow>& rows) {
  using R = RequestResult;
  if (std::ranges::all_of(results,
                          [](const ComparedResult& one) { return one.result.requests.size() < 2; }))
    return;  // rows of the run
  add_rows<R>(
      "request", results, &Result::requests, [](const R& r) { return r.id; },
      {{"ttft", "s", [](const R& r) { return r.ttft_s; }},
       {"token_latency_mean", "s", [](const R& r) { return r.token_latency.mean; }},
       {"token_latency_p50", "s", [](const R& r) { return r.token_latency.p50; }},
       {"queueing", "s", [](const R& r) { return r.queueing_s; }},
       {"end", "s", [](const R& r) { return r.end_s; }}},
      rows);
}

void add_devices(const Results& results, std::vector<ComparedRow>& rows) {
  using D = DeviceMetrics;
  add_rows<D>(
      "device", results, &Result::devices, [](const D& d) { return d.name; },
      {{"memory_weights", "bytes", [](const D& d) { return d.peak_memory.weights; }},
       {"memory_kv_cache", "bytes", [](const D& d) { return d.peak_memory.kv_cache; }},
       {"memory_activations", "bytes", [](const D& d) { return d.peak_memory.activations; }},
       {"memory_buffers", "bytes", [](const D& d) { return d.peak_memory.buffers; }},
       {"memory_program", "bytes", [](const D& d) { return d.peak_memory.program; }},
       {"memory_total", "bytes", [](const D& d) { return d.peak_memory.total(); }},
       {"sent", "bytes", [](const D& d) { return d.bytes_sent; }},
       {"loaded", "bytes", [](const D& d) { return d.bytes_loaded; }},
       {"busy_cpu", "s", [](const D& d) { return d.busy_cpu_s; }},
       {"busy_disk", "s", [](const D& d) { return d.busy_disk_s; }},
       {"busy_channel", "s", [](const D& d) { return d.busy_channel_s; }},
       {"stall", "s", [](const D& d) { return d.stall_s; }}},
      rows);
}

void add_task_kinds(const Results& results, std::vector<ComparedRow>& rows) {
  using K = KindResult;
  add_rows<K>(
      "task", results, &Result::task_kinds,
      [](const K& k) { return k.device + '/' + std::string(to_string(k.kind)); },
      {{"count", "1", [](const K& k) { return static_cast<double>(k.metrics.count); }},
       {"total", "s", [](const K& k) { return k.metrics.total_s; }},
       {"mean", "s",
        [](const K& k) {
          return k.metrics.count > 0 ? k.metrics.total_s / static_cast<double>(k.metrics.count)
                                     : 0.0;
        }}},
      rows);
}

// Time that each token took: the first its TTFT, the others the gap to the one before.
std::vector<double> token_latencies(const Metrics& metrics) {
  std::vector<double> latencies = metrics.token_latencies_s();
  if (!metrics.token_times_s.empty()) latencies.insert(latencies.begin(), metrics.ttft_s);
  return latencies;
}

void add_tokens(const Results& results, std::vector<ComparedRow>& rows) {
  std::vector<std::vector<double>> latencies;
  std::size_t most = 0;
  for (const ComparedResult& one : results) {
    latencies.push_back(token_latencies(one.result.metrics));
    most = std::max(most, latencies.back().size());
  }
  for (std::size_t token = 0; token < most; ++token) {
    ComparedRow row{"token", std::to_string(token), "latency", "s", Values(results.size())};
    for (std::size_t i = 0; i < results.size(); ++i)
      if (token < latencies[i].size()) row.values[i] = latencies[i][token];
    rows.push_back(std::move(row));
  }
}

Verdict judge(const Comparison& comparison, std::size_t i) {
  Verdict verdict;
  double worst_seconds = -1.0;
  for (const ComparedRow& row : comparison.rows) {
    const bool judged = (row.scope == "run" || row.scope == "request") &&
                        (row.metric == "ttft" || row.metric == "token_latency_mean" ||
                         row.metric == "token_latency_p50");
    if (const auto percent = comparison.percent(row, i); judged && percent)
      verdict.worst_percent = std::max(verdict.worst_percent.value_or(0.0), std::abs(*percent));
    const auto absolute = comparison.absolute(row, i);
    if (row.scope != "token" || row.name == "0" || !absolute) continue;
    if (std::abs(*absolute) > worst_seconds) {
      worst_seconds = std::abs(*absolute);
      verdict.worst_token = std::stoul(row.name);
    }
  }
  return verdict;
}

bool is_of(const ComparedRow& row, TaskKind kind) {
  return row.name.ends_with("/" + std::string(to_string(kind)));
}
bool reads_disk(const ComparedRow& row) {
  return is_of(row, TaskKind::load) || is_of(row, TaskKind::fetch);
}

// Whether a result of this origin has the row's value from a clock or a count.
bool is_observed(const ComparedRow& row, ResultOrigin origin) {
  const bool is_time =
      row.unit == "s" || row.unit == "tokens/s" || row.metric.starts_with("communication_hidden");
  switch (origin) {
    case ResultOrigin::predicted:
      return false;
    case ResultOrigin::replayed:
      return !is_time || row.metric == "ready";
    case ResultOrigin::measured_emulated: {
      if (row.scope == "device") return row.metric != "busy_disk" && row.metric != "busy_channel";
      return row.scope != "task" || !is_time ||
             !(reads_disk(row) || is_of(row, TaskKind::transfer));
    }
    case ResultOrigin::measured_testbed:
      return row.metric != "busy_disk" && !(row.scope == "task" && is_time && reads_disk(row));
    case ResultOrigin::measured:
      return true;
  }
  throw std::logic_error("is_observed: no such origin");
}

std::string number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? shortest_text(*value) : "";
}

}  // namespace

std::vector<std::size_t> Comparison::others() const {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (i != reference) others.push_back(i);
  return others;
}

std::optional<double> Comparison::absolute(const ComparedRow& row, std::size_t i) const {
  const std::optional<double>& value = row.values.at(i);
  const std::optional<double>& base = row.values.at(reference);
  if (!value || !base) return std::nullopt;
  const double difference = *value - *base;
  return std::isfinite(difference) ? std::optional(difference) : std::nullopt;
}

std::optional<double> Comparison::percent(const ComparedRow& row, std::size_t i) const {
  const std::optional<double> difference = absolute(row, i);
  if (!difference) return std::nullopt;
  if (*difference == 0.0) return 0.0;
  const double base = *row.values.at(reference);
  if (base == 0.0) return std::nullopt;
  const double value = 100.0 * *difference / base;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Comparison::ratio(const ComparedRow& row, std::size_t i) const {
  if (!absolute(row, i) || *row.values.at(reference) == 0.0) return std::nullopt;
  return *row.values.at(i) / *row.values.at(reference);
}

bool Comparison::is_calculated(const ComparedRow& row, std::size_t i) const {
  return !is_observed(row, origins.at(i)) && !is_observed(row, origins.at(reference));
}

std::size_t default_reference(const std::vector<ComparedResult>& results) {
  const auto is_prediction = [&](std::size_t i) {
    return results[i].result.origin == ResultOrigin::predicted;
  };
  return results.size() == 2 && is_prediction(0) && !is_prediction(1) ? 1 : 0;
}

Comparison compare(const std::vector<ComparedResult>& results, std::size_t reference) {
  require(reference < results.size(), "compare: the reference is one of the results");
  check_comparable(results, reference);
  Comparison comparison;
  comparison.reference = reference;
  comparison.of_one_plan = of_one_plan(results);
  for (const ComparedResult& one : results) {
    comparison.labels.push_back(one.label);
    comparison.origins.push_back(one.result.origin);
  }
  add_run(results, comparison.rows);
  add_communication(results, comparison.rows);
  add_requests(results, comparison.rows);
  add_devices(results, comparison.rows);
  add_rows<LinkMetrics>(
      "link", results, &Result::links, [](const LinkMetrics& l) { return l.name; },
      {{"carried", "bytes", [](const LinkMetrics& l) { return l.bytes; }}}, comparison.rows);
  add_task_kinds(results, comparison.rows);
  add_tokens(results, comparison.rows);
  comparison.verdicts.resize(results.size());
  for (const std::size_t i : comparison.others()) comparison.verdicts[i] = judge(comparison, i);
  return comparison;
}

std::string to_csv(const Comparison& comparison) {
  const std::vector<std::size_t> others = comparison.others();
  const bool is_pair = comparison.labels.size() == 2 && comparison.reference == 1;
  std::vector<std::string> cells{"scope", "name", "metric", "unit"};
  cells.insert(cells.end(), comparison.labels.begin(), comparison.labels.end());
  for (const std::size_t i : others) {
    for (const char* const name : {"absolute", "percent", "basis"})
      cells.push_back(is_pair ? name : name + (' ' + comparison.labels[i]));
  }
  std::string text = csv_line(cells);
  for (const ComparedRow& row : comparison.rows) {
    cells = {row.scope, row.name, row.metric, row.unit};
    for (const std::optional<double>& value : row.values) cells.push_back(number(value));
    for (const std::size_t i : others) {
      const std::optional<double> absolute = comparison.absolute(row, i);
      cells.push_back(number(absolute));
      cells.push_back(number(comparison.percent(row, i)));
      cells.emplace_back(!absolute                          ? ""
                         : comparison.is_calculated(row, i) ? "calculated"
                                                            : "measured");
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace tandem::model
