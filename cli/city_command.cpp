// tandem platform city: makes a synthetic city.

#include "cli/city_command.hpp"

#include <ostream>

#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "sim/platform/city.hpp"

namespace tandem::cli {

int city_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "platform city",
       .summary = "Makes the platform file of a synthetic city: homes with their devices, access\n"
                  "lines, switches and a core. Its comment says what is drawn from which range.",
       .positionals = {},
       .flags = {{"homes", "N", "homes, 1 to 4096 (required)"},
                 {"devices-per-home", "N", "devices in each, 1 to 64 [2]"},
                 {"seed", "S", "of the draws [1]"},
                 {"out", "FILE", "write it there instead of printing it"}}},
      arguments);
  (void)options.required("homes");
  const auto path = options.text("out");
  const bool to_file = path && *path != "-";
  if (to_file) {
    FileRoles files;
    files.writes(options, "out");
    files.check();
  }
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 62;
  const std::string text = sim::city_platform_xml(
      {.homes = options.integer_or("homes", 1, 1, 4096),
       .devices_per_home = options.integer_or("devices-per-home", 2, 1, 64),
       .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, kMaxSeed))});
  options.settle();
  deliver({.file = to_file ? path : std::nullopt, .to_output = !to_file}, text, out);
  return 0;
}

}  // namespace tandem::cli
