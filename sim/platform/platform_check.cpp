#include "sim/platform/platform_check.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <pugixml.hpp>
#include <random>
#include <set>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/system_fault.hpp"
#include "sim/network/child.hpp"
#include "sim/network/engine.hpp"

namespace tandem::sim {
namespace {

namespace s4u = simgrid::s4u;

using Pair = std::pair<model::DeviceIndex, model::DeviceIndex>;

struct Way {
  double latency_s = 0.0;
  double bandwidth_Bps = 0.0;
};

constexpr std::chrono::milliseconds kTimeout{20000};
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

// In the child: checks that hosts and links in SimGrid equal those in the cluster, to detect
// anything that was overlooked in the file (an attribute, a default, two equal names).
void check_elements(const s4u::Engine& engine, const std::string& source,
                    const model::Cluster& cluster) {
  const auto expect = [&](bool equal, const std::string& subject, const char* what) {
    if (equal) return;
    throw Error(source + ": " + subject + ": SimGrid reads another " + what +
                " than tandem, expected one meaning; write it without what is unusual");
  };
  expect(engine.get_host_count() == cluster.devices().size(), "hosts", "number");
  for (const model::Device& device : cluster.devices()) {
    const std::string subject = "host " + device.name;
    const s4u::Host* host = engine.host_by_name_or_null(device.name);
    expect(host != nullptr, subject, "name");
    expect(host->get_core_count() == device.cores, subject, "number of cores");
    expect(same(host->get_speed() * host->get_core_count(), device.flop_rate.value()), subject,
           "speed");
  }
  for (const model::Link& link : cluster.links()) {
    const std::string subject = "link " + link.name;
    const bool split = link.sharing == model::Sharing::split_duplex;
    for (const char* direction : {"_UP", "_DOWN"}) {
      const s4u::Link* one = engine.link_by_name_or_null(split ? link.name + direction : link.name);
      expect(one != nullptr, subject, "name or sharing policy");
      expect(same(one->get_bandwidth(), link.bandwidth.value()), subject, "bandwidth");
      expect(same(one->get_latency(), link.latency.value()), subject, "latency");
      expect((one->get_sharing_policy() == s4u::Link::SharingPolicy::FATPIPE) ==
                 (link.sharing == model::Sharing::fatpipe),
             subject, "sharing policy");
    }
  }
}

// Writes `text` to the file in memory that SimGrid reads. A limit on files holds for it too.
void hand_over(int file, std::string_view text, const std::string& source) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int why = written < 0 ? errno : ENOSPC;
      std::string fault = source + ": could not be handed to SimGrid in a file in memory: ";
      fault += model::system_fault(why, why == EFBIG ? "raise `ulimit -f`" : "free some memory");
      throw Error(fault);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// In the child: SimGrid's view of each pair.
std::vector<Way> ways_of_simgrid(std::string_view text, const std::string& source,
                                 const model::Cluster& cluster, const std::vector<Pair>& pairs) {
  // SimGrid gets exactly the text that was checked, under a name that it cannot mistake for a
  // library to load.
  model::require_open_files(2, "SimGrid, which reads " + source);  // it would not say what it lacks
  const int file = ::memfd_create("platform", 0);
  if (file < 0)
    throw Error(source + ": no file in memory to hand it to SimGrid: " +
                model::system_fault(errno, "free some memory"));
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  hand_over(file, text, source);
  const s4u::Engine& engine = make_engine();
  try {
    engine.load_platform(name);
    engine.seal_platform();
  } catch (const std::exception& e) {
    std::string said = e.what();
    for (std::size_t at = said.find(name); at != std::string::npos; at = said.find(name, at)) {
      said.replace(at, name.size(), source);
      at += source.size();
    }
    std::replace(said.begin(), said.end(), '\n', ' ');
    throw Error(source + ": SimGrid refuses it: " + said + "; mend that place in the file");
  }
  check_elements(engine, source, cluster);
  std::vector<Way> ways;
  for (const auto& [from, to] : pairs) {
    const auto host = [&](model::DeviceIndex i) {
      return engine.host_by_name(cluster.devices()[static_cast<std::size_t>(i)].name);
    };
    std::vector<s4u::Link*> links;
    Way way;
    host(from)->route_to(host(to), links, &way.latency_s);
    way.bandwidth_Bps = std::numeric_limits<double>::infinity();
    for (const s4u::Link* link : links) {
      const bool fatpipe = link->get_sharing_policy() == s4u::Link::SharingPolicy::FATPIPE;
      const auto passes = fatpipe ? 1 : std::count(links.begin(), links.end(), link);
      way.bandwidth_Bps =
          std::min(way.bandwidth_Bps, link->get_bandwidth() / static_cast<double>(passes));
    }
    ways.push_back(way);
  }
  return ways;
}

std::string to_text(const Way& way) {
  return model::to_text(model::Seconds{way.latency_s}) + " at " +
         model::to_text(model::BytesPerSecond{way.bandwidth_Bps});
}

void compare(const std::string& source, const model::Cluster& cluster, const Pair& pair,
             const Way& simgrid) {
  const model::Route& route = cluster.route(pair.first, pair.second);
  const auto name = [&](model::DeviceIndex i) -> const std::string& {
    return cluster.devices()[static_cast<std::size_t>(i)].name;
  };
  const std::string subject =
      source + ": route from " + name(pair.first) + " to " + name(pair.second) + ": ";
  std::set<std::pair<model::LinkIndex, model::Direction>> crossed;
  for (const model::Hop& hop : route.hops) {
    const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
    if (!crossed.emplace(hop.link, hop.direction).second &&
        link.sharing == model::Sharing::split_duplex) {
      throw Error(subject + "crosses link " + link.name +
                  " twice in one direction, expected once: only a medium (SHARED) is passed again; "
                  "correct the routes between them");
    }
  }
  const Way ours{route.latency.value(), route.bandwidth.value()};
  if (same(ours.latency_s, simgrid.latency_s) && same(ours.bandwidth_Bps, simgrid.bandwidth_Bps)) {
    return;
  }
  throw Error(subject + to_text(simgrid) + " in SimGrid but " + to_text(ours) +
              " by the fewest links; give that route in the file");
}

// SimGrid 3.32 aborts on every trace of a link, as it seals links before it connects them.
std::string without_traces(std::string_view text) {
  if (text.find("<trace") == std::string_view::npos) return std::string(text);
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size(), pugi::parse_full, pugi::encoding_utf8);
  pugi::xml_node zone = document.child("platform").child("zone");
  while (zone.remove_child("trace")) {
  }
  while (zone.remove_child("trace_connect")) {
  }
  std::ostringstream kept;
  document.save(kept, "", pugi::format_raw, pugi::encoding_utf8);
  return kept.str();
}

}  // namespace

void check_with_simgrid(std::string_view given, const std::string& source,
                        const model::Cluster& cluster) {
  const std::string text = without_traces(given);
  const std::vector<Pair> pairs = pairs_to_compare(cluster.size());
  std::vector<Way> ways;
  run_in_child(
      {.subject = source, .timeout = kTimeout},
      [&](const std::function<void(Bytes)>& send) {
        const std::vector<Way> found = ways_of_simgrid(text, source, cluster, pairs);
        send(std::as_bytes(std::span(found)));
      },
      [&](Bytes bytes) {
        const std::size_t known = ways.size();
        ways.resize(known + bytes.size() / sizeof(Way));
        std::memcpy(ways.data() + known, bytes.data(), (ways.size() - known) * sizeof(Way));
      });
  require(ways.size() == pairs.size(), "platform check: SimGrid's answer is short");
  for (std::size_t i = 0; i < pairs.size(); ++i) compare(source, cluster, pairs[i], ways[i]);
}

}  // namespace tandem::sim
