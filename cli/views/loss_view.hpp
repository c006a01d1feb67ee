#pragma once

// What `tandem plan --max-loss` prints of the types of messages and cache.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/file/plan_loss.hpp"

namespace tandem::cli {

// "0.0003": bits per byte. Prices have seven places: what is beyond nine is rounding of their sum.
[[nodiscard]] std::string of_bits(double loss);

// A type of the messages or of the cache, in the plan in place of its own.
struct TypeOption {
  std::string what;  // "messages", "cache"
  std::string type;
  std::optional<double> loss{};     // bits per byte; absent: not measured
  std::optional<double> seconds{};  // by the objective, of the same shares; absent: does not fit
  bool selected = false;
  bool within = false;  // the bound, beside what else the plan loses
};

struct LossAnswer {
  planner::PlanLoss loss;
  std::vector<TypeOption> options{};  // each kind's, widest first
  std::string source{};               // the file of measured losses
  std::vector<std::string> remarks{};
};

void print_loss(const LossAnswer& answer, std::ostream& out);
// The same as the field `loss` of `--json`.
[[nodiscard]] nlohmann::ordered_json loss_json(const LossAnswer& answer);

}  // namespace tandem::cli
