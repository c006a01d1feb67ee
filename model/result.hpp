#pragma once

// The result file, schema "tandem.result/2": the same for predictions and measurements.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/trace.hpp"

namespace tandem::model {

struct ResultPlan {
  std::string sha256{};
  std::string strategy{};
  std::string model{};
  std::string platform{};
};

struct KindResult {  // one device, one task kind
  std::string device{};
  TaskKind kind = TaskKind::add;
  KindMetrics metrics{};
};

struct Result {
  std::string kind{};                 // "predicted", "measured"
  std::string evaluator{};            // "simgrid", "analytic", "exec"
  std::optional<std::string> pace{};  // "measured", "nominal"; absent: real speed, or a prediction
  ResultPlan plan{};
  std::map<std::string, std::string> environment{};  // build, machine, network factors, drift, seed
  Metrics metrics{};
  std::vector<std::int32_t> tokens{};  // empty in a prediction
  std::optional<Steady> steady{};      // absent without a memory scheduler
  std::vector<DeviceMetrics> devices{};
  std::vector<LinkMetrics> links{};
  std::vector<KindResult> task_kinds{};
  std::optional<std::string> trace{};  // file of the run's trace, beside the result
};

[[nodiscard]] std::string to_json(const Result& result);
// Throws Error naming `source`, the field, its value, what was expected and the remedy.
[[nodiscard]] Result parse_result_json(std::string_view text, std::string_view source);

}  // namespace tandem::model
