#pragma once

// The <host> of a platform file. Private to sim/.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// The values that the file leaves out, by device.
class Defaults {
 public:
  void note(const std::string& value, const std::string& device);
  // Forgets the devices that are not `kept`.
  void keep(const std::vector<std::string>& kept);
  // Returns Platform::defaults; with many devices the first few are named.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> noted_;
};

// What each device's values come from, if the file does not state them.
struct Assumed {
  std::map<std::string, std::string> values{};      // of the user: memory, memory_bandwidth, ...
  Defaults* defaults = nullptr;                     // where the values that were assumed are listed
  std::map<std::string, double>* shares = nullptr;  // where tandem:share goes, by device
};

// A host's <disk>.
struct DiskValues {
  std::string name{};
  model::BytesPerSecond read{};
};

// Sets the values of `device`, whose name, cores and speed are set, from its properties and disks:
// "tandem:memory" and so on, else `memory` or `ram` as other programs write them, else `assumed`,
// else a stated default (docs/decisions/0003-simgrid.md). A processor that it names goes to
// `processors`, under the device's name, and a share to `assumed.shares`: values are those of the
// whole device. `at` is the element of errors. Throws Error as
// parse_platform_xml.
void set_values(const XmlDocument& document, pugi::xml_node at,
                const std::map<std::string, std::string>& properties,
                const std::vector<DiskValues>& disks, const Assumed& assumed, model::Device& device,
                std::map<std::string, std::string>& processors);

// Returns the device that `node`, a <host>, describes. Throws Error as parse_platform_xml.
[[nodiscard]] model::Device read_host(const XmlDocument& document, pugi::xml_node node,
                                      const Assumed& assumed,
                                      std::map<std::string, std::string>& processors);

// Throws Error if a <host>, <cluster> or <cabinet> has a number of cores or a property that no host
// may have. SimGrid reads some of these as another value.
void check_values(const XmlDocument& document, pugi::xml_node node);

// Throws Error for a name that is no value of a host, or a value that does not parse.
void check_assumed(const std::map<std::string, std::string>& values);

}  // namespace tandem::sim
