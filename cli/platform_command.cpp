// tandem platform: checks and prints a scenario.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/city_command.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/platform_flags.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::DeviceIndex;

std::string_view to_string(model::Sharing sharing) {
  switch (sharing) {
    case model::Sharing::shared:
      return "shared";
    case model::Sharing::split_duplex:
      return "split duplex";
    case model::Sharing::fatpipe:
      return "fat pipe";
  }
  return "";
}

// Devices between all of which routes are told, n (n - 1) of them.
constexpr DeviceIndex kShownRoutes = 64;

std::string path_text(const model::Cluster& cluster, const model::Route& route) {
  std::string text;
  for (const model::Hop& hop : route.hops)
    text += (text.empty() ? "" : " > ") + cluster.links()[static_cast<std::size_t>(hop.link)].name;
  return text;
}

Json to_json(const sim::Platform& platform) {
  const model::Cluster& cluster = platform.cluster;
  Json json{{"name", cluster.name()},        {"devices", Json::array()},
            {"links", Json::array()},        {"routes", Json::array()},
            {"defaults", platform.defaults}, {"remarks", platform.remarks}};
  for (const model::Device& device : cluster.devices())
    json["devices"].push_back({{"name", device.name},
                               {"cores", device.cores},
                               {"flop_rate_flops_per_s", device.flop_rate.value()},
                               {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value()},
                               {"memory_bytes", device.memory.value()},
                               {"disk_bandwidth_bytes_per_s", device.disk_bandwidth.value()},
                               {"slowdown", device.slowdown}});
  for (const model::Link& link : cluster.links())
    json["links"].push_back({{"name", link.name},
                             {"latency_s", link.latency.value()},
                             {"bandwidth_bytes_per_s", link.bandwidth.value()},
                             {"sharing", to_string(link.sharing)}});
  if (cluster.size() > kShownRoutes) {
    json["routes"] = nullptr;
    return json;
  }
  for (DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      const model::Route& route = cluster.route(from, to);
      Json links = Json::array();
      for (const model::Hop& hop : route.hops)
        links.push_back(cluster.links()[static_cast<std::size_t>(hop.link)].name);
      json["routes"].push_back({{"from", cluster.devices()[static_cast<std::size_t>(from)].name},
                                {"to", cluster.devices()[static_cast<std::size_t>(to)].name},
                                {"latency_s", route.latency.value()},
                                {"bandwidth_bytes_per_s", route.bandwidth.value()},
                                {"links", links}});
    }
  }
  return json;
}

void print_hosts(const model::Cluster& cluster, std::ostream& out) {
  model::Table table(
      {"device", "cores", "compute", "memory bandwidth", "memory", "disk", "slowdown"});
  for (const model::Device& device : cluster.devices())
    table.add({device.name, std::to_string(device.cores), to_text(device.flop_rate),
               to_text(device.memory_bandwidth), to_text(device.memory),
               device.disk_bandwidth.value() > 0.0 ? to_text(device.disk_bandwidth) : "none",
               model::fixed(device.slowdown, 2)});
  table.print(out);
}

void print_links(const model::Cluster& cluster, std::ostream& out) {
  model::Table table({"link", "latency", "bandwidth", "sharing"});
  for (const model::Link& link : cluster.links())
    table.add({link.name, to_text(link.latency), to_text(link.bandwidth),
               std::string(to_string(link.sharing))});
  table.print(out);
}

// Whether the ways there and back are one: equal, over the same links in reverse.
bool is_two_way(const model::Route& there, const model::Route& back) {
  return there.latency == back.latency && there.bandwidth == back.bandwidth &&
         std::equal(there.hops.begin(), there.hops.end(), back.hops.rbegin(), back.hops.rend(),
                    [](const model::Hop& a, const model::Hop& b) { return a.link == b.link; });
}

// One line a pair of which both ways are one, else two.
void print_routes(const model::Cluster& cluster, std::ostream& out) {
  model::Table table({"route", "latency", "bandwidth", "links"});
  const auto name = [&](DeviceIndex i) {
    return cluster.devices()[static_cast<std::size_t>(i)].name;
  };
  for (DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (DeviceIndex to = from + 1; to < cluster.size(); ++to) {
      const model::Route& there = cluster.route(from, to);
      const model::Route& back = cluster.route(to, from);
      const bool is_one = is_two_way(there, back);
      table.add({name(from) + (is_one ? " <-> " : " -> ") + name(to), to_text(there.latency),
                 to_text(there.bandwidth), path_text(cluster, there)});
      if (!is_one)
        table.add({name(to) + " -> " + name(from), to_text(back.latency), to_text(back.bandwidth),
                   path_text(cluster, back)});
    }
  }
  table.print(out);
}

}  // namespace

int platform_command(const Arguments& arguments, std::ostream& out) {
  if (!arguments.empty() && arguments.front() == "city")
    return city_command({arguments.begin() + 1, arguments.end()}, out);
  Options options(
      {.command = "platform",
       .summary = "Checks a SimGrid platform file, or a name in scenarios/platforms, and prints\n"
                  "its devices, links and routes. 'tandem platform city' makes one.",
       .positionals = {"FILE.xml"},
       .flags = {kHostsFlag, kDefaultFlag, {"json", "", "print JSON"}}},
      arguments);
  const bool json = options.has("json");
  const sim::PlatformOptions reading = platform_options(options);
  options.settle();
  const sim::Platform platform =
      sim::read_platform(find_platform(options.positional(0)).string(), reading);
  if (json) {
    out << to_json(platform).dump(2) << '\n';
    return 0;
  }
  const model::Cluster& cluster = platform.cluster;
  const auto counted = [](auto count, const std::string& noun) {
    return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
  };
  out << cluster.name() << ": " << counted(cluster.size(), "device") << ", "
      << counted(cluster.routers().size(), "router") << ", "
      << counted(cluster.links().size(), "link") << "\n\n";
  print_hosts(cluster, out);
  if (!cluster.links().empty()) {
    out << '\n';
    print_links(cluster, out);
  }
  if (cluster.size() > kShownRoutes) {
    out << "\nroutes between more than " << kShownRoutes << " devices are not printed\n";
  } else if (cluster.size() > 1) {
    out << '\n';
    print_routes(cluster, out);
  }
  if (const std::string varies = variation(cluster); !varies.empty())
    out << "\nNot constant (simulate on SimGrid knows of it, the analytic evaluator and emulation "
           "do "
           "not): "
        << varies << '\n';
  if (!platform.defaults.empty()) out << "\nNot stated by the file, defaults used:\n";
  for (const std::string& line : platform.defaults) out << "  " << line << '\n';
  std::vector<std::string> remarks{speed_remark(cluster), link_remark(cluster)};
  remarks.insert(remarks.end(), platform.remarks.begin(), platform.remarks.end());
  for (const std::string& remark : remarks) {
    if (!remark.empty()) out << '\n' << remark << '\n';
  }
  return 0;
}

}  // namespace tandem::cli
