#include "model/report/result.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/json_value.hpp"
#include "model/report/result_schema.hpp"

namespace tandem::model {

using nlohmann::ordered_json;

namespace {

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// Writing: a number that is not finite is null, as JSON has no other word for it.
ordered_json latency_json(const LatencyStats& stats) {
  return {{"mean", stats.mean}, {"p50", stats.p50}, {"p90", stats.p90}, {"p99", stats.p99}};
}

ordered_json metrics_json(const Metrics& metrics, const std::optional<TimeIntervals>& intervals) {
  const LatencyStats latency =
      metrics.token_latency ? *metrics.token_latency : latency_stats(metrics.token_latencies_s());
  return {{"ready_s", or_null(metrics.ready_s)},
          {"ttft_s", metrics.ttft_s},
          {"token_latency_s", latency_json(latency)},
          {"token_times_s",
           metrics.token_latency ? ordered_json(nullptr) : ordered_json(metrics.token_times_s)},
          {"throughput_tokens_per_s", or_null(metrics.throughput_tokens_per_s)},
          {"interval_90", interval_json(intervals)}};
}

ordered_json request_json(const RequestResult& request, bool shares) {
  ordered_json json{{"id", request.id},
                    {"arrival_s", request.arrival_s},
                    {"queueing_s", request.queueing_s},
                    {"ttft_s", request.ttft_s},
                    {"end_s", request.end_s},
                    {"token_latency_s", latency_json(request.token_latency)},
                    {"token_times_s", request.token_times_s},
                    {"interval_90", interval_json(request.interval_90)}};
  if (shares) json["cached_tokens"] = request.cached_tokens;
  json["tokens"] = request.tokens.empty() ? ordered_json(nullptr) : ordered_json(request.tokens);
  return json;
}

// A segment is [sequence, past, rows, sampled]; of a placed batch also owner and partitioned
// positions (model::Place). If any step shares a prefix, all have their cache operations: ["free",
// sequence] or ["fork", sequence, from, positions].
ordered_json step_json(const ScheduledStep& step, bool shares) {
  ordered_json segments = ordered_json::array();
  for (std::size_t i = 0; i < step.batch.segments.size(); ++i) {
    const Segment& s = step.batch.segments[i];
    ordered_json segment = ordered_json::array({s.sequence, s.past, s.rows, s.sampled});
    if (!step.batch.places.empty()) {
      segment.push_back(step.batch.places[i].owner);
      segment.push_back(step.batch.places[i].partitioned);
    }
    segments.push_back(std::move(segment));
  }
  ordered_json json{{"not_before_s", step.not_before_s},
                    {"ended", step.ended},
                    {"segments", std::move(segments)}};
  if (!shares) return json;
  ordered_json& cache = json["cache"] = ordered_json::array();
  for (const CacheOp& op : step.batch.cache) {
    if (op.kind == CacheOpKind::fork)
      cache.push_back({"fork", op.sequence, op.from, op.positions});
    else
      cache.push_back({"free", op.sequence});
  }
  return json;
}

ordered_json device_json(const DeviceMetrics& device) {
  const MemoryUse& peak = device.peak_memory;
  ordered_json json{{"name", device.name},
                    {"peak_memory_bytes",
                     {{"weights", peak.weights},
                      {"kv_cache", peak.kv_cache},
                      {"activations", peak.activations},
                      {"buffers", peak.buffers},
                      {"program", peak.program},
                      {"total", peak.total()}}}};
  if (device.mapped_bytes > 0.0) json["mapped_weight_bytes"] = device.mapped_bytes;
  json.update({{"bytes_sent", device.bytes_sent},
               {"bytes_loaded", device.bytes_loaded},
               {"busy_s",
                {{"cpu", device.busy_cpu_s},
                 {"disk", device.busy_disk_s},
                 {"channel", device.busy_channel_s}}},
               {"stall_s", device.stall_s}});
  return json;
}

ordered_json communication_json(const std::optional<Communication>& sums) {
  if (!sums) return nullptr;
  return {{"total_s", sums->total_s},
          {"hidden_s", sums->hidden_s},
          {"hidden_fraction", sums->hidden_fraction()}};
}

}  // namespace

void set_only_request(Result& result) {
  Metrics& metrics = result.metrics;
  const bool generates = !metrics.token_times_s.empty();
  const double end = generates ? metrics.token_times_s.back() : metrics.ttft_s;
  result.requests = {{.id = "request",
                      .arrival_s = 0.0,
                      .queueing_s = 0.0,
                      .ttft_s = metrics.ttft_s,
                      .end_s = end,
                      .token_latency = latency_stats(metrics.token_latencies_s()),
                      .token_times_s = metrics.token_times_s,
                      .tokens = result.tokens}};
  if (generates && end > 0.0)
    metrics.throughput_tokens_per_s = static_cast<double>(metrics.token_times_s.size()) / end;
}

void set_communication(Result& result, const Trace& trace) {
  result.communication = communication_of(trace);
  if (!result.schedule.empty() || result.requests.size() > 1) return;
  result.prompt_communication = communication_of(trace, {0, 1});
  result.token_communication =
      communication_of(trace, {1, std::numeric_limits<std::int32_t>::max()});
}

std::string to_json(const Result& result) {
  ordered_json json;
  json["schema"] = kResultSchema;
  json["kind"] = kind_of(result.origin);
  json["evaluator"] = result.evaluator;
  json["pace"] = or_null(pace_of(result.origin));
  json["plan"] = {{"sha256", result.plan.sha256},
                  {"strategy", result.plan.strategy},
                  {"model", result.plan.model},
                  {"platform", result.plan.platform}};
  json["weights_sha256"] = or_null(result.weights_sha256);
  json["environment"] = ordered_json::object();
  for (const auto& [key, value] : result.environment) json["environment"][key] = value;
  json["metrics"] = metrics_json(result.metrics, result.interval_90);
  json["tokens"] = result.tokens.empty() ? ordered_json(nullptr) : ordered_json(result.tokens);
  json["requests"] = nullptr;
  for (const RequestResult& request : result.requests)
    json["requests"].push_back(request_json(request, result.prefix_hit_rate.has_value()));
  if (result.prefix_hit_rate) json["prefix_hit_rate"] = *result.prefix_hit_rate;
  json["schedule"] = nullptr;
  const bool shares = shares_prefixes(result.schedule);
  for (const ScheduledStep& step : result.schedule)
    json["schedule"].push_back(step_json(step, shares));
  json["steady"] = nullptr;
  if (result.steady) {
    json["steady"] = {{"verdict", result.steady->verdict},
                      {"stall_fraction", result.steady->stall_fraction},
                      {"slack_s", result.steady->slack_s}};
  }
  ordered_json& devices = json["devices"] = ordered_json::array();
  for (const DeviceMetrics& device : result.devices) devices.push_back(device_json(device));
  ordered_json& links = json["links"] = ordered_json::array();
  for (const LinkMetrics& link : result.links) {
    links.push_back({{"name", link.name}, {"bytes", link.bytes}});
  }
  ordered_json& kinds = json["task_kinds"] = ordered_json::array();
  for (const KindResult& kind : result.task_kinds) {
    kinds.push_back({{"device", kind.device},
                     {"kind", std::string(to_string(kind.kind))},
                     {"count", kind.metrics.count},
                     {"total_s", kind.metrics.total_s}});
  }
  json["communication"] = communication_json(result.communication);
  if (result.communication) {
    json["communication"]["prompt"] = communication_json(result.prompt_communication);
    json["communication"]["new_tokens"] = communication_json(result.token_communication);
  }
  json["trace"] = or_null(result.trace);
  return to_text(json);
}

}  // namespace tandem::model
