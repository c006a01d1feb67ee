#include "cli/views/result_tables.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {

using model::Bytes;
using model::Seconds;

namespace {

// What is told in words, with its name before it.
void print_remarks(const std::vector<std::pair<std::string, std::string>>& remarks,
                   std::ostream& out) {
  std::size_t width = 0;
  for (const auto& [name, text] : remarks) width = std::max(width, name.size());
  for (const auto& [name, text] : remarks)
    out << name << std::string(width + 2 - name.size(), ' ') << text << '\n';
}

// Of the only request.
std::optional<model::Interval> end_interval(const model::Result& result) {
  if (result.requests.size() != 1 || !result.requests.front().interval_90) return std::nullopt;
  return result.requests.front().interval_90->end_s;
}

}  // namespace

void print_times(const model::Result& result, std::ostream& out) {
  const bool generated = !result.metrics.token_times_s.empty();
  const model::TimeIntervals intervals = result.interval_90.value_or(model::TimeIntervals{});
  model::Table table({generated ? "time to first token" : "time of the pass",
                      to_text(Seconds{result.metrics.ttft_s}, intervals.ttft_s)});
  const std::vector<double> latencies = result.metrics.token_latencies_s();
  if (!latencies.empty()) {
    const model::LatencyStats stats = model::latency_stats(latencies);
    const auto add = [&](const char* name, double value,
                         model::Interval model::LatencyIntervals::*interval) {
      const auto& all = intervals.token_latency_s;
      table.add(
          {name, to_text(Seconds{value}, all ? std::optional(*all.*interval) : std::nullopt)});
    };
    add("token latency, mean", stats.mean, &model::LatencyIntervals::mean);
    add("token latency, p50", stats.p50, &model::LatencyIntervals::p50);
    add("token latency, p90", stats.p90, &model::LatencyIntervals::p90);
    add("token latency, p99", stats.p99, &model::LatencyIntervals::p99);
  }
  if (!result.metrics.token_times_s.empty())
    table.add({"number of tokens", std::to_string(result.metrics.token_times_s.size())});
  if (!result.metrics.token_times_s.empty())
    table.add({"time of all tokens",
               to_text(Seconds{result.metrics.token_times_s.back()}, end_interval(result))});
  table.print(out);
  print_interval_basis(result, out);
  std::vector<std::pair<std::string, std::string>> remarks;
  const auto add_communication = [&](const char* name,
                                     const std::optional<model::Communication>& sums) {
    if (!sums) return;
    remarks.emplace_back(name, model::fixed(100.0 * sums->hidden_fraction(), 1) +
                                   "% hidden by computing, of " + to_text(Seconds{sums->total_s}) +
                                   ", summed over devices");
  };
  add_communication("communication", result.communication);
  add_communication("communication, prompt", result.prompt_communication);
  add_communication("communication, new tokens", result.token_communication);
  if (result.steady) {
    const model::Steady& steady = *result.steady;
    remarks.emplace_back("memory scheduler",
                         steady.verdict + ", " + model::fixed(100.0 * steady.stall_fraction, 1) +
                             "% of the time waiting for a disk, whose slack a token is " +
                             (steady.slack_s < 0.0 ? "-" : "") +
                             to_text(Seconds{std::abs(steady.slack_s)}));
  }
  if (!remarks.empty()) out << '\n';
  print_remarks(remarks, out);
}

void print_interval_basis(const model::Result& result, std::ostream& out) {
  const auto found = result.environment.find("intervals");
  if (found != result.environment.end()) out << "\nin brackets: " << found->second << '\n';
}

void print_requests(const model::Result& result, std::ostream& out) {
  using model::Seconds;
  const bool shares = result.prefix_hit_rate.has_value();
  std::vector<std::string> head{"request",     "arrival", "queueing",
                                "first token", "end",     "token latency, p50"};
  if (shares) head.insert(head.begin() + 3, "cached");
  model::Table table(head);
  for (const model::RequestResult& request : result.requests) {
    const double latency = request.token_latency.p50;
    const model::TimeIntervals intervals = request.interval_90.value_or(model::TimeIntervals{});
    const auto& of_latency = intervals.token_latency_s;
    std::vector<std::string> row{
        request.id,
        to_text(Seconds{request.arrival_s}),
        to_text(Seconds{request.queueing_s}, intervals.queueing_s),
        to_text(Seconds{request.ttft_s}, intervals.ttft_s),
        to_text(Seconds{request.end_s}, intervals.end_s),
        std::isfinite(latency)
            ? to_text(Seconds{latency}, of_latency ? std::optional(of_latency->p50) : std::nullopt)
            : "-"};
    if (shares) row.insert(row.begin() + 3, std::to_string(request.cached_tokens));
    table.add(row);
  }
  table.print(out);
  if (shares)
    out << "\nprefix hits  " << model::fixed(100.0 * *result.prefix_hit_rate, 1)
        << "% of the prompts' tokens\n";
  if (result.metrics.throughput_tokens_per_s) {
    out << "\nthroughput  " << model::fixed(*result.metrics.throughput_tokens_per_s, 2);
    if (result.interval_90 && result.interval_90->throughput_tokens_per_s) {
      const model::Interval& interval = *result.interval_90->throughput_tokens_per_s;
      out << " (" << model::fixed(interval.low, 2) << " to " << model::fixed(interval.high, 2)
          << ')';
    }
    out << " tokens a second\n";
  }
  print_interval_basis(result, out);
}

void print_devices(const model::Result& result, std::ostream& out) {
  model::Table table(
      {"device", "peak memory", "sent", "loaded", "compute", "channels", "disk", "stalled"});
  for (const model::DeviceMetrics& device : result.devices)
    table.add({device.name, to_text(Bytes{device.peak_memory.total()}),
               to_text(Bytes{device.bytes_sent}), to_text(Bytes{device.bytes_loaded}),
               to_text(Seconds{device.busy_cpu_s}), to_text(Seconds{device.busy_channel_s}),
               to_text(Seconds{device.busy_disk_s}), to_text(Seconds{device.stall_s})});
  table.print(out);
}

void print_network(const model::Result& result, std::ostream& out) {
  std::string text;
  for (const auto& [name, value] : result.environment) {
    if (name.rfind("network/", 0) == 0)
      text += (text.empty() ? "" : ", ") + name.substr(8) + ' ' + value;
  }
  if (!text.empty()) out << "\nnetwork model  " << text << '\n';
}

}  // namespace tandem::cli
