#include "cli/command_table.hpp"

#include <array>

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
    Command{"eval", "score a model, or a plan of it, on held-out text and recall", eval_command},
    Command{"whatif", "tell which one change of devices or links helps a plan most",
            whatif_command},
    Command{"compare", "hold a prediction against a measurement", compare_command},
    Command{"propositions", "hold TPI-LLM's Propositions 3 to 6 against their recurrence",
            propositions_command},
    Command{"experiment", "make a table or figure of a paper again, beside its numbers",
            experiment_command},
    Command{"sweep", "predict a grid of scenarios into a CSV", sweep_command},
    Command{"profile", "measure this machine's speed", profile_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace tandem::cli
