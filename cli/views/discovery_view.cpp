#include "cli/views/discovery_view.hpp"

#include <ostream>
#include <string>

#include "exec/discovery/platform_text.hpp"
#include "exec/transport/endpoint.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

std::string members_text(const std::vector<exec::DiscoveredDevice>& devices,
                         const exec::Segment& segment) {
  std::string names;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if ((segment.members >> d & 1U) != 0) names += (names.empty() ? "" : ", ") + devices[d].name;
  }
  if (segment.kind == exec::SegmentKind::path)
    names += " to " + devices[static_cast<std::size_t>(segment.to)].name;
  return names;
}

std::string kind_text(exec::SegmentKind kind) {
  switch (kind) {
    case exec::SegmentKind::port:
      return "its port";
    case exec::SegmentKind::medium:
      return "one medium";
    case exec::SegmentKind::uplink:
      return "to the others";
    case exec::SegmentKind::bridge:
      return "to the others, half duplex";
    case exec::SegmentKind::path:
      return "alone";
  }
  return "";
}

std::string measured_rate(double bytes_s) {
  return bytes_s > 0.0 ? to_text(model::BytesPerSecond{bytes_s}) : "-";
}

}  // namespace

void print_discovery(const exec::Discovery& found, const exec::NetworkSegments& network,
                     std::ostream& out) {
  model::Table devices({"device", "address", "processor", "threads", "memory", "disk", "free"});
  for (const exec::DiscoveredDevice& device : found.devices) {
    const exec::About& about = device.about;
    devices.add({device.name, device.local ? "local" : to_text(device.endpoint), about.processor,
                 std::to_string(about.threads),
                 to_text(model::Bytes{static_cast<double>(about.memory_bytes)}),
                 measured_rate(device.profile.disk_bandwidth.value()),
                 to_text(model::Bytes{static_cast<double>(about.disk_bytes)})});
  }
  devices.print(out);
  if (found.devices.size() < 2) return;
  out << '\n';
  model::Table links({"link", "of", "is", "out", "in", "latency"});
  for (std::size_t s = 0; s < network.segments.size(); ++s) {
    const exec::Segment& segment = network.segments[s];
    if (segment.members == 0) continue;
    const bool directed =
        segment.kind == exec::SegmentKind::port || segment.kind == exec::SegmentKind::uplink;
    links.add({exec::segment_name(found.devices, network, s), members_text(found.devices, segment),
               kind_text(segment.kind), measured_rate(segment.out),
               directed ? measured_rate(segment.in) : "the same",
               to_text(model::Seconds{network.latency[s]})});
  }
  links.print(out);
}

}  // namespace tandem::cli
