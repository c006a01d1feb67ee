#include "tests/planner/planner_fixture.hpp"

#include <variant>

#include "planner/search/search.hpp"

namespace tandem::test {

model::Cluster star_cluster(const std::vector<DeviceSpec>& specs) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string name = std::string("d").append(std::to_string(i));
    devices.push_back({.name = name,
                       .cores = 4,
                       .flop_rate = model::FlopsPerSecond{specs[i].flops_per_s},
                       .memory_bandwidth = model::BytesPerSecond{specs[i].flops_per_s * 10.0},
                       .memory = model::Bytes{specs[i].memory_bytes},
                       .disk_bandwidth = model::BytesPerSecond{specs[i].disk_bytes_per_s}});
    links.push_back({.name = std::string("l").append(std::to_string(i)),
                     .latency = model::Seconds{1e-3},
                     .bandwidth = model::BytesPerSecond{1e6}});
    edges.push_back({.from = name,
                     .to = "router",
                     .hops = {{static_cast<model::LinkIndex>(i), model::Direction::up}}});
  }
  return {"star", std::move(devices), {"router"}, std::move(links), std::move(edges)};
}

model::Transformer small_model(const ModelSizes& sizes) {
  return {.name = "small",
          .layers = sizes.layers,
          .hidden = sizes.heads * sizes.head_dim,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .head_dim = sizes.head_dim,
          .intermediate = sizes.intermediate,
          .vocab = sizes.vocab,
          .max_context = 64};
}

planner::Plan plan_of(const std::string& strategy, const ModelSizes& sizes,
                      model::DeviceIndex master, const planner::Split& split) {
  const planner::Strategy& known = planner::find_strategy(strategy);
  const bool splits = known.sharding.splits_heads();
  planner::Plan plan{
      .strategy = strategy,
      .partition = splits ? "given" : "",
      .allreduce = splits ? planner::AllreduceChoice{"star", "star"} : planner::AllreduceChoice{},
      .tiles = known.sharding.exchanges_rows() ? 1 : 0,
      .model = small_model(sizes),
      .cluster = star_cluster(std::vector<DeviceSpec>(split.heads.size())),
      .master = master,
      .workload = {.prompt_tokens = 5, .new_tokens = 3},
      .devices = {},
      .profiles = {}};
  for (const model::Share& share : planner::to_shares(plan.model, master, split)) {
    plan.devices.push_back({.share = share, .memory = {}});
  }
  for (const model::Device& device : plan.cluster.devices()) {
    plan.profiles.push_back(model::nominal_profile(device));
  }
  if (splits) plan.layout = planner::wiring(plan.cluster, master);
  plan.validate();
  return plan;
}

planner::Plan plan_of_family(const planner::Strategy& strategy, const std::string& allreduce,
                             int devices, model::Family family, std::int32_t window) {
  const bool encodes = family == model::Family::bert;
  planner::Request request{
      .model = small_model({.layers = 5, .heads = 6, .kv_heads = 6}),
      .cluster = star_cluster(std::vector<DeviceSpec>(static_cast<std::size_t>(devices))),
      .strategy = strategy.name,
      .allreduce = strategy.sharding.has_collective() ? allreduce : "star",
      .workload = {.prompt_tokens = 5, .new_tokens = encodes ? 0 : 3}};
  request.model.family = family;
  if (family != model::Family::llama) request.model.activation = model::Activation::gelu;
  if (family == model::Family::opt) request.model.activation = model::Activation::relu;
  if (encodes) request.model.token_types = 2;
  request.window.blocks = window;
  return std::get<planner::Plan>(planner::make_plan(request));
}

planner::Plan pipeline_of(std::int32_t devices) {
  const auto count = static_cast<std::size_t>(devices);
  planner::Plan plan{.strategy = "pipeline",
                     .partition = "given",
                     .allreduce = {},
                     .model = small_model({.layers = devices}),
                     .cluster = star_cluster(std::vector<DeviceSpec>(count)),
                     .master = 0,
                     .workload = {.prompt_tokens = 5, .new_tokens = 3},
                     .devices = {},
                     .profiles = {}};
  for (std::int32_t d = 0; d < devices; ++d) {
    plan.devices.push_back({.share = {.layers = {d, d + 1},
                                      .heads = {0, 4},
                                      .columns = {0, 6},
                                      .embedding = d == 0,
                                      .head = d == 0},
                            .memory = {}});
    plan.profiles.push_back(
        model::nominal_profile(plan.cluster.devices()[static_cast<std::size_t>(d)]));
  }
  plan.validate();
  return plan;
}

double sent(const model::TaskGraph& graph, model::BufferKind of) {
  double bytes = 0.0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == model::TaskKind::transfer && task.input.kind == of)
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

}  // namespace tandem::test
