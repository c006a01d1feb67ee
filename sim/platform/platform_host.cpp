#include "sim/platform/platform_host.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/predict/device_share.hpp"
#include "sim/platform/xml_values.hpp"

namespace tandem::sim {
namespace {

using pugi::xml_node;

constexpr std::string_view kDefaultMemory = "8GiB";
constexpr std::string_view kDefaultMemoryBandwidth = "10GBps";

// Names that mean something to tandem only with its prefix.
constexpr std::array<std::string_view, 4> kUnprefixed{"memory_bandwidth", "disk_bandwidth",
                                                      "processor", "slowdown"};

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

constexpr std::string_view kPrefix = "tandem:";

// Where `id` is written, for an error's line: a <prop> of `at`, else `at` itself (a cluster's
// properties hold for each of its hosts).
xml_node place_of(xml_node at, std::string_view id) {
  for (const xml_node prop : at.children("prop")) {
    if (id == prop.attribute("id").value()) return prop;
  }
  return at;
}

model::BytesPerSecond positive_rate(const XmlDocument& document, xml_node at,
                                    const std::string& text, const std::string& subject) {
  const auto rate = model::parse_rate(text, subject);
  require_positive(document, at, "value", rate.value());
  return rate;
}

model::Bytes positive_bytes(const XmlDocument& document, xml_node at, const std::string& text,
                            const std::string& subject) {
  const auto bytes = model::parse_bytes(text, subject);
  require_positive(document, at, "value", bytes.value());
  return bytes;
}

// Returns the properties of the <prop>s of `node`, each of which is well-formed and given once.
std::map<std::string, std::string> properties_of(const XmlDocument& document, xml_node node,
                                                 const std::string& name) {
  std::map<std::string, std::string> properties;
  for (const xml_node prop : node.children("prop")) {
    document.expect(prop, {"id", "value"}, {}, {});
    if (!properties.emplace(prop.attribute("id").value(), prop.attribute("value").value()).second &&
        is_ours(prop))
      document.fail(prop,
                    "is given twice for " + std::string(node.name()) + " " + name + "; remove one");
  }
  return properties;
}

// Returns the speed of one core in the p-state of the file.
std::string speed_text(const XmlDocument& document, xml_node node) {
  std::vector<std::string> speeds;
  std::istringstream list(node.attribute("speed").value());
  for (std::string one; std::getline(list, one, ',');) speeds.push_back(one);
  if (speeds.empty()) speeds.emplace_back();
  const auto attribute = node.attribute("pstate");
  const std::string_view text = attribute ? attribute.value() : "0";
  std::size_t pstate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pstate);
  if (error != std::errc{} || end != text.data() + text.size() || pstate >= speeds.size())
    document.fail(node, "has pstate=\"" + std::string(text.substr(0, 40)) +
                            "\", expected a whole number from 0 to " +
                            std::to_string(speeds.size() - 1) +
                            ", as many as its speeds; correct it");
  std::string speed = speeds[pstate];
  speed.erase(0, speed.find_first_not_of(' '));
  return speed;
}

}  // namespace

void set_values(const XmlDocument& document, xml_node at,
                const std::map<std::string, std::string>& properties,
                const std::vector<DiskValues>& disks, const Assumed& assumed, model::Device& device,
                std::map<std::string, std::string>& processors) {
  std::map<std::string, std::string> ours;
  for (const auto& [id, value] : properties) {
    if (std::string_view(id).starts_with(kPrefix)) {
      ours.emplace(id, value);
    } else if (std::ranges::find(kUnprefixed, id) != kUnprefixed.end()) {
      document.fail(place_of(at, id),
                    "of host " + device.name + " would be ignored, expected tandem:" + id +
                        "; add the prefix, or rename what is for another program");
    }
  }
  // What the file states of `name`, with the place and subject of errors.
  struct Stated {
    xml_node at;
    std::string subject;
    std::string text;
  };
  const auto stated_as = [&](const std::string& id, const std::string& text) {
    const xml_node place = place_of(at, id);
    return Stated{place, document.where(place) + " of host " + device.name, text};
  };
  const auto take = [&](const std::string& name) -> std::optional<Stated> {
    const auto found = ours.find(std::string(kPrefix) + name);
    if (found == ours.end()) return std::nullopt;
    Stated stated = stated_as(found->first, found->second);
    ours.erase(found);
    return stated;
  };
  const auto assume = [&](const std::string& name, std::string_view otherwise) {
    const auto given = assumed.values.find(name);
    std::string text(given == assumed.values.end() ? otherwise : given->second);
    assumed.defaults->note("tandem:" + name + " assumed to be " + text, device.name);
    return text;
  };
  std::optional<Stated> memory = take("memory");
  for (const char* const other : {"memory", "ram"}) {
    const auto found = properties.find(other);
    if (memory || found == properties.end()) continue;
    memory = stated_as(other, with_unit(found->second, "B"));
  }
  device.memory =
      memory ? positive_bytes(document, memory->at, memory->text, memory->subject)
             : model::parse_bytes(assume("memory", kDefaultMemory), "the default of memory");
  const auto bandwidth = take("memory_bandwidth");
  device.memory_bandwidth =
      bandwidth ? positive_rate(document, bandwidth->at, bandwidth->text, bandwidth->subject)
                : model::parse_rate(assume("memory_bandwidth", kDefaultMemoryBandwidth),
                                    "the default of memory_bandwidth");
  const auto disk = take("disk_bandwidth");
  if (disk) device.disk_bandwidth = positive_rate(document, disk->at, disk->text, disk->subject);
  if (const auto slowdown = take("slowdown")) {
    const auto factor = bare_number(slowdown->text);
    if (!factor || !(*factor > 0.0) || !std::isfinite(*factor)) {
      document.fail(slowdown->at, "of host " + device.name + " has value \"" +
                                      slowdown->text.substr(0, 40) +
                                      "\", expected a positive number without unit; mend it");
    }
    device.slowdown = *factor;
  } else {
    assumed.defaults->note("tandem:slowdown assumed to be 1", device.name);
  }
  if (const auto share = take("share")) {
    const double part = model::parse_share(share->text, share->subject);
    if (assumed.shares != nullptr) assumed.shares->emplace(device.name, part);
  }
  if (const auto processor = take("processor")) {
    if (const std::string fault = model::fault_of_name(processor->text); !fault.empty()) {
      document.fail(processor->at, "of host " + device.name + " " + fault +
                                       ", expected the name of a processor; mend it");
    }
    processors.emplace(device.name, processor->text);
  }
  if (!ours.empty()) {
    const std::string& id = ours.begin()->first;
    document.fail(
        place_of(at, id),
        (place_of(at, id) == at ? "has property " + id : "of host " + device.name) +
            " is unknown, expected tandem:memory, tandem:memory_bandwidth, "
            "tandem:disk_bandwidth, tandem:processor, tandem:share or tandem:slowdown; correct its "
            "name");
  }
  const auto fastest =
      std::ranges::max_element(disks, {}, [](const DiskValues& one) { return one.read.value(); });
  if (fastest != disks.end()) {
    if (disk && device.disk_bandwidth != fastest->read) {
      document.fail(at.child("disk") ? at.child("disk") : at,
                    "has a read_bw other than tandem:disk_bandwidth of host " + device.name +
                        ", expected one value; remove one");
    }
    device.disk_bandwidth = fastest->read;
    if (disks.size() > 1)
      assumed.defaults->note("weights assumed to be on the fastest disk", device.name);
  } else if (!disk) {
    if (assumed.values.contains("disk_bandwidth")) {
      device.disk_bandwidth =
          model::parse_rate(assume("disk_bandwidth", ""), "the default of disk_bandwidth");
    } else {
      assumed.defaults->note("tandem:disk_bandwidth assumed to be none (no disk)", device.name);
    }
  }
}

void check_values(const XmlDocument& document, xml_node node) {
  if (const auto core = node.attribute("core"))
    static_cast<void>(read_cores(document, node, core.value()));
  model::Device device;
  device.name = node.attribute("id").value();
  Defaults unused;
  std::map<std::string, std::string> processors;
  set_values(document, node, properties_of(document, node, device.name), {}, {.defaults = &unused},
             device, processors);
}

void check_assumed(const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string subject = "the default of " + name;
    double number = 0.0;
    if (name == "memory") {
      number = model::parse_bytes(value, subject).value();
    } else if (name == "memory_bandwidth" || name == "disk_bandwidth") {
      number = model::parse_rate(value, subject).value();
    } else {
      throw Error("'" + model::one_line(name, 60) +
                  "' has no default, expected memory, memory_bandwidth or disk_bandwidth, as in "
                  "memory=8GiB; correct the name");
    }
    if (!(number > 0.0))
      throw Error(std::string(subject).append(": ").append(value).append(
          ", expected more than 0; correct the value"));
  }
}

void Defaults::note(const std::string& value, const std::string& device) {
  for (auto& [known, devices] : noted_) {
    if (known == value) {
      devices.push_back(device);
      return;
    }
  }
  noted_.push_back({value, {device}});
}

void Defaults::keep(const std::vector<std::string>& kept) {
  for (auto& [value, devices] : noted_) {
    std::erase_if(devices, [&](const std::string& device) {
      return std::ranges::find(kept, device) == kept.end();
    });
  }
  std::erase_if(noted_, [](const auto& noted) { return noted.second.empty(); });
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

model::Device read_host(const XmlDocument& document, xml_node node, const Assumed& assumed,
                        std::map<std::string, std::string>& processors) {
  document.expect(node, {"id", "speed"}, {"core", "pstate", "speed_file", "coordinates"},
                  {"prop", "disk"});
  model::Device device;
  device.name = read_id(document, node);
  const auto speed = model::parse_flops(with_unit(speed_text(document, node), "f"),
                                        document.where(node) + " speed");
  require_positive(document, node, "speed", speed.value());
  if (const auto core = node.attribute("core"))
    device.cores = read_cores(document, node, core.value());
  device.flop_rate = speed * static_cast<double>(device.cores);
  std::vector<DiskValues> disks;
  std::set<std::string> names;
  for (const xml_node disk : node.children("disk")) {
    document.expect(disk, {"id", "read_bw", "write_bw"}, {}, {"prop"});
    refuse_our_props(document, disk);
    if (!names.insert(read_id(document, disk)).second)
      document.fail(disk, "is a second disk of that name of host " + device.name +
                              ", expected unique ids; rename one");
    static_cast<void>(read_rate(document, disk, "write_bw"));
    disks.push_back({disk.attribute("id").value(), read_rate(document, disk, "read_bw")});
  }
  set_values(document, node, properties_of(document, node, device.name), disks, assumed, device,
             processors);
  return device;
}

}  // namespace tandem::sim
