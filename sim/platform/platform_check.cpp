#include "sim/platform/platform_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "sim/platform/simgrid_view.hpp"

namespace tandem::sim {
namespace {

using Pair = std::pair<model::DeviceIndex, model::DeviceIndex>;

struct Way {
  double latency_s = 0.0;
  double bandwidth_Bps = 0.0;
};

constexpr model::DeviceIndex kAllPairs = 64;
constexpr int kSampledSources = 64;
constexpr int kSampledTargets = 64;  // a source

std::vector<Pair> pairs_to_compare(model::DeviceIndex devices) {
  std::vector<Pair> pairs;
  if (devices <= kAllPairs) {
    for (model::DeviceIndex a = 0; a < devices; ++a) {
      for (model::DeviceIndex b = 0; b < devices; ++b) {
        if (a != b) pairs.emplace_back(a, b);
      }
    }
    return pairs;
  }
  // The same pairs every time: the verdict on a file is reproducible.
  std::mt19937 random(1);
  std::uniform_int_distribution<model::DeviceIndex> device(0, devices - 1);
  for (int s = 0; s < kSampledSources; ++s) {
    const model::DeviceIndex from = device(random);
    for (int t = 0; t < kSampledTargets; ++t) {
      const model::DeviceIndex to = device(random);
      if (from != to) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

bool same(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

// Checks that hosts and links in SimGrid equal those in the cluster, to detect anything that was
// overlooked in the file (an attribute, a default, two equal names).
void check_elements(const SimgridView& view, const std::string& source,
                    const model::Cluster& cluster) {
  const auto expect = [&](bool equal, const std::string& subject, const char* what) {
    if (equal) return;
    throw Error(source + ": " + subject + ": SimGrid reads another " + what +
                " than tandem, expected one meaning; write it without what is unusual");
  };
  std::unordered_map<std::string, const ViewedHost*> hosts;
  for (const ViewedHost& host : view.hosts) hosts.emplace(host.name, &host);
  std::unordered_map<std::string, const ViewedLink*> links;
  for (const ViewedLink& link : view.links) links.emplace(link.name, &link);
  expect(view.hosts.size() == cluster.devices().size(), "hosts", "number");
  for (const model::Device& device : cluster.devices()) {
    const std::string subject = "host " + device.name;
    const auto found = hosts.find(device.name);
    expect(found != hosts.end(), subject, "name");
    const ViewedHost& host = *found->second;
    expect(host.cores == device.cores, subject, "number of cores");
    expect(same(host.speed * host.cores, device.flop_rate.value()), subject, "speed");
  }
  for (const model::Link& link : cluster.links()) {
    const std::string subject = "link " + link.name;
    const bool split = link.sharing == model::Sharing::split_duplex;
    for (const char* direction : {"_UP", "_DOWN"}) {
      const auto one = links.find(split ? link.name + direction : link.name);
      expect(one != links.end(), subject, "name or sharing policy");
      expect(same(one->second->bandwidth_Bps, link.bandwidth.value()), subject, "bandwidth");
      expect(same(one->second->latency_s, link.latency.value()), subject, "latency");
      expect(one->second->fatpipe == (link.sharing == model::Sharing::fatpipe), subject,
             "sharing policy");
    }
  }
}

Way way_of(const SimgridView& view, const ViewedRoute& route) {
  Way way{route.latency_s, std::numeric_limits<double>::infinity()};
  for (const std::size_t index : route.links) {
    const ViewedLink& link = view.links[index];
    const auto passes =
        link.fatpipe ? 1 : std::count(route.links.begin(), route.links.end(), index);
    way.bandwidth_Bps =
        std::min(way.bandwidth_Bps, link.bandwidth_Bps / static_cast<double>(passes));
  }
  return way;
}

std::string to_text(const Way& way) {
  return model::to_text(model::Seconds{way.latency_s}) + " at " +
         model::to_text(model::BytesPerSecond{way.bandwidth_Bps});
}

// Describes the pair's two routes if they differ.
std::optional<std::string> difference(const std::string& source, const model::Cluster& cluster,
                                      const Pair& pair, const Way& simgrid) {
  const model::Route& route = cluster.route(pair.first, pair.second);
  const auto name = [&](model::DeviceIndex i) -> const std::string& {
    return cluster.devices()[static_cast<std::size_t>(i)].name;
  };
  const std::string subject = "route from " + name(pair.first) + " to " + name(pair.second) + ": ";
  std::set<std::pair<model::LinkIndex, model::Direction>> crossed;
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    if (!crossed.emplace(hop.link, hop.direction).second &&
        link.sharing == model::Sharing::split_duplex) {
      std::string text = source;
      text.append(": ").append(subject).append("crosses link ").append(link.name);
      text +=
          " twice in one direction, expected once: only a medium (SHARED) is passed again; "
          "correct the routes between them";
      throw Error(text);
    }
  }
  const Way ours{route.latency.value(), route.bandwidth.value()};
  if (same(ours.latency_s, simgrid.latency_s) && same(ours.bandwidth_Bps, simgrid.bandwidth_Bps)) {
    return std::nullopt;
  }
  return subject + to_text(simgrid) + " in SimGrid, " + to_text(ours) + " by the fewest links";
}

}  // namespace

std::optional<std::string> check_with_simgrid(std::string_view text, const std::string& source,
                                              const model::Cluster& cluster) {
  const std::vector<Pair> pairs = pairs_to_compare(cluster.size());
  ViewedPairs wanted;
  wanted.pairs.reserve(pairs.size());
  for (const auto& [from, to] : pairs)
    wanted.pairs.emplace_back(cluster.devices()[static_cast<std::size_t>(from)].name,
                              cluster.devices()[static_cast<std::size_t>(to)].name);
  const SimgridView view = view_with_simgrid(text, source, wanted);
  check_elements(view, source, cluster);
  require(view.routes.size() == pairs.size(), "platform check: SimGrid's answer is short");
  std::optional<std::string> first;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto other = difference(source, cluster, pairs[i], way_of(view, view.routes[i]));
    if (!first) first = other;
  }
  return first;
}

}  // namespace tandem::sim
