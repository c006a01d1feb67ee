#include "advice/fidelity/packed_plan.hpp"

#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kProfile = "profile";

Json slowed_profile(const model::DeviceProfile& profile, const Json& plan, std::size_t device) {
  const double slowdown = plan.at("cluster").at("devices").at(device).at("slowdown").get<double>();
  return Json::parse(to_json(model::slowed(profile, slowdown)));
}

}  // namespace

std::string packed_plan(std::string_view plan_file, std::string_view source,
                        const model::DeviceProfile& profile) {
  static_cast<void>(planner::parse_plan_file(plan_file, source));
  Json plan = Json::parse(plan_file);
  Json& devices = plan.at("devices");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].at(kProfile) == slowed_profile(profile, plan, i)) devices[i].erase(kProfile);
  }
  return plan.dump();
}

std::string unpacked_plan(std::string_view packed, std::string_view source,
                          const model::DeviceProfile& profile) {
  try {
    Json plan = Json::parse(packed);
    Json& devices = plan.at("devices");
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!devices[i].contains(kProfile)) devices[i][kProfile] = slowed_profile(profile, plan, i);
    }
    return plan.dump();
  } catch (const nlohmann::json::exception& fault) {
    throw Error(std::string(source) + ": field 'plan' is not a packed plan (" + fault.what() +
                "); record it again with `tandem fidelity`");
  }
}

std::string with_profile(std::string_view plan_file, std::string_view source,
                         const model::DeviceProfile& profile) {
  planner::PlanFile file = planner::parse_plan_file(plan_file, source);
  planner::Plan& plan = file.plan;
  const model::DeviceProfile own =
      model::for_formats(profile, plan.model.formats, plan.model.cache);
  for (std::size_t i = 0; i < plan.profiles.size(); ++i)
    plan.profiles[i] = model::slowed(own, plan.cluster.devices()[i].slowdown);
  return planner::to_json(file);
}

}  // namespace tandem::study
