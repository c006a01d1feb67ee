// Commands that another program has now, for one release.

#include <string>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"

namespace tandem::cli {
namespace {

[[noreturn]] void throw_moved(const std::string& command) {
  throw Usage("moved to the program tandem-study; run 'tandem-study " + command +
              "' with the same arguments ('make study' builds it, package tandem has it)");
}

}  // namespace

int moved_propositions_command(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw_moved("propositions");
}

int moved_experiment_command(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw_moved("experiment");
}

}  // namespace tandem::cli
