#pragma once

// Changes of speeds, bandwidths and latencies during a run: what a platform file says of them in
// <trace>s and profile files. SimGrid's API does not return them. Private to sim/.

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// Reads profiles and connects them to devices and links. Errors as parse_platform_xml.
class Profiles {
 public:
  // Reads all <trace>s of `document`; files are relative to `folder`.
  Profiles(const XmlDocument& document, std::string folder);

  // Whether the platform has a host, or SimGrid a link, of a name; empty: it has none.
  struct Others {
    std::function<bool(const std::string&)> host{};
    std::function<bool(const std::string&)> link{};
  };

  // Adds the changes that the file gives for `devices` and `links`. Those of `others`, which are
  // not used, are passed over; any other name is an error.
  void connect(std::vector<model::Device>& devices, std::vector<model::Link>& links,
               const Others& others) const;

 private:
  using Profile = std::vector<std::pair<double, double>>;  // seconds, value

  [[nodiscard]] Profile parse(pugi::xml_node node, const std::string& text) const;
  [[nodiscard]] Profile read(pugi::xml_node node, const char* attribute) const;

  const XmlDocument* document_;
  std::string folder_;
  std::unordered_map<std::string, Profile> traces_;
};

// Returns `text` with everything blanked that SimGrid must not act on: <config> (tandem sets its
// options), and <trace>, <trace_connect> and profile files, as SimGrid 3.32 aborts on those of
// links. Lines keep their numbers.
[[nodiscard]] std::string hidden_from_simgrid(const XmlDocument& document, std::string_view text);

}  // namespace tandem::sim
