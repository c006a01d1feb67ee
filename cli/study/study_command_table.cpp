// The program `tandem-study`.

#include <array>

#include "cli/flags/commands.hpp"

namespace tandem::cli {

int experiment_command(const Arguments& arguments, std::ostream& out);
int propositions_command(const Arguments& arguments, std::ostream& out);

namespace {

constexpr std::array kCommands{
    Command{"propositions", "hold TPI-LLM's Propositions 3 to 6 against their recurrence",
            propositions_command},
    Command{"experiment", "make a table or figure of a paper again, beside its numbers",
            experiment_command},
};

constexpr Program kProgram{
    .name = "tandem-study",
    .summary = "Reproduces papers on distributed LLM inference with the predictions of 'tandem'.",
    .commands = kCommands};

}  // namespace

const Program& program() { return kProgram; }

}  // namespace tandem::cli
