// A build with TANDEM_SIM=OFF, for devices: what they compute, not what they are asked to.

#include <array>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"

namespace tandem::cli {
namespace {

constexpr std::string_view kElsewhere = "(not in this build, which has no simulator)";

int elsewhere(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw Usage(
      "needs the simulator, which this build does not have (TANDEM_SIM=OFF); plan and simulate on "
      "a "
      "machine with the whole of tandem, and bring the plan here");
}

constexpr std::array kCommands{
    Command{"model", "list, inspect or make models (list, inspect, random, convert, shard)",
            model_command},
    Command{"run", "run a plan for real, on emulated or real devices", run_command},
    Command{"worker", "be a device for 'tandem run --hosts'", worker_command},
    Command{"eval", "score a model, or a plan of it, on held-out text and recall", eval_command},
    Command{"compare", "hold a prediction against a measurement", compare_command},
    Command{"workload", "draw requests that arrive over time", workload_command},
    Command{"profile", "measure this machine's speed", profile_command},
    Command{"platform", kElsewhere, elsewhere},
    Command{"plan", kElsewhere, elsewhere},
    Command{"simulate", kElsewhere, elsewhere},
    Command{"whatif", kElsewhere, elsewhere},
    Command{"sweep", kElsewhere, elsewhere},
    Command{"fidelity", kElsewhere, elsewhere},
    Command{"propositions", "", moved_propositions_command},
    Command{"experiment", "", moved_experiment_command},
};

constexpr Program kProgram{
    .name = "tandem",
    .summary = "Plans, predicts and runs distributed LLM inference on the devices people own.",
    .commands = kCommands};

}  // namespace

const Program& program() { return kProgram; }

}  // namespace tandem::cli
