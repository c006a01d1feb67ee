// The program `tandem`.

#include <array>

#include "cli/flags/commands.hpp"

namespace tandem::cli {
namespace {

constexpr std::array kCommands{
    Command{"model", "list, inspect or make models (list, inspect, random, convert, shard)",
            model_command},
    Command{"platform", "check and print a scenario", platform_command},
    Command{"plan", "place a model on a platform", plan_command},
    Command{"workload", "draw requests that arrive over time", workload_command},
    Command{"simulate", "predict the times of a plan", simulate_command},
    Command{"run", "run a plan for real, on emulated or real devices", run_command},
    Command{"worker", "be a device for 'tandem run --hosts'", worker_command},
    Command{"discover", "measure devices and links of workers into a platform and profiles",
            discover_command},
    Command{"eval", "score a model, or a plan of it, on held-out text and recall", eval_command},
    Command{"whatif", "tell which one change of devices or links helps a plan most",
            whatif_command},
    Command{"compare", "hold a prediction against a measurement", compare_command},
    Command{"sweep", "predict a grid of scenarios into a CSV", sweep_command},
    Command{"profile", "measure this machine's speed", profile_command},
    Command{"propositions", "", moved_propositions_command},
    Command{"experiment", "", moved_experiment_command},
};

constexpr Program kProgram{
    .name = "tandem",
    .summary =
        "Plans, predicts and runs distributed LLM inference on the devices people own.\n"
        "The program 'tandem-study' reproduces tables and figures of papers.",
    .commands = kCommands};

}  // namespace

const Program& program() { return kProgram; }

}  // namespace tandem::cli
