#include <tandem/result.hpp>
#include <utility>

#include "api/data.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/report/comparison.hpp"

namespace tandem {

Result::Result(std::shared_ptr<const Data> data) : data_(std::move(data)) {
  require(data_ != nullptr, "a result needs data");
}

Result Result::read(const std::filesystem::path& file) {
  return parse(exec::read_text(file, kLargestText), file.string());
}

Result Result::parse(std::string_view json, std::string_view source) {
  return Result(std::make_shared<const Data>(Data{model::parse_result_json(json, source)}));
}

std::string Result::to_json() const { return model::to_json(data_->result); }
std::string Result::kind() const { return std::string(kind_of(data_->result.origin)); }
bool Result::measured() const { return kind() == "measured"; }
double Result::ttft_s() const { return data_->result.metrics.ttft_s; }

std::optional<double> Result::token_latency_s() const {
  const model::Metrics& metrics = data_->result.metrics;
  if (metrics.token_latency) return metrics.token_latency->mean;
  const std::vector<double> gaps = metrics.token_latencies_s();
  if (gaps.empty()) return std::nullopt;
  return model::latency_stats(gaps).mean;
}

std::vector<double> Result::token_times_s() const { return data_->result.metrics.token_times_s; }
std::vector<std::int32_t> Result::tokens() const { return data_->result.tokens; }

std::vector<Result::DeviceUse> Result::devices() const {
  std::vector<DeviceUse> uses;
  for (const model::DeviceMetrics& device : data_->result.devices)
    uses.push_back({.name = device.name,
                    .peak_memory_bytes = device.peak_memory.total(),
                    .bytes_sent = device.bytes_sent,
                    .computing_s = device.busy_cpu_s});
  return uses;
}

std::vector<Deviation> compare(const Result& predicted, const Result& run) {
  if (predicted.kind() != "predicted" || run.kind() == "predicted")
    throw Error("compare: results of kinds '" + predicted.kind() + "' and '" + run.kind() +
                "', expected 'predicted' and then 'measured' or 'replayed'; give the prediction "
                "first, then the run");
  model::Comparison comparison = model::compare(
      {{predicted.kind(), predicted.data().result}, {run.kind(), run.data().result}}, 1);
  std::vector<Deviation> rows;
  for (model::ComparedRow& row : comparison.rows)
    rows.push_back({std::move(row.scope), std::move(row.name), std::move(row.metric),
                    std::move(row.unit), row.values[0], row.values[1]});
  return rows;
}

}  // namespace tandem
