#include "study/experiment/galaxy_testbed.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <variant>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/graph/memory.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr double kNanoM = 825e6;  // Hz
// The board's; of little effect with as many rows.
constexpr double kMemoryBandwidth = 10e9;
constexpr double kLatency = 0.2e-3;       // of a link to the switch; a LAN's, not stated
constexpr double kBesideWeights = 0.1e9;  // the cache, activations and messages of one pass

double whole_bytes(const model::Transformer& t) {
  return model::weight_bytes(t, {.layers = {0, static_cast<std::int32_t>(t.layers)},
                                 .heads = {0, static_cast<std::int32_t>(t.heads)},
                                 .columns = {0, static_cast<std::int32_t>(t.intermediate)},
                                 .embedding = true,
                                 .head = true});
}

double layer_bytes(const model::Transformer& t) {
  return model::weight_bytes(t, {.layers = {0, static_cast<std::int32_t>(t.layers)},
                                 .heads = {0, static_cast<std::int32_t>(t.heads)},
                                 .columns = {0, static_cast<std::int32_t>(t.intermediate)}});
}

model::Device nano(const Scenarios& scenarios, const std::string& kind, std::size_t place,
                   bool homogeneous, double flops_per_s) {
  const model::Csv table = scenarios.paper("galaxy_devices");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "device") != kind) continue;
    const double hertz = paper_reading(table, i, "frequency_hz").value;
    const double gb =
        paper_reading(table, i, homogeneous ? "homogeneous_budget_gb" : "heterogeneous_budget_gb")
            .value;
    return {.name = "nano" + std::to_string(place),
            .cores = 4,
            .flop_rate = model::FlopsPerSecond{flops_per_s * hertz / kNanoM},
            .memory_bandwidth = model::BytesPerSecond{kMemoryBandwidth},
            .memory = model::Bytes{gb * kGalaxyGB}};
  }
  throw Error("scenarios/experiments/galaxy_devices.csv: no row of device " + kind +
              "; restore the file from the sources");
}

}  // namespace

model::Cluster GalaxyTestbed::cluster(const Scenarios& scenarios, const std::string& environment,
                                      double mbps) const {
  const model::Csv table = scenarios.paper("galaxy_env");
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "environment") != environment) continue;
    std::istringstream text(table.at(i, "devices"));
    for (std::string kind; std::getline(text, kind, ';');) kinds.push_back(kind);
  }
  if (kinds.empty()) {
    throw Error("scenarios/experiments/galaxy_env.csv: no environment " + environment +
                "; restore the file from the sources");
  }
  const bool homogeneous =
      std::ranges::all_of(kinds, [&](const std::string& kind) { return kind == kinds.front(); });
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (std::size_t d = 0; d < kinds.size(); ++d) {
    devices.push_back(nano(scenarios, kinds[d], d, homogeneous, flops_per_s));
    links.push_back({.name = "link" + std::to_string(d),
                     .latency = model::Seconds{kLatency},
                     .bandwidth = model::BytesPerSecond{mbps * 1e6 / 8.0}});
    edges.push_back({.from = devices.back().name,
                     .to = "switch",
                     .hops = {{static_cast<model::LinkIndex>(d), model::Direction::up}}});
  }
  return {
      "galaxy-" + environment, std::move(devices), {"switch"}, std::move(links), std::move(edges)};
}

GalaxyTestbed calibrated_galaxy(const Scenarios& scenarios) {
  const model::Csv table = scenarios.paper("galaxy_table1");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "model") != "bert-l") continue;
    const double target = paper_reading(table, i, "latency_s").value;
    const model::Transformer transformer = galaxy_model(scenarios, "bert-l");
    constexpr double kSlow = 1e8;
    constexpr double kFast = 1e12;
    const auto seconds = [&](double flops_per_s) {
      const model::Cluster cluster = GalaxyTestbed{flops_per_s}.cluster(scenarios, "A", 125.0);
      return *pass_seconds(cluster, transformer, GalaxySystem::local, 30);
    };
    return {solve(seconds, target, kSlow, kFast)};
  }
  throw Error(
      "scenarios/experiments/galaxy_table1.csv: no row of model bert-l; restore the file "
      "from the sources");
}

std::string galaxy_remark(const GalaxyTestbed& testbed) {
  return "compute of a Nano-M " + model::fixed(testbed.flops_per_s * 1e-9, 2) +
         " Gflop/s (Table I, bert-l), others by their clock; assumed: 10 GB/s of memory, 0.2 ms a "
         "link; weights of 2 bytes, messages of 4";
}

model::Transformer galaxy_model(const Scenarios& scenarios, const std::string& name) {
  model::Transformer transformer = scenarios.model(name);
  transformer.formats = model::WeightFormats{model::WeightFormat::f16};
  return transformer;
}

std::optional<double> pass_seconds(const model::Cluster& cluster,
                                   const model::Transformer& transformer, GalaxySystem system,
                                   std::int64_t rows, double copy_s_per_byte) {
  const bool plans = system == GalaxySystem::galaxy;
  planner::Request request{
      .model = transformer,
      .cluster = cluster,
      .strategy = plans                              ? "galaxy"
                  : system == GalaxySystem::megatron ? "tensor"
                  : system == GalaxySystem::sequence ? "sp"
                                                     : "local",
      .partition = plans ? "galaxy" : "equal",
      .allreduce = system == GalaxySystem::local ? std::optional<std::string>{} : "ring",
      .workload = {.prompt_tokens = rows,
                   .new_tokens = transformer.architecture().generates() ? 1 : 0},
      .window = {.blocks = 0, .retain = 0}};
  if (plans) request.tiles = 1;
  // The paper's budget is for the weights of layers; the planner counts all that is in memory.
  const double ends = whole_bytes(transformer) - layer_bytes(transformer);
  const std::string& master = cluster.devices().front().name;
  request.cluster = with_devices(cluster, [&](model::Device& d) {
    const double more = kBesideWeights + (d.name == master ? ends : 0.0);
    d.memory = model::Bytes{plans ? d.memory.value() + more : kAnyMemory};
  });
  for (const model::Device& device : request.cluster.devices()) {
    request.profiles.push_back(nominal_profile(device));
    if (plans) request.profiles.back().program_bytes = 0.0;
    for (const model::TaskKind end : {model::TaskKind::capture, model::TaskKind::deliver}) {
      if (copy_s_per_byte > 0.0)
        request.profiles.back().rate[static_cast<std::size_t>(end)].points = {
            {.intensity = 1.0, .seconds_per_byte = copy_s_per_byte}};
    }
  }
  const auto answer = planner::make_plan(request);
  if (std::holds_alternative<planner::Infeasible>(answer)) return std::nullopt;
  const auto& plan = std::get<planner::Plan>(answer);
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay(plan.cluster, plan.cost_model(), steps, recorder);
  return recorder.metrics().ttft_s;
}

bool runs_out(const model::Cluster& cluster, const model::Transformer& transformer,
              GalaxySystem system) {
  const double layers = layer_bytes(transformer);
  double total = 0.0;
  double least = kAnyMemory;
  for (const model::Device& device : cluster.devices()) {
    total += device.memory.value();
    least = std::min(least, device.memory.value());
  }
  switch (system) {
    case GalaxySystem::galaxy:
      return layers > total;
    case GalaxySystem::megatron:
      return layers / static_cast<double>(cluster.size()) > least;
    case GalaxySystem::sequence:
      return whole_bytes(transformer) > least;
    case GalaxySystem::local:
      return whole_bytes(transformer) > cluster.devices().front().memory.value();
  }
  return false;
}

Reading speed_up(const model::Cluster& cluster, const model::Transformer& transformer,
                 GalaxySystem other, bool judged, double copy_s_per_byte) {
  if (judged && (runs_out(cluster, transformer, other) ||
                 runs_out(cluster, transformer, GalaxySystem::galaxy)))
    return Reading::out_of_memory();
  const model::Cluster room = with_devices(cluster, [&](model::Device& d) {
    if (!judged) d.memory = model::Bytes{kAnyMemory};
  });
  const auto seconds = [&](GalaxySystem system) {
    return pass_seconds(room, transformer, system, kGalaxyRows, copy_s_per_byte);
  };
  const auto galaxy = seconds(GalaxySystem::galaxy);
  if (!galaxy) return Reading::out_of_memory();
  return Reading::number(*seconds(other) / *galaxy);
}

}  // namespace tandem::study
