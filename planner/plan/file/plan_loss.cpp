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
  nlohmann::ordered_json json{{"unit", kPlanLossUnit}};
  if (loss.most) json["most"] = *loss.most;
  json["total"] = loss.total();
  json["messages"] = loss.messages;
  json["cache"] = loss.cache;
  json["dropping"] = loss.dropping;
  return json;
}

PlanLoss read_plan_loss(const model::JsonValue& loss) {
  constexpr double kMost = 64.0;
  constexpr double kRounding = 1e-9;
  loss.expect_keys({"unit", "most", "total", "messages", "cache", "dropping"});
  if (loss.at("unit").text() != kPlanLossUnit)
    loss.at("unit").fail("\"" + std::string(kPlanLossUnit) + "\"");
  PlanLoss read{.messages = loss.at("messages").number(0.0, kMost),
                .cache = loss.at("cache").number(0.0, kMost),
                .dropping = loss.at("dropping").number(0.0, kMost)};
  if (const auto most = loss.find("most")) read.most = most->number(0.0, kMost);
  const model::JsonValue total = loss.at("total");
  if (std::abs(total.number(0.0, 3.0 * kMost) - read.total()) > kRounding)
    total.fail("the sum of messages, cache and dropping");
  if (read.most && read.total() > *read.most + kRounding) total.fail("at most the bound, `most`");
  return read;
}

}  // namespace tandem::planner
