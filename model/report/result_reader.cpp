#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/report/result.hpp"
#include "model/report/result_schema.hpp"

namespace tandem::model {
namespace {

constexpr std::string_view kSchema6 = "tandem.result/6";  // nominal pace is called measured
constexpr std::string_view kSchema5 = "tandem.result/5";  // the same, without weights_sha256
constexpr std::size_t kMaxItems = std::size_t{1} << 24U;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr double kTotalError = 1e-9;  // of a sum that was added up in another order

bool has_schema(const JsonValue& root, std::string_view schema) {
  if (!root.json().is_object()) return false;
  const auto found = root.json().find("schema");
  return found != root.json().end() && *found == schema;
}

double amount(const JsonValue& object, std::string_view key) {
  const JsonValue field = object.at(key);
  if (field.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return field.number(0.0, kMaxNumber);
}

std::string one_of(const JsonValue& field, std::initializer_list<std::string_view> words) {
  std::string word = field.text();
  std::string known;
  for (const std::string_view w : words) {
    if (w == word) return word;
    known += known.empty() ? "" : ", ";
    known += w;
  }
  field.fail("one of " + known);
}

// `pace`: absent if null.
[[noreturn]] void fail_pace(const JsonValue& field, std::string_view kind,
                            const std::vector<std::optional<std::string_view>>& paces) {
  std::string expected;
  for (const std::optional<std::string_view>& pace : paces) {
    expected += expected.empty() ? "" : " or ";
    expected += pace ? '"' + std::string(*pace) + '"' : "null";
  }
  field.fail(expected.append(" where 'kind' is \"").append(kind).append("\""));
}

std::optional<std::string> text_or_null(const JsonValue& field) {
  return field.is_null() ? std::nullopt : std::optional(field.text());
}

ResultOrigin read_origin(const JsonValue& root) {
  const std::string kind = one_of(root.at("kind"), {"predicted", "replayed", "measured"});
  const std::optional<std::string> pace = text_or_null(root.at("pace"));
  std::vector<std::optional<std::string_view>> paces;
  for (const ResultOriginNames& names : kResultOrigins) {
    if (names.kind != kind) continue;
    if (names.pace == pace) return names.origin;
    paces.push_back(names.pace);
  }
  fail_pace(root.at("pace"), kind, paces);
}

// Of schemas that had the pace of emulation alone, null on real devices.
ResultOrigin read_former_origin(const JsonValue& root) {
  const std::string kind = one_of(root.at("kind"), {"predicted", "measured"});
  const std::optional<std::string> pace = text_or_null(root.at("pace"));
  if (kind == "predicted") {
    if (pace) fail_pace(root.at("pace"), kind, {std::nullopt});
    return ResultOrigin::predicted;
  }
  if (!pace) return ResultOrigin::measured;
  if (pace == "measured") return ResultOrigin::measured_emulated;
  if (pace == "nominal") return ResultOrigin::replayed;
  fail_pace(root.at("pace"), kind, {std::nullopt, "measured", "nominal"});
}

LatencyStats read_latency(const JsonValue& json) {
  json.expect_keys({"mean", "p50", "p90", "p99"});
  return {.mean = amount(json, "mean"),
          .p50 = amount(json, "p50"),
          .p90 = amount(json, "p90"),
          .p99 = amount(json, "p99")};
}

// Fails where an interval, already read, does not have the time of `json` that it is named after.
void check_around(const JsonValue& json, const JsonValue& intervals) {
  constexpr double kRounding = 1e-9;
  for (const auto& [name, of] : intervals.json().items()) {
    const auto time = json.find(name);
    if (!time) continue;
    if (of.is_object()) {
      check_around(*time, intervals.at(name));
      continue;
    }
    if (!time->json().is_number()) continue;
    const double value = time->json().get<double>();
    const double slack = kRounding * std::abs(value);
    if (of[0].get<double>() > value + slack || of[1].get<double>() < value - slack)
      intervals.at(name).fail("[low, high] around the predicted " + time->json().dump());
  }
}

// Results made before have none.
std::optional<TimeIntervals> read_interval_90(const JsonValue& json) {
  const auto intervals = json.find("interval_90");
  if (!intervals) return std::nullopt;
  std::optional<TimeIntervals> read = read_intervals(*intervals);
  if (read) check_around(json, *intervals);
  return read;
}

std::vector<double> read_token_times(const JsonValue& json) {
  std::vector<double> times;
  const std::size_t count = json.size(kMaxItems);
  times.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue time = json.at(i);
    const double at = time.number(0.0, kMaxNumber);
    if (i > 0 && at < times.back()) time.fail("no time before the token before it");
    times.push_back(at);
  }
  return times;
}

Metrics read_metrics(const JsonValue& json) {
  json.expect_keys({"ready_s", "ttft_s", "token_latency_s", "token_times_s",
                    "throughput_tokens_per_s", "interval_90"});
  Metrics metrics;
  if (const JsonValue ready = json.at("ready_s"); !ready.is_null())
    metrics.ready_s = ready.number(0.0, kMaxNumber);
  metrics.ttft_s = amount(json, "ttft_s");
  if (const JsonValue rate = json.at("throughput_tokens_per_s"); !rate.is_null())
    metrics.throughput_tokens_per_s = rate.number(0.0, kMaxNumber);
  const LatencyStats latency = read_latency(json.at("token_latency_s"));
  const JsonValue times = json.at("token_times_s");
  if (times.is_null()) {  // else it is made of the times
    metrics.token_latency = latency;
    return metrics;
  }
  metrics.token_times_s = read_token_times(times);
  return metrics;
}

Communication read_communication(const JsonValue& json) {
  const Communication sums{.total_s = amount(json, "total_s"),
                           .hidden_s = amount(json, "hidden_s")};
  (void)amount(json, "hidden_fraction");
  return sums;
}

DeviceMetrics read_device(const JsonValue& json) {
  json.expect_keys({"name", "peak_memory_bytes", "mapped_weight_bytes", "bytes_sent",
                    "bytes_loaded", "busy_s", "stall_s"});
  DeviceMetrics device;
  device.name = json.at("name").line();
  const JsonValue peak = json.at("peak_memory_bytes");
  peak.expect_keys({"weights", "kv_cache", "activations", "buffers", "program", "total"});
  device.peak_memory = {.weights = amount(peak, "weights"),
                        .kv_cache = amount(peak, "kv_cache"),
                        .activations = amount(peak, "activations"),
                        .buffers = amount(peak, "buffers"),
                        .program = amount(peak, "program")};
  const double total = amount(peak, "total");
  if (std::abs(total - device.peak_memory.total()) > kTotalError * total)
    peak.at("total").fail("the sum of the others");
  if (const auto mapped = json.find("mapped_weight_bytes"))
    device.mapped_bytes = mapped->number(0.0, kMaxNumber);
  device.bytes_sent = amount(json, "bytes_sent");
  device.bytes_loaded = amount(json, "bytes_loaded");
  const JsonValue busy = json.at("busy_s");
  busy.expect_keys({"cpu", "disk", "channel"});
  device.busy_cpu_s = amount(busy, "cpu");
  device.busy_disk_s = amount(busy, "disk");
  device.busy_channel_s = amount(busy, "channel");
  device.stall_s = amount(json, "stall_s");
  return device;
}

std::vector<std::int32_t> read_tokens(const JsonValue& json) {
  std::vector<std::int32_t> tokens;
  if (json.is_null()) return tokens;
  const std::size_t count = json.size(kMaxItems);
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<std::int32_t>(json.at(i).integer(0, std::numeric_limits<std::int32_t>::max())));
  }
  return tokens;
}

std::optional<std::string> read_digest(const JsonValue& json) {
  if (json.is_null()) return std::nullopt;
  constexpr std::size_t kCharacters = 64;
  std::string digest = json.text(kCharacters);
  const bool is_hex = std::ranges::all_of(
      digest, [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
  if (digest.size() != kCharacters || !is_hex)
    json.fail("a SHA-256 as 64 lower-case hexadecimal digits");
  return digest;
}

// Fails unless a request's times are of its tokens, from its first to its end.
void check_token_times(const JsonValue& json, const RequestResult& request) {
  const std::vector<double>& times = request.token_times_s;
  if (times.empty()) return;
  const JsonValue field = json.at("token_times_s");
  if (!request.tokens.empty() && request.tokens.size() != times.size())
    field.fail("a time for each of its " + std::to_string(request.tokens.size()) + " tokens");
  const auto differ = [](double a, double b) {
    return std::abs(a - b) > kTotalError * std::max(1.0, std::abs(b));
  };
  if (differ(times.front(), request.ttft_s)) field.fail("its ttft_s first");
  if (differ(request.arrival_s + times.back(), request.end_s))
    field.fail("its end_s last, from its arrival_s");
}

RequestResult read_request(const JsonValue& json) {
  json.expect_keys({"id", "arrival_s", "queueing_s", "ttft_s", "end_s", "token_latency_s",
                    "token_times_s", "interval_90", "cached_tokens", "tokens"});
  const auto cached = json.find("cached_tokens");
  const auto times = json.find("token_times_s");  // results made before have none
  RequestResult request{.id = json.at("id").line(),
                        .arrival_s = json.at("arrival_s").number(0.0, kMaxNumber),
                        .queueing_s = amount(json, "queueing_s"),
                        .ttft_s = amount(json, "ttft_s"),
                        .end_s = amount(json, "end_s"),
                        .token_latency = read_latency(json.at("token_latency_s")),
                        .token_times_s = times ? read_token_times(*times) : std::vector<double>(),
                        .cached_tokens = cached ? cached->integer(0, kMaxTokens) : 0,
                        .tokens = read_tokens(json.at("tokens")),
                        .interval_90 = read_interval_90(json)};
  check_token_times(json, request);
  return request;
}

CacheOp read_cache_op(const JsonValue& json) {
  const std::size_t count = json.size(4);
  const bool forks = count == 4;
  if (!forks && count != 2)
    json.fail("[\"free\", sequence] or [\"fork\", sequence, from, positions]");
  static_cast<void>(one_of(json.at(0), {forks ? "fork" : "free"}));
  const auto number = [&](std::size_t at, std::int64_t least) {
    return static_cast<std::int32_t>(json.at(at).integer(least, kMaxTokens));
  };
  if (!forks) return {.kind = CacheOpKind::free, .sequence = number(1, 0)};
  return {.kind = CacheOpKind::fork,
          .sequence = number(1, 0),
          .from = number(2, 0),
          .positions = number(3, 1)};
}

ScheduledStep read_step(const JsonValue& json) {
  json.expect_keys({"not_before_s", "ended", "segments", "cache"});
  ScheduledStep step{
      .not_before_s = json.at("not_before_s").number(0.0, kMaxNumber),
      .batch = {},
      .ended = static_cast<std::int32_t>(json.at("ended").integer(0, std::int64_t{1} << 30))};
  const JsonValue segments = json.at("segments");
  const std::size_t count = segments.size(kMaxItems);
  if (count == 0) segments.fail("at least one segment");
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue segment = segments.at(i);
    const std::size_t fields = segment.size(6);
    const bool placed = fields == 6;
    if ((fields != 4 && !placed) || (i > 0 && placed == step.batch.places.empty()))
      segment.fail(
          "[sequence, past, rows, sampled], all of them with owner and partitioned positions, "
          "or none");
    const auto number = [&](std::size_t at, std::int64_t least) {
      return static_cast<std::int32_t>(segment.at(at).integer(least, std::int64_t{1} << 30));
    };
    step.batch.segments.push_back({.sequence = number(0, 0),
                                   .past = number(1, 0),
                                   .rows = number(2, 1),
                                   .sampled = number(3, 0)});
    if (step.batch.segments.back().sampled > step.batch.segments.back().rows)
      segment.fail("no more sampled rows than rows");
    if (placed) step.batch.places.push_back({.owner = number(4, 0), .partitioned = number(5, 0)});
  }
  if (const auto cache = json.find("cache")) {
    const std::size_t operations = cache->size(kMaxItems);
    for (std::size_t i = 0; i < operations; ++i)
      step.batch.cache.push_back(read_cache_op(cache->at(i)));
  }
  return step;
}

KindResult read_kind(const JsonValue& json) {
  json.expect_keys({"device", "kind", "count", "total_s"});
  KindResult result;
  result.device = json.at("device").line();
  const JsonValue kind = json.at("kind");
  const std::string name = kind.text();
  int k = 0;
  while (k < kTaskKinds && to_string(static_cast<TaskKind>(k)) != name) ++k;
  if (k == kTaskKinds) kind.fail("a task kind");
  result.kind = static_cast<TaskKind>(k);
  result.metrics.count = json.at("count").integer(0, std::numeric_limits<std::int64_t>::max());
  result.metrics.total_s = amount(json, "total_s");
  return result;
}

// Elements of the array `key` of `root` (null: none), each through `read`.
template <class Read>
auto read_list(const JsonValue& root, std::string_view key, Read read) {
  std::vector<decltype(read(root))> list;
  const JsonValue array = root.at(key);
  if (array.is_null()) return list;
  const std::size_t count = array.size(kMaxItems);
  for (std::size_t i = 0; i < count; ++i) list.push_back(read(array.at(i)));
  return list;
}

}  // namespace

Result parse_result_json(std::string_view text, std::string_view source) {
  expect_kind(text, source, kResultKind);
  const JsonDocument document(text, source, "write the result again with `tandem`",
                              {.bytes = std::size_t{64} << 20U, .depth = 16});
  const JsonValue root = document.root();
  const bool is_5 = has_schema(root, kSchema5);
  const bool is_before = is_5 || has_schema(root, kSchema6);
  if (!is_before) expect_schema(root, kResultSchema);
  root.expect_keys({"schema", "kind", "evaluator", "pace", "plan", "weights_sha256", "environment",
                    "metrics", "tokens", "requests", "prefix_hit_rate", "schedule", "steady",
                    "devices", "links", "task_kinds", "communication", "trace"});
  Result result;
  result.origin = is_before ? read_former_origin(root) : read_origin(root);
  result.evaluator = one_of(root.at("evaluator"), {"simgrid", "analytic", "exec"});
  const JsonValue plan = root.at("plan");
  plan.expect_keys({"sha256", "strategy", "model", "platform"});
  result.plan = {.sha256 = plan.at("sha256").line(),
                 .strategy = plan.at("strategy").line(),
                 .model = plan.at("model").line(),
                 .platform = plan.at("platform").line()};
  if (!is_5) result.weights_sha256 = read_digest(root.at("weights_sha256"));
  const JsonValue environment = root.at("environment");
  if (!environment.is_object()) environment.fail("an object");
  for (const auto& [key, value] : environment.json().items()) {
    result.environment[key] = environment.at(key).text(std::size_t{1} << 16U);
  }
  result.metrics = read_metrics(root.at("metrics"));
  result.interval_90 = read_interval_90(root.at("metrics"));
  result.tokens = read_tokens(root.at("tokens"));
  result.requests = read_list(root, "requests", read_request);
  if (const auto rate = root.find("prefix_hit_rate"))
    result.prefix_hit_rate = rate->number(0.0, 1.0);
  result.schedule = read_list(root, "schedule", read_step);
  if (const JsonValue steady = root.at("steady"); !steady.is_null()) {
    steady.expect_keys({"verdict", "stall_fraction", "slack_s"});
    const JsonValue slack = steady.at("slack_s");
    result.steady = Steady{.verdict = one_of(steady.at("verdict"), {"steady", "stalling"}),
                           .stall_fraction = amount(steady, "stall_fraction"),
                           .slack_s = slack.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                                      : slack.number(-kMaxNumber, kMaxNumber)};
  }
  result.devices = read_list(root, "devices", read_device);
  result.links = read_list(root, "links", [](const JsonValue& link) {
    link.expect_keys({"name", "bytes"});
    return LinkMetrics{.name = link.at("name").text(), .bytes = amount(link, "bytes")};
  });
  result.task_kinds = read_list(root, "task_kinds", read_kind);
  if (const JsonValue way = root.at("communication"); !way.is_null()) {
    way.expect_keys({"total_s", "hidden_s", "hidden_fraction", "prompt", "new_tokens"});
    result.communication = read_communication(way);
    const auto phase = [&](std::string_view key) -> std::optional<Communication> {
      const auto part = way.find(key);  // results made before have none
      if (!part || part->is_null()) return std::nullopt;
      part->expect_keys({"total_s", "hidden_s", "hidden_fraction"});
      return read_communication(*part);
    };
    result.prompt_communication = phase("prompt");
    result.token_communication = phase("new_tokens");
  }
  if (const JsonValue trace = root.at("trace"); !trace.is_null()) result.trace = trace.text();
  return result;
}

}  // namespace tandem::model
