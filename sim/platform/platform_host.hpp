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
  // Returns Platform::defaults; with many devices the first few are named.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> noted_;
};

// Returns the device that `node` describes, with its props and disk; missing values have defaults
// (see docs/decisions/0003-simgrid.md) and are recorded. A processor that it names goes to
// `processors`, under the device's name. Throws Error as parse_platform_xml.
[[nodiscard]] model::Device read_host(const XmlDocument& document, pugi::xml_node node,
                                      Defaults& defaults,
                                      std::map<std::string, std::string>& processors);

}  // namespace tandem::sim
