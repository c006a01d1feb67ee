#include "cli/cap_answers.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "cli/flags/plan_flags.hpp"
#include "cli/plan_answers.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/search/objective.hpp"

namespace tandem::cli {
namespace {

using model::Cluster;
using model::Device;
using planner::Plan;
using planner::Request;

// `capped` with the values that its devices have as a whole. Disks, which shares do not limit,
// stay as they were measured.
Cluster whole_devices(const Cluster& capped, const sim::Platform& scenario) {
  return model::with_devices(capped, [&](Device& device) {
    if (!scenario.shares.contains(device.name)) return;
    const Cluster& whole = *scenario.uncapped;
    const auto disk = device.disk_bandwidth;
    device = whole.devices()[static_cast<std::size_t>(whole.find(device.name))];
    device.disk_bandwidth = disk;
  });
}

// `plan` on the devices and profiles of `whole`.
Plan on_whole_devices(Plan plan, const Request& whole, const sim::Platform& scenario) {
  plan.cluster = whole_devices(plan.cluster, scenario);
  for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
    const std::string& name = plan.cluster.devices()[d].name;
    if (!scenario.shares.contains(name)) continue;
    const auto at = static_cast<std::size_t>(whole.cluster.find(name));
    plan.profiles[d] = model::for_formats(whole.profiles[at], plan.model.formats, plan.model.cache);
  }
  return plan;
}

planner::SearchEffort::Limits quarter(planner::SearchEffort::Limits limits) {
  if (limits.seconds) limits.seconds = *limits.seconds / 4.0;
  if (limits.evaluations) limits.evaluations = std::max<std::int64_t>(1, *limits.evaluations / 4);
  return limits;
}

std::string names_of(const std::map<std::string, model::DeviceShare>& shares) {
  std::string names;
  std::size_t left = shares.size();
  for (const auto& [name, unused] : shares) {
    if (!names.empty()) names += left == 1 ? " and " : ", ";
    names += name;
    --left;
  }
  return names;
}

}  // namespace

planner::SearchEffort::Limits without_cap_cost(planner::SearchEffort::Limits limits) {
  if (limits.seconds) limits.seconds = *limits.seconds * 0.8;
  if (limits.evaluations)
    limits.evaluations = std::max<std::int64_t>(1, *limits.evaluations * 4 / 5);
  return limits;
}

std::map<std::string, model::DeviceShare> shares_of(
    const Plan& plan, const std::map<std::string, model::DeviceShare>& shares) {
  std::map<std::string, model::DeviceShare> used;
  for (const Device& device : plan.cluster.devices()) {
    const auto found = shares.find(device.name);
    if (found != shares.end()) used.insert(*found);
  }
  return used;
}

CapCost cap_cost(const Options& options, const sim::Platform& scenario, const Request& request,
                 const planner::PlanFile& file, const CapSearch& search) {
  const auto time_of = [&](const Plan& plan, std::int64_t chunk) {
    return study::time_of(plan, request.objective, chunk);
  };
  const Plan& plan = file.plan;
  CapCost cost{.shares = file.shares,
               .master = plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name,
               .seconds = time_of(plan, search.chunk)};
  for (std::size_t d = 0; d < plan.profiles.size(); ++d)
    cost.threads[plan.cluster.devices()[d].name] = plan.profiles[d].threads;
  Request whole = request;
  whole.model = plan.model;
  whole.cluster = whole_devices(request.cluster, scenario);
  whole.profiles = device_profiles(options, whole.cluster, scenario.processors, {});
  cost.uncapped_s =
      std::min(cost.seconds, time_of(on_whole_devices(plan, whole, scenario), search.chunk));
  std::optional<Served> served;
  std::optional<study::Choice> choice;
  const planner::SearchEffort::Limits limits = quarter(search.limits);
  const Answer other =
      search.any ? answer_of_any(options, whole, {}, search.reading, served, limits, choice)
                 : answer_to(options, whole, search.reading, served, limits);
  if (const auto* const found = std::get_if<Plan>(&other))
    cost.uncapped_s = std::min(cost.uncapped_s, time_of(*found, served ? served->chunk : 0));
  return cost;
}

std::string cap_text(const CapCost& cost) {
  const double percent = 100.0 * (cost.seconds / cost.uncapped_s - 1.0);
  std::string text = std::string(cost.shares.size() == 1 ? "The cap on " : "The caps on ") +
                     names_of(cost.shares) + (cost.shares.size() == 1 ? " costs " : " cost ");
  text += percent < 0.05 ? std::string("no time")
                         : model::fixed(percent, percent < 9.95 ? 1 : 0) +
                               "%: " + to_text(model::Seconds{cost.seconds}) + " instead of " +
                               to_text(model::Seconds{cost.uncapped_s});
  text += ".\n";
  for (const auto& [name, share] : cost.shares) {
    const std::int64_t cores = model::cores_of(share);
    text += name + " may use " + model::fixed(100.0 * share.share, 0) + "% of its memory";
    if (cores == share.cores) {
      text += share.cores == 1 ? " and its only core, which is not divided.\n"
                               : " and all of its cores.\n";
      continue;
    }
    text += " and " + std::to_string(cores) + " of " + std::to_string(share.cores) + " cores. ";
    const auto known = cost.threads.find(name);
    const std::int64_t threads =
        known == cost.threads.end() || known->second == 0 ? cores : known->second;
    text += name == cost.master ? "`tandem run` there computes with " + std::to_string(threads) +
                                      (threads == 1 ? " thread.\n" : " threads.\n")
                                : "Start `tandem worker` there with --threads " +
                                      std::to_string(threads) + ": the plan does not enforce it.\n";
  }
  return text;
}

nlohmann::ordered_json cap_json(const CapCost& cost) {
  nlohmann::ordered_json json{{"seconds", cost.seconds}, {"uncapped_s", cost.uncapped_s}};
  for (const auto& [name, share] : cost.shares)
    json["shares"][name] = {
        {"share", share.share}, {"cores", share.cores}, {"cores_used", model::cores_of(share)}};
  return json;
}

std::string cap_remark(const Cluster& cluster,
                       const std::map<std::string, model::DeviceShare>& shares) {
  std::string text;
  for (const Device& device : cluster.devices()) {
    const auto found = shares.find(device.name);
    if (found == shares.end()) continue;
    text += (text.empty() ? "capped: " : ", ") + device.name + " to " +
            model::fixed(100.0 * found->second.share, 0) + "% of its memory and cores";
  }
  return text.empty() ? text : text + " (tandem:share, --share)\n";
}

}  // namespace tandem::cli
