#include "exec/discovery/platform_text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::TaskKind;

constexpr double kLeastOfByte = 0.1;  // of the measured time of a byte
constexpr double kSameRate = 0.1;     // directions that differ by less are one link's
constexpr double kUnlimited = 125e9;  // bytes a second, of links that only delay

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::general, digits);
  require(error == std::errc{}, "platform_xml: a number of more than 64 characters");
  std::string result(text.data(), end);
  if (result.find('e') == std::string::npos) return result;
  // Without an exponent, which is not common in platform files.
  const auto [plain, fault] = std::to_chars(text.data(), text.data() + text.size(), value,
                                            std::chars_format::fixed, value < 1.0 ? 6 : 0);
  require(fault == std::errc{}, "platform_xml: a number of more than 64 characters");
  return {text.data(), plain};
}

std::string bandwidth_text(double bytes_s) { return number(bytes_s * 8e-6, 4) + "Mbps"; }
std::string latency_text(double seconds) { return number(seconds * 1e6, 4) + "us"; }

double seconds_per_byte(const DiscoveredDevice& device, TaskKind kind) {
  const auto& points = device.profile.rate[static_cast<std::size_t>(kind)].points;
  return points.empty() ? 0.0 : points.front().seconds_per_byte;
}

// Dense products: of an f32 weight, 4 bytes, `intensity` rows take a multiplication and an
// addition.
double flop_rate(const DiscoveredDevice& device) {
  double best = 0.0;
  for (const model::RatePoint& point :
       device.profile.rate[static_cast<std::size_t>(TaskKind::ffn_up)].points)
    if (point.seconds_per_byte > 0.0)
      best = std::max(best, 0.5 * point.intensity / point.seconds_per_byte);
  return best;
}

void add_host(const DiscoveredDevice& device, std::string& xml) {
  const auto prop = [&](const char* name, const std::string& value) {
    xml += "      <prop id=\"tandem:" + std::string(name) + "\" value=\"" + value + "\"/>\n";
  };
  const About& about = device.about;
  xml += "    <host id=\"" + device.name + "\" speed=\"" +
         number(std::max(1e-3, flop_rate(device) / about.cores * 1e-9), 4) + "Gf\" core=\"" +
         std::to_string(about.cores) + "\">\n";
  prop("memory", std::to_string(about.memory_bytes >> 20U) + "MiB");
  const double weights = seconds_per_byte(device, TaskKind::ffn_up);
  if (weights > 0.0) prop("memory_bandwidth", number(1e-6 / weights, 4) + "MBps");
  if (const double disk = device.profile.disk_bandwidth.value(); disk > 0.0)
    prop("disk_bandwidth", number(disk * 1e-6, 4) + "MBps");
  xml += "    </host>\n";
}

struct LinkHop {
  std::string link;
  const char* direction = "";
  int times = 1;
};

class Writer {
 public:
  Writer(const std::vector<DiscoveredDevice>& devices, const NetworkSegments& network)
      : devices_(devices), network_(network) {
    double sum = 0.0;
    for (const DiscoveredDevice& device : devices)
      sum += seconds_per_byte(device, TaskKind::transfer);
    mean_ = sum / static_cast<double>(devices.size());
  }

  [[nodiscard]] std::string links() const {
    std::string xml;
    for (std::size_t s = 0; s < network_.segments.size(); ++s) add_segment(s, xml);
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = a + 1; b < devices_.size(); ++b) {
        if (rest(a, b) > 0.0) add_link(delay_name(a, b), kUnlimited, rest(a, b), "FATPIPE", xml);
      }
    }
    return xml;
  }

  [[nodiscard]] std::string routes() const {
    std::string xml;
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = 0; b < devices_.size(); ++b) {
        if (a == b) continue;
        xml += "    <route src=\"" + devices_[a].name + "\" dst=\"" + devices_[b].name +
               "\" symmetrical=\"NO\">\n";
        for (const LinkHop& hop : hops(a, b)) {
          for (int i = 0; i < hop.times; ++i) {
            xml += "      <link_ctn id=\"" + hop.link + "\"";
            if (*hop.direction != '\0') xml += std::string(" direction=\"") + hop.direction + "\"";
            xml += "/>\n";
          }
        }
        xml += "    </route>\n";
      }
    }
    return xml;
  }

 private:
  static void add_link(const std::string& name, double rate, double latency, const char* policy,
                       std::string& xml) {
    xml += "    <link id=\"" + name + "\" bandwidth=\"" + bandwidth_text(rate) + "\" latency=\"" +
           latency_text(latency) + "\" sharing_policy=\"" + policy + "\"/>\n";
  }

  static double beyond(double rate, double charged) {
    return 1.0 / std::max(kLeastOfByte / rate, 1.0 / rate - charged);
  }

  [[nodiscard]] static bool has_directions(const Segment& segment) {
    return segment.kind == SegmentKind::port || segment.kind == SegmentKind::uplink;
  }
  [[nodiscard]] static bool is_used(const Segment& segment) { return segment.members != 0; }
  [[nodiscard]] static bool is_one_link(const Segment& segment) {
    return std::abs(segment.out - segment.in) <= kSameRate * std::max(segment.out, segment.in);
  }

  void add_segment(std::size_t index, std::string& xml) const {
    const Segment& segment = network_.segments[index];
    if (!is_used(segment)) return;
    const std::string name = segment_name(devices_, network_, index);
    const double latency = network_.latency[index];
    const auto sender = static_cast<std::size_t>(std::countr_zero(segment.members));
    const bool one_sender =
        std::has_single_bit(segment.members) &&
        (segment.kind == SegmentKind::port || segment.kind == SegmentKind::path);
    const double out = beyond(
        segment.out, one_sender ? seconds_per_byte(devices_[sender], TaskKind::transfer) : mean_);
    if (!has_directions(segment)) return add_link(name, out, latency, "SHARED", xml);
    const double in = beyond(segment.in, mean_);
    if (is_one_link(segment))
      return add_link(name, std::sqrt(out * in), latency, "SPLITDUPLEX", xml);
    add_link(name + "-out", out, latency, "SHARED", xml);
    add_link(name + "-in", in, latency, "SHARED", xml);
  }

  [[nodiscard]] std::vector<LinkHop> hops(std::size_t a, std::size_t b) const {
    std::vector<LinkHop> sending;
    std::vector<LinkHop> between;
    std::vector<LinkHop> receiving;
    for (std::size_t s = 0; s < network_.segments.size(); ++s) {
      const Segment& segment = network_.segments[s];
      if (!is_used(segment)) continue;
      const Passes of = passes(segment, static_cast<int>(a), static_cast<int>(b));
      const std::string name = segment_name(devices_, network_, s);
      const bool port = segment.kind == SegmentKind::port;
      if (!has_directions(segment)) {
        if (of.out > 0) between.push_back({.link = name, .direction = "", .times = of.out});
        continue;
      }
      const bool one = is_one_link(segment);
      if (of.out > 0)
        (port ? sending : between)
            .push_back({.link = one ? name : name + "-out", .direction = one ? "UP" : ""});
      if (of.in > 0)
        (port ? receiving : between)
            .push_back({.link = one ? name : name + "-in", .direction = one ? "DOWN" : ""});
    }
    if (rest(a, b) > 0.0)
      between.push_back({.link = delay_name(std::min(a, b), std::max(a, b)), .direction = ""});
    sending.insert(sending.end(), between.begin(), between.end());
    sending.insert(sending.end(), receiving.begin(), receiving.end());
    return sending;
  }

  [[nodiscard]] double rest(std::size_t a, std::size_t b) const {
    return network_.rest.empty() ? 0.0 : network_.rest[a * devices_.size() + b];
  }
  [[nodiscard]] std::string delay_name(std::size_t a, std::size_t b) const {
    return "delay-" + devices_[a].name + "-" + devices_[b].name;
  }

  const std::vector<DiscoveredDevice>& devices_;
  const NetworkSegments& network_;
  double mean_ = 0.0;  // seconds a byte that senders charge
};

}  // namespace

std::string segment_name(const std::vector<DiscoveredDevice>& devices,
                         const NetworkSegments& network, std::size_t index) {
  const Segment& segment = network.segments.at(index);
  const auto first = static_cast<std::size_t>(std::countr_zero(segment.members));
  switch (segment.kind) {
    case SegmentKind::port:
      return "port-" + devices.at(first).name;
    case SegmentKind::path:
      return "path-" + devices.at(first).name + "-" +
             devices.at(static_cast<std::size_t>(segment.to)).name;
    case SegmentKind::medium:
      return "medium-" + std::to_string(index + 1 - devices.size());
    case SegmentKind::uplink:
      return "uplink-" + std::to_string(index + 1 - devices.size());
    case SegmentKind::bridge:
      return "bridge-" + std::to_string(index + 1 - devices.size());
  }
  return "";
}

std::string platform_xml(const std::string& name, const std::string& comment,
                         const std::vector<DiscoveredDevice>& devices,
                         const NetworkSegments& network) {
  require(!devices.empty(), "platform_xml: no device");
  std::string xml =
      "<?xml version='1.0'?>\n"
      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<!-- " +
      comment + " -->\n<platform version=\"4.1\">\n  <zone id=\"" + name + "\" routing=\"Full\">\n";
  for (const DiscoveredDevice& device : devices) add_host(device, xml);
  if (devices.size() > 1) {
    const Writer writer(devices, network);
    xml += writer.links() + writer.routes();
  }
  return xml + "  </zone>\n</platform>\n";
}

std::string hosts_text(const std::vector<DiscoveredDevice>& devices) {
  std::string text;
  for (const DiscoveredDevice& device : devices)
    text += device.name + " " + (device.local ? "local" : to_text(device.endpoint)) + "\n";
  return text;
}

}  // namespace tandem::exec
