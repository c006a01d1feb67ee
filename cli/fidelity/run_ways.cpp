#include "cli/fidelity/run_ways.hpp"

#include <array>

#include "model/base/quantity_text.hpp"

namespace tandem::cli {
namespace {

using Words = std::vector<std::string>;
using study::Configuration;

std::filesystem::path with_json(std::filesystem::path stem) { return stem += ".json"; }

RunCommand run_plan(const SittingFiles& files, const std::filesystem::path& stem,
                    std::initializer_list<std::string> how) {
  RunCommand command{
      .words = {"run", files.plan.string(), "--weights", files.weights.string(), "--cache",
                files.cache.string(), "--ignore-eos", "--quiet", "--out", with_json(stem).string()},
      .result = with_json(stem)};
  command.words.insert(command.words.end(), how);
  return command;
}

RunCommand run_in_testbed(const SittingFiles& files, const std::filesystem::path& stem) {
  return {.words = {"testbed", "run", files.platform.string(), files.plan.string(), "--weights",
                    files.weights.string(), "--cache", files.cache.string(), "--ignore-eos",
                    "--allow-drift", "--quiet", "--tcp", files.tcp, "--out", stem.string()},
          .result = stem / with_json(files.plan.stem())};
}

std::string one_device_only(const Configuration& one) {
  return one.devices() == 1 ? "" : "several devices";
}

std::string several_devices_only(const Configuration& one) {
  return one.devices() > 1 ? "" : "one device, which has no network";
}

std::string testbed_obstacle(const Configuration& one) {
  if (std::string alone = several_devices_only(one); !alone.empty()) return alone;
  // Each route is two links. The emulator subtracts its own time from the last one's latency, and
  // takes about 0.1 ms.
  constexpr model::Seconds kLeast{0.15e-3};
  const model::Seconds link = model::parse_seconds(one.level("latency"), "latency") / 2;
  if (link >= kLeast) return "";
  return "links of " + to_text(link) + ", about as long as the emulator's own time of a packet";
}

Words one_thread(const Configuration&, const SittingFiles&) {
  return {"--threads", "1", "--disk", "none"};
}

constexpr std::array<RunWay, 3> kWays{{
    {.name = "machine",
     .help = "one device: this machine itself, with all cores",
     .obstacle = one_device_only,
     .profile_flags =
         [](const Configuration& one, const SittingFiles& files) {
           return one.level("disk") == "own" ? Words{"--disk", "64MiB", "--cache", files.cache}
                                             : Words{"--disk", "none"};
         },
     .run = [](const SittingFiles& files,
               const std::filesystem::path& stem) { return run_plan(files, stem, {}); }},
    {.name = "emulated",
     .help = "several devices, emulated on this machine at measured pace",
     .obstacle = several_devices_only,
     .profile_flags = one_thread,
     .run =
         [](const SittingFiles& files, const std::filesystem::path& stem) {
           return run_plan(files, stem, {"--emulate", "--pace", "measured", "--allow-drift"});
         }},
    {.name = "testbed",
     .help = "several devices, over TCP in a testbed of this machine, as root",
     .obstacle = testbed_obstacle,
     // `tandem testbed run` rejects what needs more than 0.7; the rest is for TCP and the emulator.
     .most_demand = 0.5,
     .over_tcp = true,
     .profile_flags = one_thread,
     .run = run_in_testbed},
}};

}  // namespace

std::span<const RunWay> run_ways() { return kWays; }

}  // namespace tandem::cli
