#include "model/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <string_view>

#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"

namespace tandem::model {
namespace {

void check_comparable(const Result& predicted, const Result& measured) {
  if (predicted.origin != ResultOrigin::predicted)
    throw Error("first result: kind '" + std::string(kind_of(predicted.origin)) +
                "', expected 'predicted'; give the prediction first, then the run");
  if (measured.origin == ResultOrigin::predicted)
    throw Error(
        "second result: kind 'predicted', expected 'measured' or 'replayed'; give the prediction "
        "first, then the run");
  if (predicted.plan.sha256 != measured.plan.sha256)
    throw Error("results are of different plans: sha256 " + predicted.plan.sha256.substr(0, 16) +
                " (" + predicted.plan.strategy + ", " + predicted.plan.model +
                ") was predicted and " + measured.plan.sha256.substr(0, 16) + " (" +
                measured.plan.strategy + ", " + measured.plan.model +
                ") was measured; simulate and run the same plan file");
  // Of many requests; a replayed schedule has no policy of its own.
  for (const char* const key : {"policy", "chunk", "in_flight"}) {
    const auto p = predicted.environment.find(key);
    const auto m = measured.environment.find(key);
    const bool policies =
        predicted.environment.contains("policy") && measured.environment.contains("policy");
    const std::string one = p == predicted.environment.end() ? "none" : p->second;
    const std::string other = m == measured.environment.end() ? "none" : m->second;
    if (!policies || one == other) continue;
    std::string fault = "results are of different ways to serve: ";
    for (const std::string_view part :
         {std::string_view(key), std::string_view(" "), std::string_view(one),
          std::string_view(" was predicted and "), std::string_view(other),
          std::string_view(" was measured; simulate as it was run")})
      fault += part;
    throw Error(fault);
  }
}

// A metric that is read alike from either result's part.
template <class Entry>
struct Metric {
  std::string name;
  std::string unit;
  std::function<double(const Entry&)> value;
};

// Rows of the parts of both results that carry the same name, in the order of their appearance.
template <class Entry, class Name>
void add_rows(const std::string& scope, const std::vector<Entry>& predicted,
              const std::vector<Entry>& measured, Name name_of,
              const std::vector<Metric<Entry>>& metrics, std::vector<Deviation>& rows) {
  std::vector<std::string> names;
  for (const auto* parts : {&predicted, &measured}) {
    for (const Entry& part : *parts) {
      std::string name = name_of(part);
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  }
  const auto find = [&](const std::vector<Entry>& parts, const std::string& name) -> const Entry* {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const Entry& part) { return name_of(part) == name; });
    return found == parts.end() ? nullptr : &*found;
  };
  for (const std::string& name : names) {
    const Entry* const p = find(predicted, name);
    const Entry* const m = find(measured, name);
    for (const Metric<Entry>& metric : metrics) {
      Deviation row{scope, name, metric.name, metric.unit, std::nullopt, std::nullopt};
      if (p != nullptr) row.predicted = metric.value(*p);
      if (m != nullptr) row.measured = metric.value(*m);
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

void add_run(const Metrics& predicted, const Metrics& measured, std::vector<Deviation>& rows) {
  const std::array<std::pair<const char*, OptionalMetric>, 8> metrics{{
      // Of many requests, each has its own.
      {"ttft",
       [](const Metrics& m) { return m.token_latency ? std::nullopt : std::optional(m.ttft_s); }},
      {"token_latency_mean", of_stats(&LatencyStats::mean)},
      {"token_latency_p50", of_stats(&LatencyStats::p50)},
      {"token_latency_p90", of_stats(&LatencyStats::p90)},
      {"token_latency_p99", of_stats(&LatencyStats::p99)},
      {"token_latency_worst",
       of_latencies([](const std::vector<double>& latencies) { return quantile(latencies, 1.0); })},
      {"all_tokens",
       [](const Metrics& m) {
         return m.token_times_s.empty() ? std::nullopt : std::optional(m.token_times_s.back());
       }},
      {"ready", [](const Metrics& m) { return m.ready_s; }},
  }};
  for (const auto& [name, value] : metrics)
    rows.push_back({"run", "", name, "s", value(predicted), value(measured)});
  rows.push_back({"run", "", "throughput", "tokens/s", predicted.throughput_tokens_per_s,
                  measured.throughput_tokens_per_s});
}

// Of results that have timelines.
void add_communication(const Result& predicted, const Result& measured,
                       std::vector<Deviation>& rows) {
  using Sums = std::optional<Communication> Result::*;
  constexpr std::array<std::pair<const char*, Sums>, 3> kParts{{
      {"communication_hidden", &Result::communication},
      {"communication_hidden_prompt", &Result::prompt_communication},
      {"communication_hidden_new_tokens", &Result::token_communication},
  }};
  const auto hidden = [](const std::optional<Communication>& sums) {
    return sums ? std::optional(sums->hidden_fraction()) : std::nullopt;
  };
  for (const auto& [name, part] : kParts) {
    if (predicted.*part || measured.*part)
      rows.push_back({"run", "", name, "1", hidden(predicted.*part), hidden(measured.*part)});
  }
}

void add_requests(const Result& predicted, const Result& measured, std::vector<Deviation>& rows) {
  using R = RequestResult;
  if (predicted.requests.size() < 2 && measured.requests.size() < 2) return;  // rows of the run
  add_rows<R>(
      "request", predicted.requests, measured.requests, [](const R& r) { return r.id; },
      {{"ttft", "s", [](const R& r) { return r.ttft_s; }},
       {"token_latency_mean", "s", [](const R& r) { return r.token_latency.mean; }},
       {"token_latency_p50", "s", [](const R& r) { return r.token_latency.p50; }},
       {"queueing", "s", [](const R& r) { return r.queueing_s; }},
       {"end", "s", [](const R& r) { return r.end_s; }}},
      rows);
}

void add_devices(const Result& predicted, const Result& measured, std::vector<Deviation>& rows) {
  using D = DeviceMetrics;
  add_rows<D>(
      "device", predicted.devices, measured.devices, [](const D& d) { return d.name; },
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

void add_task_kinds(const Result& predicted, const Result& measured, std::vector<Deviation>& rows) {
  using K = KindResult;
  add_rows<K>(
      "task", predicted.task_kinds, measured.task_kinds,
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

void add_tokens(const Metrics& predicted, const Metrics& measured, std::vector<Deviation>& rows) {
  const std::vector<double> p = token_latencies(predicted);
  const std::vector<double> m = token_latencies(measured);
  for (std::size_t i = 0; i < std::max(p.size(), m.size()); ++i) {
    Deviation row{"token", std::to_string(i), "latency", "s", std::nullopt, std::nullopt};
    if (i < p.size()) row.predicted = p[i];
    if (i < m.size()) row.measured = m[i];
    rows.push_back(std::move(row));
  }
}

void judge(Comparison& comparison) {
  double worst_seconds = -1.0;
  for (const Deviation& row : comparison.rows) {
    const bool judged = (row.scope == "run" || row.scope == "request") &&
                        (row.metric == "ttft" || row.metric == "token_latency_mean" ||
                         row.metric == "token_latency_p50");
    if (const auto percent = row.percent(); judged && percent)
      comparison.worst_percent =
          std::max(comparison.worst_percent.value_or(0.0), std::abs(*percent));
    const auto absolute = row.absolute();
    if (row.scope != "token" || row.name == "0" || !absolute) continue;
    if (std::abs(*absolute) > worst_seconds) {
      worst_seconds = std::abs(*absolute);
      comparison.worst_token = std::stoul(row.name);
    }
  }
}

std::string number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? shortest_text(*value) : "";
}

}  // namespace

std::optional<double> Deviation::absolute() const {
  if (!predicted || !measured) return std::nullopt;
  const double difference = *predicted - *measured;
  return std::isfinite(difference) ? std::optional(difference) : std::nullopt;
}

std::optional<double> Deviation::percent() const {
  const std::optional<double> difference = absolute();
  if (!difference) return std::nullopt;
  if (*difference == 0.0) return 0.0;
  if (*measured == 0.0) return std::nullopt;
  const double value = 100.0 * *difference / *measured;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Comparison compare(const Result& predicted, const Result& measured) {
  check_comparable(predicted, measured);
  Comparison comparison;
  comparison.run_kind = kind_of(measured.origin);
  add_run(predicted.metrics, measured.metrics, comparison.rows);
  add_communication(predicted, measured, comparison.rows);
  add_requests(predicted, measured, comparison.rows);
  add_devices(predicted, measured, comparison.rows);
  add_rows<LinkMetrics>(
      "link", predicted.links, measured.links, [](const LinkMetrics& l) { return l.name; },
      {{"carried", "bytes", [](const LinkMetrics& l) { return l.bytes; }}}, comparison.rows);
  add_task_kinds(predicted, measured, comparison.rows);
  add_tokens(predicted.metrics, measured.metrics, comparison.rows);
  judge(comparison);
  return comparison;
}

namespace {

// The lengths of a request, as its steps had them.
struct Lengths {
  std::int64_t prompt = 0;
  std::int64_t tokens = 0;
};

// By the requests' ids; zeros where a result has no schedule.
std::map<std::string, Lengths> request_lengths(const Result& result) {
  std::vector<Lengths> lengths(result.requests.size());
  for (const ScheduledStep& step : result.schedule) {
    for (const Segment& segment : step.batch.segments) {
      const auto r = static_cast<std::size_t>(segment.sequence);
      if (r >= lengths.size()) continue;  // a replay refuses such a file
      Lengths& own = lengths[r];
      if (own.tokens == 0) own.prompt = segment.past + segment.rows;
      own.tokens += segment.sampled;
    }
  }
  std::map<std::string, Lengths> by_id;
  for (std::size_t r = 0; r < lengths.size(); ++r) by_id[result.requests[r].id] = lengths[r];
  return by_id;
}

// What differs between the requests of both results: the first one that does.
std::string unlike_requests(const Result& predicted, const Result& measured) {
  const std::map<std::string, Lengths> p = request_lengths(predicted);
  const std::map<std::string, Lengths> m = request_lengths(measured);
  constexpr std::string_view kSame = "; simulate and run the same requests";
  const auto joined = [](std::initializer_list<std::string_view> parts) {
    std::string text = "request '";
    for (const std::string_view part : parts) text += part;
    return text;
  };
  for (const auto& [id, expected] : p) {
    const auto found = m.find(id);
    if (found == m.end()) return joined({id, "' was predicted, but not measured", kSame});
    const Lengths& actual = found->second;
    if (expected.prompt == 0 || actual.prompt == 0) continue;
    if (expected.prompt != actual.prompt) {
      return joined({id, "': a prompt of ", std::to_string(expected.prompt),
                     " tokens was predicted, one of ", std::to_string(actual.prompt), " measured",
                     kSame});
    }
    if (expected.tokens == actual.tokens) continue;
    return joined({id, "': ", std::to_string(expected.tokens), " new tokens were predicted, ",
                   std::to_string(actual.tokens),
                   " measured; give requests 'ignore_eos' to compare the same work"});
  }
  for (const auto& [id, actual] : m) {
    if (!p.contains(id)) return joined({id, "' was measured, but not predicted", kSame});
  }
  return "";
}

}  // namespace

std::string unlike_lengths(const Result& predicted, const Result& measured) {
  const auto tokens = [](const Result& result) { return result.metrics.token_times_s.size(); };
  if (predicted.requests.size() > 1 || measured.requests.size() > 1)
    return unlike_requests(predicted, measured);
  const auto prompt = [](const Result& result) {
    const auto found = result.environment.find("prompt_tokens");
    return found == result.environment.end() ? "" : found->second;
  };
  const bool told = !prompt(predicted).empty() && !prompt(measured).empty();
  std::string text;
  if (told && prompt(predicted) != prompt(measured))
    text = "a prompt of " + prompt(predicted) + " tokens was predicted, one of " +
           prompt(measured) + " measured";
  if (tokens(predicted) != tokens(measured))
    text += (text.empty() ? "" : "; ") + std::to_string(tokens(predicted)) +
            " new tokens were predicted, " + std::to_string(tokens(measured)) + " measured";
  if (text.empty()) return "";
  return text +
         ": bytes, totals and what depends on lengths are not of the same work; run without "
         "'--prompt' and with '--ignore-eos', or plan the lengths of the run";
}

std::string unlike_weights(const Result& predicted, const Result& measured) {
  const auto& p = predicted.weights_sha256;
  const auto& m = measured.weights_sha256;
  if (!p || !m || *p == *m) return "";
  constexpr std::size_t kShown = 16;
  return "results are of different weights: SHA-256 " + p->substr(0, kShown) +
         " was predicted and " + m->substr(0, kShown) +
         " was measured; tokens and lengths may differ for that reason alone, run with the same "
         "weights";
}

std::string to_csv(const Comparison& comparison) {
  std::string text =
      csv_line({"scope", "name", "metric", "unit", "predicted", comparison.run_kind, "absolute",
                "percent"});
  for (const Deviation& row : comparison.rows) {
    text += csv_line({row.scope, row.name, row.metric, row.unit, number(row.predicted),
                      number(row.measured), number(row.absolute()), number(row.percent())});
  }
  return text;
}

}  // namespace tandem::model
