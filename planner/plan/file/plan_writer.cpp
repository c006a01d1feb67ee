// Writes the plan's JSON. Every key that has a unit ends in it.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/file/plan_loss.hpp"
#include "planner/plan/file/plan_words.hpp"
#include "planner/serving/planned_service_json.hpp"

namespace tandem::planner {
namespace {

using Json = nlohmann::ordered_json;
using model::Range;

template <class Enum, std::size_t N>
std::string_view name_of(const std::array<std::pair<Enum, std::string_view>, N>& names,
                         Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw std::logic_error("plan: value outside its enumeration");
}

Json to_json(Range range) { return Json::array({range.begin, range.end}); }

// One run as a range, several as a list of them.
Json to_json(const model::LayerRuns& layers) {
  if (layers.run_count() == 1) return to_json(layers.run(0));
  Json runs = Json::array();
  for (std::size_t i = 0; i < layers.run_count(); ++i) runs.push_back(to_json(layers.run(i)));
  return runs;
}

Json to_json(const model::MemoryUse& memory) {
  return {{"weights", memory.weights},
          {"kv_cache", memory.kv_cache},
          {"activations", memory.activations},
          {"buffers", memory.buffers},
          {"program", memory.program}};
}

Json to_json(const model::Device& device) {
  Json json{{"name", device.name},
            {"cores", device.cores},
            {"flops_per_s", device.flop_rate.value()},
            {"memory_bandwidth_Bps", device.memory_bandwidth.value()},
            {"memory_bytes", device.memory.value()},
            {"disk_bandwidth_Bps", device.disk_bandwidth.value()},
            {"slowdown", device.slowdown}};
  for (const model::SpeedChange& change : device.speeds)
    json["speeds"].push_back({{"at_s", change.at.value()}, {"factor", change.factor}});
  return json;
}

// Omits absent properties of a link.
Json to_json(const model::Link& link) {
  Json json{{"name", link.name},
            {"latency_s", link.latency.value()},
            {"bandwidth_Bps", link.bandwidth.value()},
            {"sharing", name_of(kSharings, link.sharing)}};
  if (link.jitter.value() > 0.0) json["jitter_s"] = link.jitter.value();
  if (link.loss > 0.0) json["loss"] = link.loss;
  if (link.background.value() > 0.0) json["background_Bps"] = link.background.value();
  for (const model::LinkChange& change : link.changes) {
    Json one{{"at_s", change.at.value()}, {"direction", name_of(kDirections, change.direction)}};
    if (change.bandwidth) one["bandwidth_Bps"] = change.bandwidth->value();
    if (change.latency) one["latency_s"] = change.latency->value();
    json["changes"].push_back(std::move(one));
  }
  return json;
}

Json to_json(const model::Edge& edge, const std::vector<model::Link>& links) {
  Json hops = Json::array();
  for (const model::Hop& hop : edge.hops) {
    hops.push_back({{"link", links.at(static_cast<std::size_t>(hop.link)).name},
                    {"direction", name_of(kDirections, hop.direction)}});
  }
  return {{"from", edge.from},
          {"to", edge.to},
          {"symmetrical", edge.symmetrical},
          {"hops", std::move(hops)}};
}

Json to_json(const model::Cluster& cluster) {
  Json devices = Json::array();
  Json links = Json::array();
  Json routes = Json::array();
  for (const model::Device& device : cluster.devices()) devices.push_back(to_json(device));
  for (const model::Link& link : cluster.links()) links.push_back(to_json(link));
  for (const model::Edge& edge : cluster.edges()) routes.push_back(to_json(edge, cluster.links()));
  return {{"name", cluster.name()},
          {"devices", std::move(devices)},
          {"routers", cluster.routers()},
          {"links", std::move(links)},
          {"routes", std::move(routes)}};
}

// A range is [begin, end): half-open.
Json to_json(const std::string& name, const DevicePlan& device,
             const model::DeviceProfile& profile) {
  Json json{{"name", name},
            {"layers", to_json(device.share.layers)},
            {"heads", to_json(device.share.heads)},
            {"columns", to_json(device.share.columns)},
            {"embedding", device.share.embedding},
            {"head", device.share.head},
            {"window", {{"blocks", device.window.blocks}, {"retain", device.window.retain}}},
            {"memory_bytes", to_json(device.memory)},
            {"profile", Json::parse(model::to_json(profile))}};
  if (!device.share.vocabulary.empty()) json["vocabulary"] = to_json(device.share.vocabulary);
  const model::Part& part = device.share.part;
  for (const auto& [key, range] :
       {std::pair{"positions", part.positions}, std::pair{"heads", part.heads},
        std::pair{"columns", part.columns}}) {
    if (!range.empty()) json["part"][key] = to_json(range);
  }
  return json;
}

// Formats of weights and of the cache are written where they are not f32, so that what does not
// know of them refuses them.
Json model_json(const model::Transformer& transformer) {
  Json json{{"name", transformer.name},
            {"config", Json::parse(model::to_config_json(transformer))}};
  if (transformer.cache != model::CacheFormat::f32) json["cache"] = to_string(transformer.cache);
  if (transformer.formats == model::WeightFormats()) return json;
  json["weights"] = Json::parse(model::to_json(transformer.formats));
  return json;
}

Json layout_json(const Plan& plan) {
  Json order = Json::array();
  Json groups = Json::array();
  for (const model::DeviceIndex device : plan.layout.order) {
    const auto d = static_cast<std::size_t>(device);
    order.push_back(plan.cluster.devices().at(d).name);
    groups.push_back(plan.layout.group.at(d));
  }
  return {{"order", std::move(order)}, {"groups", std::move(groups)}};
}

Json sparse_json(const SparseAttention& sparse, const model::Cluster& cluster) {
  Json order = Json::array();
  for (const model::DeviceIndex device : sparse.order)
    order.push_back(cluster.devices()[static_cast<std::size_t>(device)].name);
  Json drop = Json::array();
  for (const std::vector<DropRatio>& by_level : sparse.drop) {
    Json& layer = drop.emplace_back(Json::array());
    for (const DropRatio& ratio : by_level)
      layer.push_back(ratio.parts.size() == 1 ? Json(ratio.parts.front()) : Json(ratio.parts));
  }
  Json json{{"order", std::move(order)}, {"groups", sparse.groups}, {"drop", std::move(drop)}};
  if (sparse.overlap) json["overlap"] = true;
  if (!sparse.tiles.empty()) json["tiles"] = sparse.tiles;
  return json;
}

Json json_of(const Plan& plan) {
  Json devices = Json::array();
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    devices.push_back(
        to_json(plan.cluster.devices().at(d).name, plan.devices[d], plan.profiles.at(d)));
  }
  Json json = {
      {"schema", kPlanSchema},
      {"strategy", plan.strategy},
      {"partition", plan.partition},
      {"allreduce", {{"prompt", plan.allreduce.prompt}, {"decode", plan.allreduce.decode}}},
      {"layout", layout_json(plan)},
      {"tiles", plan.tiles},
      {"model", model_json(plan.model)},
      {"cluster", to_json(plan.cluster)},
      {"master", plan.cluster.devices().at(static_cast<std::size_t>(plan.master)).name},
      {"workload",
       {{"prompt_tokens", plan.workload.prompt_tokens}, {"new_tokens", plan.workload.new_tokens}}},
      {"capacity",
       {{"rows", plan.capacity.rows},
        {"positions", plan.capacity.positions},
        {"sequences", plan.capacity.sequences},
        {"steps", plan.capacity.steps}}},
      {"release", name_of(kReleases, plan.release)},
      {"devices", std::move(devices)}};
  if (!plan.group_strategy.empty()) json["group_strategy"] = plan.group_strategy;
  if (plan.decode_moves != DecodeMoves::queries)
    json["decode_moves"] = to_string(plan.decode_moves);
  if (plan.gather_weights) json["gather_weights"] = true;
  if (plan.wire != model::WireFormat::f32) json["wire"] = to_string(plan.wire);
  if (plan.candidates > 0) json["candidates"] = plan.candidates;
  if (plan.sparse) json["sparse_attention"] = sparse_json(*plan.sparse, plan.cluster);
  return json;
}

std::string text_of(const Json& json, const std::string& remedy) {
  std::string text = model::to_text(json);
  if (text.size() <= model::limits::kPlanBytes) return text;
  throw Error("plan: " + std::to_string(text.size()) + " bytes of JSON, expected at most " +
              std::to_string(model::limits::kPlanBytes) + "; " + remedy);
}

}  // namespace

std::string to_json(const Plan& plan) {
  return text_of(json_of(plan), "plan with fewer devices, or with profiles of fewer points");
}

std::string to_json(const PlanFile& file) {
  if (!file.service && !file.search && file.shares.empty() && file.decisions.empty() && !file.loss)
    return to_json(file.plan);
  Json json = json_of(file.plan);
  if (file.service) add_planned_service(*file.service, json);
  if (file.search)
    json["search"] = {{"evaluations", file.search->evaluations}, {"to_the_end", false}};
  for (const auto& [device, share] : file.shares)
    json["shares"][device] = {{"share", share.share}, {"cores", share.cores}};
  for (const PlanDecision& one : file.decisions)
    json["decisions"].push_back(
        {{"axis", one.axis}, {"value", one.value}, {"considered", one.considered}});
  if (file.loss) json["loss"] = json_of(*file.loss);
  return text_of(json, "plan with fewer devices or requests, or with profiles of fewer points");
}

std::string plan_sha256(const Plan& plan) { return model::sha256_hex(to_json(plan)); }

}  // namespace tandem::planner
