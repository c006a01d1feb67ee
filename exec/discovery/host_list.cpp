#include "exec/discovery/host_list.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

class HostLines {
 public:
  explicit HostLines(std::string source) : source_(std::move(source)) {}

  void add(std::string line) {
    const std::string where = source_ + ":" + std::to_string(++number_);
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) return;
    if (words.size() > 2 || words.back() == "local") {
      if (words.size() != 2)
        throw Error(where + ": '" + model::printable(line, 60) +
                    "', expected '[device-name] host:port' or 'device-name local'; give each "
                    "device one line");
    }
    DiscoveryHost host;
    if (words.size() == 2) host.name = name_of(words.front(), where);
    if (words.back() == "local") {
      host.local = true;
      once(locals_, "local", "this machine", where);
    } else {
      host.endpoint = parse_endpoint(words.back(), where);
      once(addresses_, lower(to_text(host.endpoint)), "address " + to_text(host.endpoint), where);
    }
    hosts_.push_back(host);
  }
  [[nodiscard]] std::vector<DiscoveryHost> done() const {
    if (hosts_.empty())
      throw Error(source_ + ": has no line, expected '[device-name] host:port' for each worker");
    if (hosts_.size() >= static_cast<std::size_t>(kMostNetworkDevices))
      throw Error(source_ + ": " + std::to_string(hosts_.size()) + " workers, expected at most " +
                  std::to_string(kMostNetworkDevices - 1) +
                  ", as all pairs are measured; discover the devices in parts");
    return hosts_;
  }

 private:
  std::string name_of(const std::string& name, const std::string& where) {
    if (device_name(name) != name)
      throw Error(
          where + ": device name '" + model::printable(name, 60) +
          "', expected up to 60 letters, digits, '-', '_' and '.', of which a letter, a digit "
          "or '_' is first; rename it");
    once(names_, lower(name), "device name '" + name + "'", where);
    return name;
  }
  void once(std::map<std::string, int>& seen, const std::string& key, const std::string& what,
            const std::string& where) const {
    const auto [before, fresh] = seen.emplace(key, number_);
    if (!fresh)
      throw Error(where + ": " + what + " is in line " + std::to_string(before->second) +
                  " already, expected once; remove or change one");
  }

  std::string source_;
  int number_ = 0;
  std::vector<DiscoveryHost> hosts_;
  std::map<std::string, int> names_;  // by lower case: lines
  std::map<std::string, int> addresses_;
  std::map<std::string, int> locals_;
};

}  // namespace

std::vector<DiscoveryHost> parse_host_list(std::string_view text, const std::string& source) {
  HostLines hosts(source);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) hosts.add(line);
  return hosts.done();
}

}  // namespace tandem::exec
