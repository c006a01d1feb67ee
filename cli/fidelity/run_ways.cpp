#include "cli/fidelity/run_ways.hpp"

#include <array>

namespace tandem::cli {
namespace {

using Words = std::vector<std::string>;

Words run_plan(const SittingFiles& files, const std::filesystem::path& result,
               std::initializer_list<std::string> how) {
  Words words{"run",     files.plan.string(),  "--weights",    files.weights.string(),
              "--cache", files.cache.string(), "--ignore-eos", "--quiet",
              "--out",   result.string()};
  words.insert(words.end(), how);
  return words;
}

constexpr std::array<RunWay, 2> kWays{{
    {.name = "machine",
     .help = "one device: this machine itself, with all cores",
     .applies = [](const study::Configuration& one) { return one.devices() == 1; },
     .profile_flags =
         [](const study::Configuration& one, const SittingFiles& files) {
           return one.level("disk") == "own" ? Words{"--disk", "64MiB", "--cache", files.cache}
                                             : Words{"--disk", "none"};
         },
     .run_words = [](const SittingFiles& files,
                     const std::filesystem::path& result) { return run_plan(files, result, {}); }},
    {.name = "emulated",
     .help = "several devices, emulated on this machine at measured pace",
     .applies = [](const study::Configuration& one) { return one.devices() > 1; },
     .profile_flags =
         [](const study::Configuration&, const SittingFiles&) {
           return Words{"--threads", "1", "--disk", "none"};
         },
     .run_words =
         [](const SittingFiles& files, const std::filesystem::path& result) {
           return run_plan(files, result, {"--emulate", "--pace", "measured", "--allow-drift"});
         }},
}};

}  // namespace

std::span<const RunWay> run_ways() { return kWays; }

}  // namespace tandem::cli
