#include "sim/platform/platform.hpp"

#include <algorithm>
#include <tandem/platform.hpp>
#include <utility>

#include "api/data.hpp"
#include "model/base/error.hpp"

namespace tandem {
namespace {

model::Cluster cluster_of(const std::string& name, const std::vector<Device>& devices,
                          const std::vector<Connection>& connections) {
  std::vector<model::Device> members;
  members.reserve(devices.size());
  std::vector<std::string> switches;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (const Device& device : devices)
    members.push_back({.name = device.name,
                       .cores = device.cores,
                       .flop_rate = model::FlopsPerSecond{device.flops},
                       .memory_bandwidth = model::BytesPerSecond{device.memory_bandwidth_Bps},
                       .memory = model::Bytes{device.memory_bytes},
                       .disk_bandwidth = model::BytesPerSecond{device.disk_bandwidth_Bps},
                       .slowdown = device.slowdown});
  for (const Connection& one : connections) {
    for (const std::string& end : {one.from, one.to}) {
      if (std::ranges::find(devices, end, &Device::name) == devices.end() &&
          std::ranges::find(switches, end) == switches.end())
        switches.push_back(end);
    }
    const auto link = static_cast<model::LinkIndex>(links.size());
    links.push_back({.name = one.from + "-" + one.to,
                     .latency = model::Seconds{one.latency_s},
                     .bandwidth = model::BytesPerSecond{one.bandwidth_Bps}});
    edges.push_back({.from = one.from,
                     .to = one.to,
                     .hops = {{.link = link, .direction = model::Direction::up}}});
  }
  return {name, std::move(members), std::move(switches), std::move(links), std::move(edges)};
}

}  // namespace

Platform::Platform(std::shared_ptr<const Data> data) : data_(std::move(data)) {
  require(data_ != nullptr, "a platform needs data");
}

Platform::Platform(const std::string& name, const std::vector<Device>& devices,
                   const std::vector<Connection>& connections)
    : data_(std::make_shared<const Data>(Data{cluster_of(name, devices, connections)})) {}

Platform Platform::read(const std::filesystem::path& file) {
  return Platform(std::make_shared<const Data>(Data{sim::read_platform(file.string()).cluster}));
}

const std::string& Platform::name() const { return data_->cluster.name(); }

std::vector<std::string> Platform::device_names() const {
  std::vector<std::string> names;
  for (const model::Device& device : data_->cluster.devices()) names.push_back(device.name);
  return names;
}

}  // namespace tandem
