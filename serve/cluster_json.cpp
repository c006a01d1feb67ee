#include "serve/cluster_json.hpp"

#include <cstddef>
#include <utility>

#include "model/base/range.hpp"

namespace tandem::serve {
namespace {

using Json = nlohmann::ordered_json;

Json range_json(const model::Range& range) {
  return range.empty() ? Json() : Json{range.begin, range.end};
}

Json memory_json(const model::MemoryUse& memory) {
  return {{"weights", memory.weights},         {"kv_cache", memory.kv_cache},
          {"activations", memory.activations}, {"buffers", memory.buffers},
          {"program", memory.program},         {"total", memory.total()}};
}

Json device_json(const planner::Plan& plan, std::size_t d, double all_weights) {
  const model::Device& device = plan.cluster.devices()[d];
  const planner::DevicePlan& own = plan.devices[d];
  Json layers = Json::array();
  for (std::size_t i = 0; !own.share.layers.empty() && i < own.share.layers.run_count(); ++i) {
    const model::Range run = own.share.layers.run(i);
    layers.push_back({run.begin, run.end - 1});
  }
  const double weights = model::weight_bytes(plan.model, own.share);
  return {{"name", device.name},
          {"is_master", d == static_cast<std::size_t>(plan.master)},
          {"layers", std::move(layers)},
          {"heads", range_json(own.share.computed_heads())},
          {"columns", range_json(own.share.computed_columns())},
          {"vocabulary", range_json(own.share.vocabulary)},
          {"embedding", own.share.embedding},
          {"head", own.share.head},
          {"weights_share", all_weights > 0.0 ? weights / all_weights : 0.0},
          {"streams", own.window.streams()},
          {"memory_bytes", memory_json(own.memory)},
          {"budget_bytes", device.memory.value()}};
}

}  // namespace

Json devices_json(const planner::Plan& plan) {
  double all_weights = 0.0;
  for (const planner::DevicePlan& device : plan.devices)
    all_weights += model::weight_bytes(plan.model, device.share);
  Json devices = Json::array();
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    devices.push_back(device_json(plan, d, all_weights));
  return devices;
}

Json cluster_json(const planner::Plan& plan, const ClusterFacts& facts) {
  Json json{{"model", facts.model},
            {"chats", facts.chats},
            {"embeds", facts.embeds},
            {"strategy", plan.strategy},
            {"policy", facts.policy},
            {"together", facts.together},
            {"platform", plan.cluster.name()},
            {"devices_are", facts.devices},
            {"dilation", facts.dilation},
            {"layers", plan.model.layers}};
  json["devices"] = devices_json(plan);
  json["routers"] = plan.cluster.routers();
  Json& links = json["links"] = Json::array();
  for (const model::Link& link : plan.cluster.links()) {
    links.push_back({{"name", link.name},
                     {"bandwidth_bytes_per_s", link.bandwidth.value()},
                     {"latency_s", link.latency.value()},
                     {"shared", link.sharing == model::Sharing::shared}});
  }
  Json& edges = json["edges"] = Json::array();
  for (const model::Edge& edge : plan.cluster.edges()) {
    Json names = Json::array();
    for (const model::Hop& hop : edge.hops)
      names.push_back(plan.cluster.links()[static_cast<std::size_t>(hop.link)].name);
    edges.push_back({{"from", edge.from}, {"to", edge.to}, {"links", std::move(names)}});
  }
  json["planner"] = {{"available", facts.no_planner.empty()},
                     {"reason", facts.no_planner.empty() ? Json() : Json(facts.no_planner)},
                     {"formats", facts.formats},
                     {"prompt_tokens", plan.workload.prompt_tokens},
                     {"new_tokens", plan.workload.new_tokens}};
  return json;
}

}  // namespace tandem::serve
