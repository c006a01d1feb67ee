#pragma once

// The <host> of a platform file. Private to sim/.

#include <string>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// Which values the file left out, and of which devices.
class Defaults {
 public:
  void note(const std::string& value, const std::string& device);
  // As Platform::defaults; of many devices the first few are named.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> noted_;
};

// The device that `node` describes, with its props and disk; what is missing has its default (see
// docs/decisions/0003-simgrid.md) and is noted. Throws Error as parse_platform_xml.
[[nodiscard]] model::Device read_host(const XmlDocument& document, pugi::xml_node node,
                                      Defaults& defaults);

}  // namespace tandem::sim
