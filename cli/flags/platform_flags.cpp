#include "cli/flags/platform_flags.hpp"

#include <algorithm>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "model/base/word_list.hpp"
#include "model/predict/device_share.hpp"

namespace tandem::cli {
namespace {

// The names in a list; no empty ones.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts = model::split_list(text);
  std::erase(parts, "");
  return parts;
}

}  // namespace

sim::PlatformOptions platform_options(const Options& options, bool has_devices) {
  sim::PlatformOptions reading;
  if (const auto hosts = options.text("hosts")) {
    reading.hosts = parts_of(*hosts);
    if (reading.hosts.empty())
      throw Usage("flag '--hosts': '" + *hosts + "' names no host; expected names or patterns");
  }
  reading.defaults = platform_defaults(options);
  if (!has_devices) return reading;
  for (const std::string& text : options.all("share")) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos)
      throw Usage("flag '--share': '" + text + "', expected HOST=SHARE, as laptop=0.5");
    const double share = model::parse_share(text.substr(equals + 1), "flag '--share': " + text);
    if (!reading.shares.emplace(text.substr(0, equals), share).second)
      throw Usage("flag '--share': '" + text + "' is a second value, expected one; remove one");
  }
  const std::string devices = options.text_or("devices", "all");
  if (devices == "all" || devices == "fewest") return reading;
  reading.used = parts_of(devices);
  // One that is not among them is refused later, as a host that the file has.
  if (const auto master = options.text("master"); master && !reading.used.empty())
    reading.used.push_back(*master);
  return reading;
}

std::map<std::string, std::string> platform_defaults(const Options& options) {
  std::map<std::string, std::string> defaults;
  for (const std::string& text : options.all("default")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw Usage("flag '--default': '" + text + "', expected NAME=VALUE, as memory=16GiB");
    if (!defaults.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      throw Usage("flag '--default': '" + text + "' is a second value, expected one; remove one");
  }
  return defaults;
}

std::vector<std::string> platform_remarks(const sim::Platform& platform,
                                          const model::Cluster& used) {
  std::vector<std::string> remarks{defaults_remark(platform), speed_remark(used),
                                   link_remark(used)};
  std::erase(remarks, "");
  remarks.insert(remarks.end(), platform.remarks.begin(), platform.remarks.end());
  return remarks;
}

std::string defaults_remark(const sim::Platform& platform) {
  std::string text;
  bool remarkable = false;
  for (const std::string& line : platform.defaults) {
    // A slowdown is for emulation, and many devices have no disk to state.
    if (line.starts_with("tandem:slowdown")) continue;
    remarkable = remarkable || !line.starts_with("tandem:disk_bandwidth assumed to be none");
    text += text.empty() ? "" : "; ";
    text += line;
  }
  if (!remarkable) return "";
  return "the platform file does not state everything: " + text + " (change with --default)";
}

std::string speed_remark(const model::Cluster& cluster) {
  constexpr double kSlowest = 1e9;  // a core of a Raspberry Pi 3 has 1.2 GHz, 4 to 8 flops a cycle
  const auto slowest = std::ranges::min_element(
      cluster.devices(), {}, [](const model::Device& one) { return one.flop_rate.value(); });
  if (slowest->flop_rate.value() >= kSlowest) return "";
  return "device '" + slowest->name + "' has a speed of " + to_text(slowest->flop_rate) +
         ", less than any computer that runs language models: if the platform file's speeds are "
         "examples, write the real ones into a copy";
}

std::string link_remark(const model::Cluster& cluster) {
  constexpr double kLeastBytesPerS = 1e4;  // a modem of 56 kbit/s has 7 kB/s
  constexpr double kLongestS = 2.0;        // a satellite in geostationary orbit has 0.25 s
  std::vector<bool> used(cluster.links().size(), false);
  for (const model::Edge& edge : cluster.edges()) {
    for (const model::Hop& hop : edge.hops) used[static_cast<std::size_t>(hop.link)] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const model::Link& link = cluster.links()[i];
    const std::string name = "link '" + link.name + "' has a ";
    if (link.bandwidth.value() < kLeastBytesPerS)
      return name + "bandwidth of " + to_text(link.bandwidth) +
             ", less than a modem's: a number without a unit is bytes a second; write, say, "
             "'1Gbps'";
    if (link.latency.value() > kLongestS)
      return name + "latency of " + to_text(link.latency) +
             ", more than a satellite's: a number without a unit is seconds; write, say, '200us'";
  }
  return "";
}

}  // namespace tandem::cli
