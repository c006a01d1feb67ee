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
bool Result::measured() const { return data_->result.kind == "measured"; }
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

std::vector<Deviation> compare(const Result& predicted, const Result& measured) {
  std::vector<Deviation> rows;
  for (model::Deviation& row : model::compare(predicted.data().result, measured.data().result).rows)
    rows.push_back({std::move(row.scope), std::move(row.name), std::move(row.metric),
                    std::move(row.unit), row.predicted, row.measured});
  return rows;
}

}  // namespace tandem
