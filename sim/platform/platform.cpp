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

// Returns the devices that match, with the routes that they have.
model::Cluster narrowed(const model::Cluster& cluster, const std::vector<std::string>& patterns,
                        const std::string& source) {
  std::vector<std::string> names;
  names.reserve(cluster.devices().size());
  for (const model::Device& device : cluster.devices()) names.push_back(device.name);
  std::vector<bool> chosen(names.size(), false);
  for (const std::size_t i : chosen_hosts({.patterns = patterns}, names, source)) chosen[i] = true;
  return model::of_devices(cluster, chosen);
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

// Lists the settings of <config>, which tandem's simulator makes itself.
std::string ignored_settings(const XmlDocument& document) {
  constexpr int kMostListed = 8;
  std::string list;
  int count = 0;
  for (const pugi::xml_node config : document.root("platform").children("config")) {
    for (const pugi::xml_node setting : config.children("prop")) {
      if (++count > kMostListed) continue;
      list += (list.empty() ? "" : ", ") + std::string(setting.attribute("id").value()) + "=" +
              setting.attribute("value").value();
    }
  }
  if (count == 0) return "";
  if (count > kMostListed) list += " and " + std::to_string(count - kMostListed) + " more";
  return "<config> ignored, as tandem sets SimGrid's options: " + model::one_line(list, 400);
}

class PlatformFile {
 public:
  PlatformFile(const std::string& path, const PlatformOptions& options)
      : path_(path),
        options_(options),
        text_(read_file(path)),
        document_(text_, path),
        profiles_(document_, std::filesystem::path(path).parent_path().string()),
        seen_(hidden_from_simgrid(document_, text_)) {}

  Platform read() {
    if (is_graph(document_)) {
      if (std::optional<Platform> whole = read_whole()) return *std::move(whole);
    }
    return read_flattened();
  }

 private:
  // Nothing if pairs have no route, or other ones in SimGrid.
  std::optional<Platform> read_whole() {
    std::optional<GraphParts> parts = read_graph(document_, profiles_, assumed_);
    if (!parts) return std::nullopt;
    model::Cluster cluster = cluster_of(*parts);
    if (const auto other = check_with_simgrid(seen_, path_, cluster)) {
      remarks_.push_back("routes are those that SimGrid chooses, as where two are equally short: " +
                         *other);
      return std::nullopt;
    }
    if (!options_.hosts.empty()) cluster = narrowed(cluster, options_.hosts, path_);
    std::vector<std::string> names = options_.used;
    for (const model::Device& device : cluster.devices()) {
      if (options_.used.empty()) names.push_back(device.name);
    }
    defaults_.keep(names);
    const auto hosts = static_cast<std::size_t>(cluster.size());
    return finished(std::move(cluster), hosts, std::move(parts->processors));
  }

  Platform read_flattened() {
    defaults_ = {};
    shares_.clear();
    const bool given = !options_.hosts.empty();
    GraphParts parts = read_flat(document_, profiles_, assumed_, seen_,
                                 given ? HostPatterns{.patterns = options_.hosts}
                                       : HostPatterns{.patterns = options_.used,
                                                      .flag = options_.used_by,
                                                      .remedy = options_.used_remedy});
    model::Cluster cluster = cluster_of(parts);
    const std::size_t hosts = given ? cluster.devices().size() : parts.hosts;
    return finished(std::move(cluster), hosts, std::move(parts.processors));
  }

  [[nodiscard]] model::Cluster cluster_of(GraphParts& parts) const {
    try {
      return {std::move(parts.name), std::move(parts.devices), std::move(parts.routers),
              std::move(parts.links), std::move(parts.edges)};
    } catch (const Error& e) {
      throw Error(path_ + ": " + e.what());
    }
  }

  Platform finished(model::Cluster cluster, std::size_t hosts,
                    std::map<std::string, std::string> processors) {
    Platform platform{.cluster = std::move(cluster),
                      .defaults = defaults_.lines(),
                      .hosts = hosts,
                      .processors = std::move(processors),
                      .remarks = remarks_};
    for (const auto& [device, share] : options_.shares) {
      static_cast<void>(platform.cluster.find(device));
      shares_.insert_or_assign(device, share);
    }
    cap(platform, shares_);
    if (const std::string settings = ignored_settings(document_); !settings.empty())
      platform.remarks.push_back(settings);
    return platform;
  }

  const std::string& path_;
  const PlatformOptions& options_;
  std::string text_;
  XmlDocument document_;
  Profiles profiles_;
  std::string seen_;  // by SimGrid
  Defaults defaults_;
  std::map<std::string, double> shares_;
  Assumed assumed_{options_.defaults, &defaults_, &shares_};
  std::vector<std::string> remarks_;
};

}  // namespace

Platform read_platform(const std::string& path, const PlatformOptions& options) {
  try {
    check_assumed(options.defaults);
    return PlatformFile(path, options).read();
  } catch (const Error& e) {
    // Names and values in messages come from the file, and may contain anything.
    throw Error(model::one_line(e.what(), 1200));
  }
}

}  // namespace tandem::sim
