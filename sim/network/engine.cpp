#include "sim/network/engine.hpp"

#include <simgrid/version.h>
#include <xbt/log.h>

#include <array>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include "sim/network/network_settings.hpp"

namespace tandem::sim {
namespace {

// CM02 is max-min sharing of the raw bandwidth. Flows are equal: with no latency on the engine's
// links (the replay adds a route's latency itself), the model gives every flow weight 1, whatever
// its path; weight-S and TCP-gamma, which would favour short or near flows, then have no effect and
// are still set explicitly. The precisions are those at which events coincide and rates are solved.
constexpr std::array<std::pair<const char*, const char*>, 10> kSettings{{
    {"network/model", "CM02"},
    {"network/optim", "Lazy"},
    {"network/latency-factor", "1"},
    {"network/bandwidth-factor", "1"},
    {"network/crosstraffic", "0"},
    {"network/TCP-gamma", "1e18"},
    {"network/weight-S", "0"},
    {"maxmin/precision", "1e-12"},
    {"maxmin/concurrency-limit", "-1"},
    {"surf/precision", "1e-12"},
}};

}  // namespace

std::map<std::string, std::string> network_settings() {
  std::map<std::string, std::string> settings(kSettings.begin(), kSettings.end());
  settings["simgrid"] =
      std::to_string(SIMGRID_VERSION_MAJOR) + "." + std::to_string(SIMGRID_VERSION_MINOR);
  settings["link latency"] = "0 in the engine; a message is done its route's latency later";
  return settings;
}

simgrid::s4u::Engine& make_engine() {
  std::string program = "tandem";
  std::string quiet = "--log=root.thres:error";
  std::array<char*, 3> argv{program.data(), quiet.data(), nullptr};
  int argc = 2;
  // Never destroyed: the child leaves with _exit.
  auto* engine = new simgrid::s4u::Engine(&argc, argv.data());
  std::signal(SIGINT, SIG_DFL);
  for (const auto& [name, value] : kSettings) {
    simgrid::s4u::Engine::set_config(std::string(name) + ":" + value);
  }
  return *engine;
}

}  // namespace tandem::sim
