#include "sim/platform/platform.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "sim/platform/flat_reader.hpp"
#include "sim/platform/graph_reader.hpp"
#include "sim/platform/host_patterns.hpp"
#include "sim/platform/platform_check.hpp"

namespace tandem::sim {
namespace {

constexpr std::uintmax_t kMaxFile = std::uintmax_t{16} << 20;

std::string read_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw Error(path + ": no such file, expected a platform XML file; check the path");
  }
  // A device or pipe could block, or never end.
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(path + ": not a regular file, expected a platform XML file; give the file's path");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMaxFile) {
    throw Error(path + ": " + std::to_string(size) + " bytes, expected at most " +
                std::to_string(kMaxFile) + "; is it a platform file?");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw Error(path + ": cannot be read, expected a platform XML file; check its permissions");
  }
  return text;
}

// Keeps the devices that match; the others become routers where routes may lead through them.
model::Cluster narrowed(const model::Cluster& cluster, const std::vector<std::string>& patterns,
                        const std::string& source) {
  std::vector<std::string> names;
  names.reserve(cluster.devices().size());
  for (const model::Device& device : cluster.devices()) names.push_back(device.name);
  std::vector<model::Device> devices;
  std::set<std::string> dropped(names.begin(), names.end());
  for (const std::size_t i : chosen_hosts({.patterns = patterns}, names, source)) {
    devices.push_back(cluster.devices()[i]);
    dropped.erase(names[i]);
  }
  // An end of one edge alone leads nowhere else.
  std::vector<model::Edge> edges = cluster.edges();
  for (std::size_t gone = 1; gone > 0;) {
    std::map<std::string, int> ends;
    for (const model::Edge& edge : edges) {
      ++ends[edge.from];
      ++ends[edge.to];
    }
    const auto is_dead_end = [&](const std::string& point) {
      return dropped.contains(point) && ends[point] == 1;
    };
    gone = std::erase_if(edges, [&](const model::Edge& edge) {
      return is_dead_end(edge.from) || is_dead_end(edge.to);
    });
  }
  std::vector<std::string> routers = cluster.routers();
  for (const std::string& name : dropped) {
    if (std::ranges::any_of(
            edges, [&](const model::Edge& edge) { return edge.from == name || edge.to == name; }))
      routers.push_back(name);
  }
  return {cluster.name(), std::move(devices), std::move(routers), cluster.links(),
          std::move(edges)};
}

// Limits the devices to their shares.
void cap(Platform& platform, const std::map<std::string, double>& shares) {
  for (const model::Device& device : platform.cluster.devices()) {
    const auto found = shares.find(device.name);
    if (found == shares.end() || found->second == 1.0) continue;
    platform.shares.emplace(device.name,
                            model::DeviceShare{.share = found->second, .cores = device.cores});
  }
  if (platform.shares.empty()) return;
  platform.uncapped = platform.cluster;
  platform.cluster = model::with_devices(platform.cluster, [&](model::Device& device) {
    const auto found = platform.shares.find(device.name);
    if (found != platform.shares.end())
      device = model::with_share(std::move(device), found->second);
  });
}

}  // namespace

Platform read_platform(const std::string& path, const PlatformOptions& options) {
  const std::string text = read_file(path);
  try {
    const XmlDocument document(text, path);
    check_assumed(options.defaults);
    const Profiles profiles(document, std::filesystem::path(path).parent_path().string());
    const std::string seen = hidden_from_simgrid(document, text);
    Defaults defaults;
    std::map<std::string, double> shares;
    const Assumed assumed{options.defaults, &defaults, &shares};
    const bool whole = is_graph(document);
    std::optional<GraphParts> parts;
    if (whole) parts = read_graph(document, profiles, assumed);
    const bool flat = !parts;
    if (flat) {
      defaults = {};
      shares.clear();
      parts = read_flat(document, profiles, assumed, seen,
                        options.hosts.empty() ? HostPatterns{.patterns = options.used,
                                                             .flag = options.used_by,
                                                             .remedy = options.used_remedy}
                                              : HostPatterns{.patterns = options.hosts});
    }
    model::Cluster cluster = [&] {
      try {
        return model::Cluster(std::move(parts->name), std::move(parts->devices),
                              std::move(parts->routers), std::move(parts->links),
                              std::move(parts->edges));
      } catch (const Error& e) {
        throw Error(path + ": " + e.what());
      }
    }();
    if (!flat) {
      check_with_simgrid(seen, path, cluster);
      if (!options.hosts.empty()) cluster = narrowed(cluster, options.hosts, path);
      std::vector<std::string> names = options.used;
      for (const model::Device& device : cluster.devices()) {
        if (options.used.empty()) names.push_back(device.name);
      }
      defaults.keep(names);
    }
    const std::size_t hosts =
        flat && options.hosts.empty() ? parts->hosts : cluster.devices().size();
    Platform platform{std::move(cluster), defaults.lines(), hosts, std::move(parts->processors)};
    for (const auto& [device, share] : options.shares) {
      static_cast<void>(platform.cluster.find(device));
      shares.insert_or_assign(device, share);
    }
    cap(platform, shares);
    if (document.root("platform").child("config"))
      platform.defaults.push_back("<config> ignored: tandem sets SimGrid's options");
    return platform;
  } catch (const Error& e) {
    // Names and values in messages come from the file, and may contain anything.
    throw Error(model::one_line(e.what(), 1200));
  }
}

}  // namespace tandem::sim
