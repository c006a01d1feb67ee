#include "study/experiment/allreduce_testbed.hpp"

#include <algorithm>

#include "model/predict/cost_model.hpp"
#include "planner/collective/collective.hpp"
#include "planner/collective/hierarchical.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

model::DeviceProfile free_profile() {
  model::DeviceProfile profile;
  profile.source = "additions take no time";
  for (auto& rate : profile.rate) rate.points = {{.intensity = 1.0, .seconds_per_byte = 0.0}};
  return profile;
}

}  // namespace

model::Cluster AllreduceTestbed::cluster() const {
  std::vector<model::Device> list;
  std::vector<std::string> routers{"core"};
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  const auto connect = [&](const std::string& from, const std::string& to) {
    edges.push_back(
        {from, to, {{static_cast<model::LinkIndex>(links.size()), model::Direction::up}}, true});
    links.push_back({from + "-" + to, link_latency, bandwidth, model::Sharing::split_duplex});
  };
  for (std::int32_t i = 0; i < devices; ++i) {
    model::Device device;
    device.name = "device" + std::to_string(i);
    device.flop_rate = model::FlopsPerSecond{1.0};
    device.memory_bandwidth = model::BytesPerSecond{1.0};
    device.memory = model::Bytes{1.0};
    list.push_back(device);
    routers.push_back("gateway" + std::to_string(i));
    connect(device.name, routers.back());
    connect(routers.back(), "core");
  }
  return {"testbed", list, routers, links, edges};
}

const std::vector<std::string>& compared_allreduces() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const planner::Collective& row : planner::collectives()) {
      if (row.name != planner::kHierarchical) all.push_back(row.name);
    }
    return all;
  }();
  return names;
}

model::Seconds simulated_allreduce(const AllreduceTestbed& testbed, const std::string& allreduce,
                                   std::int32_t columns) {
  const model::Cluster cluster = testbed.cluster();
  model::TaskGraph graph(model::Batch{{{.rows = 1}}});
  std::vector<planner::Participant> participants;
  participants.reserve(cluster.devices().size());
  for (model::DeviceIndex d = 0; d < cluster.size(); ++d) participants.push_back({.device = d});
  planner::lower_sum(graph, {.master = 0, .rows = {0, 1}, .columns = {0, columns}},
                     planner::parse_allreduce(allreduce), planner::proximity(cluster, 0),
                     participants);
  const model::Transformer any{.name = "any",
                               .layers = 1,
                               .hidden = columns,
                               .heads = 1,
                               .kv_heads = 1,
                               .head_dim = 1,
                               .intermediate = 1,
                               .vocab = 1,
                               .max_context = 1};
  const model::CostModel costs{
      any, std::vector<model::DeviceProfile>(cluster.devices().size(), free_profile())};
  model::RunRecorder recorder(cluster, 0, /*keep_spans=*/true);
  model::OneStep steps(graph);
  sim::replay(cluster, costs, steps, recorder);
  double end = 0.0;
  for (const model::Span& span : recorder.trace().spans) end = std::max(end, span.end);
  return model::Seconds{end};
}

}  // namespace tandem::study
