#include "advice/fidelity/recording.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/statistics.hpp"
#include "model/report/comparability.hpp"

namespace tandem::study {
namespace {

using Json = nlohmann::ordered_json;
using model::JsonValue;

constexpr std::string_view kSchema = "tandem.fidelity/1";
constexpr std::string_view kRemedy = "record it again with `tandem fidelity`";
constexpr std::size_t kMostItems = 100'000;

double spread_of_times(const std::vector<double>& times) {
  if (times.empty()) return 0.0;
  const auto [least, most] = std::ranges::minmax_element(times);
  return *most / *least - 1.0;
}

Quantity& place(std::vector<Quantity>& quantities, const Quantity& like) {
  const auto found = std::ranges::find_if(quantities, [&](const Quantity& one) {
    return one.scope == like.scope && one.name == like.name && one.metric == like.metric;
  });
  return found != quantities.end() ? *found : quantities.emplace_back(like);
}

// The values of one result, each with what it adds to.
struct MetricValue {
  Quantity of;  // without values
  double value = 0.0;
};

// What `result` says, predicted or measured.
std::vector<MetricValue> values_of(const model::Result& result) {
  std::vector<MetricValue> values;
  const auto add = [&](Quantity of, double value) {
    if (!std::isfinite(value)) return;
    const auto found = std::ranges::find_if(values, [&](const MetricValue& one) {
      return one.of.scope == of.scope && one.of.name == of.name;
    });
    if (found != values.end() && of.scope != "run") {
      found->value += value;
    } else {
      values.push_back({std::move(of), value});
    }
  };
  const model::Metrics& metrics = result.metrics;
  if (metrics.token_latency) {  // several requests, each with its own first token
    std::vector<double> first_tokens;
    for (const model::RequestResult& request : result.requests)
      first_tokens.push_back(request.ttft_s);
    add({"run", "", "ttft", "s"}, model::mean(first_tokens));
    add({"run", "", "token_latency_mean", "s"}, metrics.token_latency->mean);
  } else {
    add({"run", "", "ttft", "s"}, metrics.ttft_s);
    add({"run", "", "token_latency_mean", "s"}, model::mean(metrics.token_latencies_s()));
  }
  for (const model::DeviceMetrics& device : result.devices)
    add({"device", device.name, "memory_total", "bytes"}, device.peak_memory.total());
  for (const model::KindResult& kind : result.task_kinds)
    add({"kind", std::string(to_string(kind.kind)), "total", "s"}, kind.metrics.total_s);
  for (const model::DeviceMetrics& device : result.devices) {
    add({"lane", "cpu", "total", "s"}, device.busy_cpu_s);
    add({"lane", "disk", "total", "s"}, device.busy_disk_s);
    add({"lane", "channel", "total", "s"}, device.busy_channel_s);
    add({"lane", "stall", "total", "s"}, device.stall_s);
  }
  return values;
}

// The 90% intervals of a prediction: `interval_90` beside the metric it is of, by its key.
std::optional<Interval> interval_of(const Json& predicted, std::string_view metric) {
  const std::string key = metric == "ttft" ? "ttft_s" : "token_latency_s";
  const auto metrics = predicted.find("metrics");
  if (metrics == predicted.end() || !metrics->is_object()) return std::nullopt;
  const auto intervals = metrics->find("interval_90");
  if (intervals == metrics->end() || !intervals->is_object()) return std::nullopt;
  auto found = intervals->find(key);
  if (found == intervals->end()) return std::nullopt;
  const Json& value = found->is_object() && found->contains("mean") ? found->at("mean") : *found;
  if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
    return std::nullopt;
  return Interval{value[0].get<double>(), value[1].get<double>()};
}

Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> read_number(const JsonValue& value) {
  if (value.is_null()) return std::nullopt;
  return value.number(-model::kMaxNumber, model::kMaxNumber);
}

std::vector<double> read_numbers(const JsonValue& list) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < list.size(kMostItems); ++i)
    numbers.push_back(list.at(i).number(-model::kMaxNumber, model::kMaxNumber));
  return numbers;
}

std::vector<double> read_times(const JsonValue& list) {
  std::vector<double> times;
  for (std::size_t i = 0; i < list.size(kMostItems); ++i)
    times.push_back(list.at(i).number(1e-12, 1e6));
  return times;
}

Json to_json(const Quantity& quantity) {
  Json row{{"scope", quantity.scope},
           {"name", quantity.name},
           {"metric", quantity.metric},
           {"unit", quantity.unit},
           {"predicted", optional_number(quantity.predicted)}};
  if (quantity.predicted_after) row["after"] = *quantity.predicted_after;
  if (quantity.interval_90)
    row["interval_90"] = {quantity.interval_90->first, quantity.interval_90->second};
  row["measured"] = quantity.measured;
  return row;
}

Quantity read_quantity(const JsonValue& row) {
  row.expect_keys(
      {"scope", "name", "metric", "unit", "predicted", "after", "interval_90", "measured"});
  Quantity quantity{.scope = row.at("scope").line(),
                    .name = row.at("name").line(),
                    .metric = row.at("metric").line(),
                    .unit = row.at("unit").line()};
  quantity.predicted = read_number(row.at("predicted"));
  if (const auto after = row.find("after")) quantity.predicted_after = read_number(*after);
  if (const auto interval = row.find("interval_90")) {
    const std::vector<double> ends = read_numbers(*interval);
    if (ends.size() != 2) interval->fail("two numbers, low and high");
    quantity.interval_90 = {ends[0], ends[1]};
  }
  quantity.measured = read_numbers(row.at("measured"));
  return quantity;
}

}  // namespace

std::optional<double> Quantity::median() const {
  if (measured.empty()) return std::nullopt;
  return model::quantile(measured, 0.5);
}

std::optional<double> Quantity::percent() const {
  const std::optional<double> middle = median();
  if (!predicted || !middle) return std::nullopt;
  if (*predicted == *middle) return 0.0;
  const double value = 100.0 * (*predicted - *middle) / *middle;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

double ReferenceTimes::drift() const {
  return std::max(spread_of_times(cpu_s), spread_of_times(wall_s));
}

std::string Recording::tcp() const {
  const auto found = environment.find("tcp");
  return found == environment.end() ? std::string() : found->second;
}

std::string Recording::file_name(std::string_view configuration, std::string_view way,
                                 bool over_tcp) {
  std::string name(configuration);
  if (over_tcp) name.append(".").append(way);
  return name;
}

std::string_view Recording::level(std::string_view factor) const {
  for (const auto& [name, level] : levels)
    if (name == factor) return level;
  return {};
}

const Quantity* Recording::find(std::string_view scope, std::string_view name,
                                std::string_view metric) const {
  const auto found = std::ranges::find_if(quantities, [&](const Quantity& one) {
    return one.scope == scope && one.name == name && one.metric == metric;
  });
  return found == quantities.end() ? nullptr : &*found;
}

std::vector<Quantity> predicted_quantities(const model::Result& predicted,
                                           std::string_view predicted_json) {
  const Json json = Json::parse(predicted_json);
  std::vector<Quantity> quantities;
  for (const auto& [of, value] : values_of(predicted)) {
    Quantity& quantity = place(quantities, of);
    quantity.predicted = value;
    if (of.scope == "run") quantity.interval_90 = interval_of(json, of.metric);
  }
  return quantities;
}

std::vector<Quantity> quantities_of(const model::Result& predicted, std::string_view predicted_json,
                                    const std::optional<model::Result>& after,
                                    std::span<const model::Result> runs) {
  if (runs.empty()) throw Error("fidelity: no runs, expected at least one to compare with");
  std::vector<Quantity> quantities = predicted_quantities(predicted, predicted_json);
  if (after) {
    for (const auto& [of, value] : values_of(*after))
      if (of.scope == "run") place(quantities, of).predicted_after = value;
  }
  for (const model::Result& run : runs) {
    if (kind_of(run.origin) != "measured")
      throw Error("fidelity: a run's result has kind '" + std::string(kind_of(run.origin)) +
                  "', expected 'measured'; run at measured pace");
    model::check_comparable(
        {{.label = "prediction", .result = predicted}, {.label = "run", .result = run}}, 1);
    for (const auto& [of, value] : values_of(run)) place(quantities, of).measured.push_back(value);
  }
  return quantities;
}

std::string to_json(const Recording& recording) {
  Json levels = Json::object();
  for (const auto& [factor, level] : recording.levels) levels[factor] = level;
  Json quantities = Json::array();
  for (const Quantity& quantity : recording.quantities) quantities.push_back(to_json(quantity));
  const Json json{
      {"schema", kSchema},
      {"configuration", recording.configuration},
      {"factors", std::move(levels)},
      {"way", recording.way},
      {"environment", recording.environment},
      {"reference", {{"cpu_s", recording.reference.cpu_s}, {"wall_s", recording.reference.wall_s}}},
      {"quantities", std::move(quantities)},
      {"profile", Json::parse(recording.profile)},
      {"plan", Json::parse(recording.plan)}};
  return json.dump() + '\n';
}

Recording parse_recording(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, kRemedy);
  const JsonValue root = document.root();
  model::expect_schema(root, kSchema);
  root.expect_keys({"schema", "configuration", "factors", "way", "environment", "reference",
                    "quantities", "profile", "plan"});
  Recording recording{.configuration = root.at("configuration").line(),
                      .way = root.at("way").line()};
  if (!root.at("factors").is_object()) root.at("factors").fail("an object");
  // The document sorts keys; factors keep the order in which they were written.
  const Json ordered = Json::parse(text);
  for (const auto& [factor, level] : ordered.at("factors").items())
    recording.levels.emplace_back(factor, root.at("factors").at(factor).line());
  const JsonValue environment = root.at("environment");
  if (!environment.is_object()) environment.fail("an object");
  for (const auto& [key, value] : environment.json().items())
    recording.environment[key] = environment.at(key).line();
  recording.reference.cpu_s = read_times(root.at("reference").at("cpu_s"));
  recording.reference.wall_s = read_times(root.at("reference").at("wall_s"));
  const JsonValue quantities = root.at("quantities");
  for (std::size_t i = 0; i < quantities.size(kMostItems); ++i)
    recording.quantities.push_back(read_quantity(quantities.at(i)));
  for (const auto* const key : {"profile", "plan"})
    if (!root.at(key).is_object()) root.at(key).fail("an object");
  recording.profile = ordered.at("profile").dump();
  recording.plan = ordered.at("plan").dump();
  return recording;
}

std::vector<Change> changes(const Recording& recording, const std::vector<Quantity>& now,
                            double tolerance) {
  std::vector<Quantity> all = recording.quantities;
  for (const Quantity& one : now)
    static_cast<void>(place(all, {one.scope, one.name, one.metric, one.unit}));
  std::vector<Change> found;
  for (const Quantity& one : all) {
    const Quantity* const before = recording.find(one.scope, one.name, one.metric);
    const auto after = std::ranges::find_if(now, [&](const Quantity& other) {
      return other.scope == one.scope && other.name == one.name && other.metric == one.metric;
    });
    const std::optional<double> recorded = before != nullptr ? before->predicted : std::nullopt;
    const std::optional<double> predicted =
        after != now.end() ? after->predicted : std::optional<double>();
    const bool equal = recorded && predicted
                           ? std::abs(*predicted - *recorded) <= tolerance * std::abs(*recorded)
                           : recorded.has_value() == predicted.has_value();
    if (equal) continue;
    std::string name = one.scope + ' ' + one.name + (one.name.empty() ? "" : " ") + one.metric;
    found.push_back({recording.configuration, std::move(name), recorded, predicted, one.median()});
  }
  return found;
}

}  // namespace tandem::study
