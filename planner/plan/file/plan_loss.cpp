#include "planner/plan/file/plan_loss.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem::planner {
namespace {

constexpr std::string_view kPlanLossUnit = "bits per byte of text";

}  // namespace

nlohmann::ordered_json json_of(const PlanLoss& loss) {
  return {{"unit", kPlanLossUnit},     {"most", loss.most},   {"total", loss.total()},
          {"messages", loss.messages}, {"cache", loss.cache}, {"dropping", loss.dropping}};
}

PlanLoss read_plan_loss(const model::JsonValue& loss) {
  constexpr double kMost = 64.0;
  constexpr double kRounding = 1e-9;
  loss.expect_keys({"unit", "most", "total", "messages", "cache", "dropping"});
  if (loss.at("unit").text() != kPlanLossUnit)
    loss.at("unit").fail("\"" + std::string(kPlanLossUnit) + "\"");
  PlanLoss read{.most = loss.at("most").number(0.0, kMost),
                .messages = loss.at("messages").number(0.0, kMost),
                .cache = loss.at("cache").number(0.0, kMost),
                .dropping = loss.at("dropping").number(0.0, kMost)};
  const model::JsonValue total = loss.at("total");
  if (std::abs(total.number(0.0, 3.0 * kMost) - read.total()) > kRounding)
    total.fail("the sum of messages, cache and dropping");
  if (read.total() > read.most + kRounding) total.fail("at most the bound, `most`");
  return read;
}

}  // namespace tandem::planner
