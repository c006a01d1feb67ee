#include "sim/platform/platform_host.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>

#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "sim/platform/xml_values.hpp"

namespace tandem::sim {
namespace {

using pugi::xml_node;

constexpr std::string_view kDefaultMemory = "8GiB";
constexpr std::string_view kDefaultMemoryBandwidth = "10GBps";

std::int64_t read_cores(const XmlDocument& document, xml_node node, std::string_view text) {
  std::int64_t cores = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cores);
  if (error != std::errc{} || end != text.data() + text.size() || cores < 1 ||
      cores > model::limits::kCores) {
    document.fail(node, "has core=\"" + std::string(text.substr(0, 40)) +
                            "\", expected a whole number from 1 to " +
                            std::to_string(model::limits::kCores) + "; mend it");
  }
  return cores;
}

void read_props(const XmlDocument& document, xml_node node, model::Device& device,
                Defaults& defaults, std::map<std::string, std::string>& processors) {
  std::map<std::string_view, xml_node> ours;
  for (const xml_node prop : node.children("prop")) {
    document.expect(prop, {"id", "value"}, {}, {});
    if (!is_ours(prop)) {
      refuse_unprefixed(document, prop, "host " + device.name,
                        {"memory", "memory_bandwidth", "disk_bandwidth", "processor", "slowdown"});
      continue;
    }
    const std::string_view id = prop.attribute("id").value();
    if (!ours.emplace(id, prop).second) {
      document.fail(prop, "is given twice for host " + device.name + "; remove one");
    }
  }
  const auto take = [&](std::string_view id) {
    const auto found = ours.find(id);
    if (found == ours.end()) return xml_node{};
    const xml_node prop = found->second;
    ours.erase(found);
    return prop;
  };
  const auto value = [](xml_node prop) { return prop.attribute("value").value(); };
  const auto subject = [&](xml_node prop) {
    return document.where(prop) + " of host " + device.name;
  };
  const auto defaulted = [&](std::string_view id, std::string_view text) {
    defaults.note(std::string(id) + " assumed to be " + std::string(text), device.name);
    return text;
  };
  constexpr std::string_view kMemory = "tandem:memory";
  constexpr std::string_view kMemoryBandwidth = "tandem:memory_bandwidth";
  if (const xml_node prop = take(kMemory)) {
    device.memory = model::parse_bytes(value(prop), subject(prop));
    require_positive(document, prop, "value", device.memory.value());
  } else {
    device.memory = model::parse_bytes(defaulted(kMemory, kDefaultMemory), kMemory);
  }
  if (const xml_node prop = take(kMemoryBandwidth)) {
    device.memory_bandwidth = model::parse_rate(value(prop), subject(prop));
    require_positive(document, prop, "value", device.memory_bandwidth.value());
  } else {
    device.memory_bandwidth =
        model::parse_rate(defaulted(kMemoryBandwidth, kDefaultMemoryBandwidth), kMemoryBandwidth);
  }
  if (const xml_node prop = take("tandem:disk_bandwidth")) {
    device.disk_bandwidth = model::parse_rate(value(prop), subject(prop));
    require_positive(document, prop, "value", device.disk_bandwidth.value());
  }
  if (const xml_node prop = take("tandem:slowdown")) {
    const auto factor = bare_number(value(prop));
    if (!factor || !(*factor > 0.0) || !std::isfinite(*factor)) {
      document.fail(prop, "of host " + device.name + " has value \"" +
                              std::string(std::string_view(value(prop)).substr(0, 40)) +
                              "\", expected a positive number without unit; mend it");
    }
    device.slowdown = *factor;
  } else {
    defaulted("tandem:slowdown", "1");
  }
  if (const xml_node prop = take("tandem:processor")) {
    const std::string name = value(prop);
    if (const std::string fault = model::fault_of_name(name); !fault.empty()) {
      document.fail(prop, "of host " + device.name + " " + fault +
                              ", expected the name of a processor; mend it");
    }
    processors.emplace(device.name, name);
  }
  if (!ours.empty()) {
    document.fail(
        ours.begin()->second,
        "of host " + device.name +
            " is unknown, expected tandem:memory, tandem:memory_bandwidth, "
            "tandem:disk_bandwidth, tandem:processor or tandem:slowdown; correct its name");
  }
}

void read_disks(const XmlDocument& document, xml_node node, model::Device& device,
                Defaults& defaults) {
  bool have_disk = false;
  for (const xml_node disk : node.children("disk")) {
    document.expect(disk, {"id", "read_bw", "write_bw"}, {}, {"prop"});
    (void)read_id(document, disk);
    refuse_our_props(document, disk);
    if (have_disk) {
      document.fail(disk, "is a second disk of host " + device.name +
                              ", expected one: weights are read from one; remove the others");
    }
    have_disk = true;
    const auto read = read_rate(document, disk, "read_bw");
    (void)read_rate(document, disk, "write_bw");
    if (device.disk_bandwidth.value() > 0.0 && device.disk_bandwidth != read) {
      document.fail(disk, "has a read_bw other than tandem:disk_bandwidth of host " + device.name +
                              ", expected one value; remove one");
    }
    device.disk_bandwidth = read;
  }
  if (device.disk_bandwidth.value() == 0.0) {
    defaults.note("tandem:disk_bandwidth assumed to be none (no disk)", device.name);
  }
}

}  // namespace

void Defaults::note(const std::string& value, const std::string& device) {
  for (auto& [known, devices] : noted_) {
    if (known == value) {
      devices.push_back(device);
      return;
    }
  }
  noted_.push_back({value, {device}});
}

std::vector<std::string> Defaults::lines() const {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> lines;
  for (const auto& [value, devices] : noted_) {
    std::string& line = lines.emplace_back(value + ": ");
    for (std::size_t i = 0; i < std::min(kNamed, devices.size()); ++i) {
      line.append(i == 0 ? "" : ", ").append(devices[i]);
    }
    if (devices.size() > kNamed) {
      line += " and " + std::to_string(devices.size() - kNamed) + " more";
    }
  }
  return lines;
}

model::Device read_host(const XmlDocument& document, xml_node node, Defaults& defaults,
                        std::map<std::string, std::string>& processors) {
  document.expect(node, {"id", "speed"}, {"core"}, {"prop", "disk"});
  model::Device device;
  device.name = read_id(document, node);
  if (device.name.find('#') != std::string::npos)
    document.fail(node, "has a # in its id, which begins a comment in lists of hosts; rename it");
  const auto speed = model::parse_flops(with_unit(node.attribute("speed").value(), "f"),
                                        document.where(node) + " speed");
  require_positive(document, node, "speed", speed.value());
  if (const auto core = node.attribute("core"))
    device.cores = read_cores(document, node, core.value());
  device.flop_rate = speed * static_cast<double>(device.cores);
  read_props(document, node, device, defaults, processors);
  read_disks(document, node, device, defaults);
  return device;
}

}  // namespace tandem::sim
