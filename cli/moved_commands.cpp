// Commands that moved to another program: rejected with its name, for one release.

#include <string>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"

namespace tandem::cli {
namespace {

[[noreturn]] void throw_moved(const std::string& command) {
  throw Usage("'" + command + "' moved to the program tandem-study; run 'tandem-study " + command +
              "' with the same arguments ('make study' builds it, the package tandem has it)");
}

}  // namespace

int propositions_command(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw_moved("propositions");
}

int experiment_command(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw_moved("experiment");
}

}  // namespace tandem::cli
