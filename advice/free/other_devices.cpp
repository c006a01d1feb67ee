#include "advice/free/other_devices.hpp"

#include <algorithm>
#include <utility>

#include "planner/search/device_choice.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using planner::Request;

std::string names_of(const model::Cluster& cluster) {
  std::string names;
  for (const model::Device& device : cluster.devices())
    names += (names.empty() ? "" : ",") + device.name;
  return names;
}

// "a,b/c" without the devices that are not in `cluster`.
std::string groups_on(const std::string& groups, const model::Cluster& cluster) {
  std::string text;
  std::string name;
  char before = '/';
  for (const char c : groups + '/') {
    if (c != ',' && c != '/') {
      name += c;
      continue;
    }
    const bool stays =
        std::ranges::find(cluster.devices(), name, &model::Device::name) != cluster.devices().end();
    if (stays) {
      if (!text.empty()) text += before;
      text += name;
      before = ',';
    }
    if (c == '/') before = '/';
    name.clear();
  }
  return text;
}

// The same with auto in place of compositions for which `request` has no groups of devices.
std::string possible_sums(const std::string& sums, const Request& request) {
  const std::size_t comma = sums.find(',');
  const planner::AllreduceChoice found = planner::possible_choice(
      request.cluster, planner::master_of(request),
      {.prompt = sums.substr(0, comma),
       .decode = comma == std::string::npos ? sums : sums.substr(comma + 1)});
  return comma == std::string::npos ? found.prompt : found.prompt + "," + found.decode;
}

// Keeps the groups of the devices that `ask` has; without one of several devices they sum nothing.
void keep_groups(Ask& ask) {
  Request& request = ask.request;
  if (request.groups != planner::kAutoPartition) {
    request.groups = groups_on(request.groups, request.cluster);
    ask.set("groups", request.groups);
  }
  if (planner::has_group(
          planner::parse_groups(request.groups, request.cluster, planner::master_of(request))))
    return;
  request.groups.clear();
  request.group_strategy.clear();
  request.allreduce.reset();
  request.tiles.reset();
  ask.leave_out({"groups", "group-strategy", "allreduce", "tiles"});
}

}  // namespace

Ask on_devices(Ask ask, const std::vector<bool>& used) {
  Request& request = ask.request;
  request.master =
      request.cluster.devices()[static_cast<std::size_t>(planner::master_of(request))].name;
  request = planner::for_devices(std::move(request), used);
  ask.set("devices", names_of(request.cluster));
  request.gather_weights = request.gather_weights && planner::can_gather(request.cluster);
  if (!request.groups.empty()) keep_groups(ask);
  if (request.partition.find(':') != std::string::npos) {
    request.partition = std::string(planner::kAutoPartition);
    ask.leave_out({"partition"});
  }
  if (!request.allreduce) return ask;
  if (std::string sums = possible_sums(*request.allreduce, request); sums != *request.allreduce) {
    request.allreduce = std::move(sums);
    ask.set("allreduce", *request.allreduce);
  }
  return ask;
}

Ask alone(Ask ask, const std::string& device) {
  const Request& given = ask.request;
  Request request{.model = given.model,
                  .cluster = given.cluster,
                  .strategy = "local",
                  .evaluate = given.evaluate,
                  .master = device,
                  .workload = given.workload,
                  .profiles = given.profiles,
                  .window = given.window,
                  .release = given.release,
                  .memory_limit = given.memory_limit,
                  .objective = given.objective,
                  .open = {.cache = given.open.cache}};
  ask.request = std::move(request);
  ask.prompt.steps = 0;
  if (ask.served) ask.served->steps = 0;
  ask.leave_out({"allreduce", "candidates", "decode-ffn", "decode-moves", "drop", "gather-weights",
                 "group-strategy", "groups", "head", "in-flight", "levels", "levels-overlap",
                 "master", "objective", "partition", "rounds", "sp", "tiles", "wire-type"});
  ask.set("strategy", "local");
  std::vector<bool> used(ask.request.cluster.devices().size(), false);
  used[static_cast<std::size_t>(ask.request.cluster.find(device))] = true;
  return on_devices(std::move(ask), used);
}

}  // namespace tandem::study
