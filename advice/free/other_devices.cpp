#include "advice/free/other_devices.hpp"

#include <algorithm>
#include <utility>

#include "model/base/word_list.hpp"
#include "planner/search/allreduce_search.hpp"
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
  for (const std::string& group : model::split_list(groups, '/')) {
    std::string members;
    for (const std::string& name : model::split_list(group)) {
      if (std::ranges::find(cluster.devices(), name, &model::Device::name) !=
          cluster.devices().end())
        members += (members.empty() ? "" : ",") + name;
    }
    if (!members.empty()) text += (text.empty() ? "" : "/") + members;
  }
  return text;
}

// The same with auto in place of compositions for which `request` has no groups of devices.
std::string possible_sums(const std::string& sums, const Request& request) {
  const planner::AllreduceChoice wanted = planner::parse_allreduce_choice(sums);
  const planner::AllreduceChoice found =
      planner::possible_choice(request.cluster, planner::master_of(request), wanted);
  if (found == wanted) return sums;
  return found.prompt == found.decode ? found.prompt : found.prompt + "," + found.decode;
}

// Has one device a stage, as many rounds as now.
void keep_stages_single(Ask& ask) {
  const Request& request = ask.request;
  ask.request.open_axes.stages = false;
  ask.set("groups", "none");
  ask.set("rounds", request.rounds ? std::to_string(*request.rounds) : "auto");
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
  request.open_axes.sums = false;
  ask.leave_out({"group-strategy", "allreduce", "tiles"});
  keep_stages_single(ask);
}

}  // namespace

void open_sums(Request& request) {
  request.allreduce.reset();
  if (!request.groups.empty()) request.allreduce = planner::kAutoAllreduce;
  request.open_axes.sums = true;
}

Ask on_devices(Ask ask, const std::vector<bool>& used) {
  Request& request = ask.request;
  request.master =
      request.cluster.devices()[static_cast<std::size_t>(planner::master_of(request))].name;
  request = planner::for_devices(std::move(request), used);
  ask.set("devices", names_of(request.cluster));
  if (request.gather_weights && !planner::can_gather(request.cluster)) {
    request.gather_weights = false;
    ask.leave_out({"gather-weights"});
  }
  if (!request.groups.empty()) keep_groups(ask);
  if (request.partition.find(':') != std::string::npos) {
    request.partition = std::string(planner::kAutoPartition);
    ask.leave_out({"partition"});
    request.open_axes.parts = true;
    if (planner::find_strategy(request.strategy).sharding.splits_layers() && request.groups.empty())
      keep_stages_single(ask);
  }
  if (request.allreduce.value_or("").empty()) return ask;  // nothing is summed, or as is usual
  if (std::string sums = possible_sums(*request.allreduce, request); sums != *request.allreduce) {
    ask.set("allreduce", sums);
    request.allreduce = std::move(sums);
    if (*request.allreduce == planner::kAutoAllreduce) open_sums(request);
  }
  return ask;
}

Ask alone(Ask ask, const std::string& device) {
  const Request& given = ask.request;
  const bool had_to = reads_whole(given);
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
  // What was read whole because it had to be.
  if (!ask.served && !ask.prompt.best && ask.prompt.rows == 0 && had_to &&
      !reads_whole(ask.request)) {
    ask.prompt.best = true;
    ask.set("chunk", "auto");
  }
  ask.leave_out({"allreduce", "candidates", "decode-ffn", "decode-moves", "drop", "gather-weights",
                 "group-strategy", "groups", "head", "in-flight", "levels", "levels-overlap",
                 "master", "objective", "partition", "rounds", "sp", "tiles", "wire-type"});
  ask.set("strategy", "local");
  std::vector<bool> used(ask.request.cluster.devices().size(), false);
  used[static_cast<std::size_t>(ask.request.cluster.find(device))] = true;
  return on_devices(std::move(ask), used);
}

}  // namespace tandem::study
