#include "exec/session/hosts.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

std::string quoted_text(const std::string& text) { return "'" + model::printable(text, 60) + "'"; }

// "'desk', 'sofa' and 3 more".
std::string known_names(const std::vector<model::Device>& devices) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t d = 0; d < std::min(devices.size(), kShown); ++d)
    text += (d == 0 ? "" : ", ") + quoted_text(devices[d].name);
  if (devices.size() > kShown) text += " and " + std::to_string(devices.size() - kShown) + " more";
  return text;
}

[[noreturn]] void fail(const std::string& where, const std::string& device, const char* fault) {
  throw Error(where + ": device '" + device + "' " + fault);
}

}  // namespace

std::vector<Endpoint> parse_hosts(std::string_view text, const std::string& source,
                                  const planner::Plan& plan) {
  model::expect_kind(text, source, model::kHostsKind);
  const std::vector<model::Device>& devices = plan.cluster.devices();
  std::vector<Endpoint> endpoints(devices.size());
  std::vector<bool> given(devices.size(), false);
  std::map<std::pair<std::string, std::uint16_t>, std::string> taken;  // by device name
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = source + ":" + std::to_string(++number);
    line.resize(std::min(line.size(), line.find('#')));
    constexpr const char* kBlanks = " \t\r";
    line.erase(0, std::min(line.size(), line.find_first_not_of(kBlanks)));
    line.resize(line.find_last_not_of(kBlanks) + 1);
    if (line.empty()) continue;
    // The address is the last word: names may have blanks.
    const std::size_t blank = line.find_last_of(kBlanks);
    const std::string address = blank == std::string::npos ? "" : line.substr(blank + 1);
    const std::string name =
        blank == std::string::npos ? "" : line.substr(0, line.find_last_not_of(kBlanks, blank) + 1);
    if (name.empty()) {
      throw Error(where + ": " + quoted_text(line) +
                  ", expected 'device-name host:port'; give each device one line");
    }
    std::size_t d = 0;
    while (d < devices.size() && devices[d].name != name) ++d;
    if (d == devices.size() && name.find_first_of(kBlanks) != std::string::npos)
      throw Error(where + ": " + quoted_text(line) +
                  ", expected 'device-name host:port' with a device of the plan, " +
                  known_names(devices) + "; correct the line");
    if (d == devices.size()) {
      throw Error(where + ": device " + quoted_text(name) +
                  " is not in the plan, expected one of its devices, " + known_names(devices) +
                  "; correct the name");
    }
    if (given[d]) fail(where, name, "has a line already; remove one");
    given[d] = true;
    const bool master = static_cast<model::DeviceIndex>(d) == plan.master;
    if (master != (address == "local")) {
      fail(where, name,
           master
               ? "is the master, which is this process, expected 'local'; leave its line out, or "
                 "run on that machine"
               : "is 'local', expected host:port; only the master is local");
    }
    if (master) continue;
    endpoints[d] = parse_endpoint(address, where);
    std::string host = endpoints[d].host;  // the case of a name does not matter
    std::ranges::transform(host, host.begin(), [](char c) {
      return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto [before, fresh] = taken.emplace(std::pair(host, endpoints[d].port), name);
    if (!fresh) {
      std::string what = where;
      what.append(": device '").append(name).append("' has the address of '");
      what.append(before->second).append("', ").append(to_text(endpoints[d]));
      throw Error(what.append(", expected one of its own; start a worker for each device"));
    }
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (given[d] || static_cast<model::DeviceIndex>(d) == plan.master) continue;
    fail(source, devices[d].name,
         "has no line, expected 'device-name host:port' for every device of the plan; add it");
  }
  return endpoints;
}

}  // namespace tandem::exec
