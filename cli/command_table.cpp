// The commands of `tandem`: one row each, in the order of `tandem help`.
//
// Compiled twice: with TANDEM_WITHOUT_SIMULATOR for devices, whose program lacks the commands that
// need the simulator and rejects them with a remedy.

#include <array>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"

// ROW(name, group, needs, summary): NAME_command() of cli/NAME_command.cpp runs it.
//   needs    simulator: absent from devices; nothing: in every build
//   summary  its line of `tandem help`; empty: not listed
#define TANDEM_COMMANDS(ROW)                                                                      \
  ROW(run, start, nothing, "run a plan for real, on emulated or real devices")                    \
  ROW(chat, start, nothing, "talk with a model in the terminal")                                  \
  ROW(serve, start, nothing, "answer OpenAI's API over HTTP, with a plan or on this machine")     \
  ROW(plan, start, simulator, "place a model on a platform")                                      \
  ROW(simulate, start, simulator, "predict the times of a plan")                                  \
  ROW(compare, start, nothing, "compare predictions and runs of one plan")                        \
  ROW(profile, devices, nothing, "measure this machine's speed")                                  \
  ROW(worker, devices, nothing, "be a device for 'tandem run --hosts'")                           \
  ROW(pair, devices, nothing, "give the key of a group of devices to another one, by a code")     \
  ROW(discover, devices, simulator,                                                               \
      "measure devices and links of workers into a platform and profiles")                        \
  ROW(testbed, devices, simulator, "run plans over a scenario as a real network of this machine") \
  ROW(model, inputs, nothing,                                                                     \
      "list, inspect or make models (list, inspect, random, convert, shard)")                     \
  ROW(platform, inputs, simulator, "check and print a scenario")                                  \
  ROW(workload, inputs, nothing, "draw requests that arrive over time")                           \
  ROW(strategies, inputs, nothing, "print what each strategy shards")                             \
  ROW(whatif, questions, simulator, "find the change of devices or links that helps a plan most") \
  ROW(sweep, questions, simulator, "predict a grid of scenarios into a CSV")                      \
  ROW(fidelity, questions, simulator,                                                             \
      "report how far predictions are off, over a matrix of configurations")                      \
  ROW(eval, questions, nothing, "score a model, or a plan of it, on held-out text and recall")    \
  ROW(propositions, moved, nothing, "")                                                           \
  ROW(experiment, moved, nothing, "")

namespace tandem::cli {

#define TANDEM_DECLARE(name, group, needs, summary) \
  int name##_command(const Arguments& arguments, std::ostream& out);
TANDEM_COMMANDS(TANDEM_DECLARE)
#undef TANDEM_DECLARE

namespace {

#ifdef TANDEM_WITHOUT_SIMULATOR
constexpr bool kSimulator = false;
#else
constexpr bool kSimulator = true;
#endif

// Values of the column `group`: headings of `tandem help`.
namespace group {
constexpr std::string_view start = "Plan, predict, run";
constexpr std::string_view devices = "Devices";
constexpr std::string_view inputs = "Models, platforms, workloads, strategies";
constexpr std::string_view questions = "Questions about a plan";
constexpr std::string_view moved;
}  // namespace group

// Values of the column `needs`: whether this build has it.
namespace needs {
constexpr bool nothing = true;
constexpr bool simulator = kSimulator;
}  // namespace needs

int reject_without_simulator(const Arguments& /*arguments*/, std::ostream& /*out*/) {
  throw Usage(
      "needs the simulator, which this build does not have (TANDEM_SIM=OFF); plan and simulate on "
      "a machine with the whole of tandem, and bring the plan here");
}

using Run = decltype(Command::run);

// A template, so that what this build lacks is not even referred to.
template <bool available, Run run>
constexpr Run run_or_reject() {
  if constexpr (available) return run;
  return reject_without_simulator;
}

// NOLINTBEGIN(bugprone-macro-parentheses): names, which are joined and qualified
#define TANDEM_ROW(name_, group_, needs_, summary_)               \
  Command{.name = #name_,                                         \
          .summary = summary_,                                    \
          .run = run_or_reject<needs::needs_, name_##_command>(), \
          .group = group::group_,                                 \
          .available = needs::needs_},
constexpr std::array kCommands{TANDEM_COMMANDS(TANDEM_ROW)};
#undef TANDEM_ROW
// NOLINTEND(bugprone-macro-parentheses)

constexpr Program kProgram{
    .name = "tandem",
    .summary = kSimulator
                   ? "Plans, predicts and runs distributed LLM inference on the devices people "
                     "own.\nThe program 'tandem-study' reproduces tables and figures of papers."
                   : "Runs what 'tandem plan' planned elsewhere: the program of a device.",
    .commands = kCommands};

}  // namespace

const Program& program() { return kProgram; }

}  // namespace tandem::cli
