#include "cli/flags/plan_syntax.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "cli/flags/cache_type.hpp"
#include "cli/flags/fit_flags.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/platform_flags.hpp"
#include "cli/flags/prompt.hpp"
#include "cli/flags/replica_flags.hpp"
#include "cli/flags/workload_flags.hpp"
#include "planner/collective/collective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {
namespace {

// "local (the master alone), ...".
std::string strategies_text() {
  std::string text;
  for (const planner::Strategy& strategy : planner::strategies())
    text += strategy.name + " (" + strategy.summary + "), ";
  return text;
}

}  // namespace

Syntax plan_syntax() {
  // A flag's help is a view: it must outlive what this returns.
  static const std::string strategies = "what is split: " + strategies_text() +
                                        "auto (the fastest, on the devices that it chooses) [auto]";
  static const std::string allreduces =
      planner::allreduce_names() + ", auto, or PROMPT,DECODE of these [auto]";
  Syntax syntax{
      .command = "plan",
      .summary =
          "Places a model on a platform, prints who computes what and writes the plan where --out\n"
          "says. Exit code 3, with the reason, if the platform cannot hold the model.",
      .positionals = {},
      .flags =
          {{"platform", "P", "platform file, or a name in scenarios/platforms (required)"},
           kHostsFlag,
           kDefaultFlag,
           kShareFlag,
           {"model", "M",
            "model folder, GGUF file, config.json, or known name (required, but with --fit model)"},
           kFitFlag,
           {"dtype", "TYPE",
            "weights kept in f32, f16, bf16, q8_0, q4_0, q5_0, q5_1, q4_k, q5_k, q6_k, or a mix, "
            "q4_k_m or q5_k_m; to plan only also fp8, mxfp4, nvfp4, as published [f32; as a GGUF "
            "file has it]"},
           {"strategy", "S", strategies},
           {"partition", "HOW",
            "auto (by --objective), galaxy, exact, equal, or proportions A:B:C; of a pipeline also "
            "halda (prima.cpp's objective) [auto]"},
           {"rounds", "K",
            "pipeline: times that a step goes round the devices, each with so many runs of layers: "
            "a number, auto [auto; 1 with --groups]"},
           {"groups", "A,B/C,D",
            "pipeline: devices that compute the layers of a stage together, as tensor does: names, "
            "auto (those near one another), none [the fastest of none and auto]"},
           {"group-strategy", "S",
            "with --groups: how they compute prompts: tensor, galaxy (rows, too) [tensor]"},
           {"objective", "O",
            "what is to be short: request, ttft, latency (of new tokens); of many requests "
            "throughput [request; throughput with policy recurrent, or strategy auto]"},
           {"seconds", "S",
            "seconds of the search, after which the best plan so far is taken, and "
            "of "
            "free changes of it; 0: to the end [10; 0 with --evaluations]"},
           {"evaluations", "N",
            "predictions that the search may make, one at a time, which gives the "
            "same plan on every machine; 0: to the end [0]"},
           {"prompt-tokens", "N",
            "tokens of the prompt [512; fewer where the model's context is shorter]"},
           {"prompt", "TEXT", "instead: the prompt, whose tokens the model's tokenizer counts",
            false, true},
           {"raw-prompt", "", "special tokens written in it (\"</s>\") are plain text"},
           kChatFlag,
           kSystemFlag,
           {"new-tokens", "N",
            "tokens to generate [128; fewer where the model's context is shorter]"},
           {"allreduce", "HOW", allreduces},
           {"head", "WHO",
            "who computes logits: master, split (every device some: the others then see what "
            "tokens "
            "are chosen from), auto (by --objective) [master]"},
           {"candidates", "K",
            "with the head split: each device sends its best K logits instead of all, which "
            "suffice "
            "at temperature 0 and for a top-k of at most K: 1 to 1024, none [none]"},
           kCacheTypeFlag,
           {"wire-type", "TYPE",
            "activations travel as f32, f16, bf16, q8_0 [bf16 where weights have 16 bits or fewer, "
            "else f32]"},
           {"decode-moves", "WHAT",
            "spread, csps with --levels: what travels for new tokens: their queries to the keys "
            "(q); "
            "keys and values to them, each time (spread: kv), or to the master once, after the "
            "prompt (migrate); auto (by --objective, all are listed) [the fastest]"},
           {"decode-ffn", "WHO",
            "spread: who computes the FFN of new tokens: owner (of the token, alone), all (columns "
            "each, for two messages a layer and device), auto (by --objective) [auto]"},
           {"sp", "WAY",
            "csps: how a prompt's rows are parted: ntp (every device has all weights), tp (weights "
            "split, as strategy galaxy, which the plan then names), auto (by --objective) [ntp]"},
           {"gather-weights", "",
            "csps: devices hold only what they compute of new tokens, and each layer's other "
            "weights "
            "travel to them for a prompt"},
           {"tiles", "T",
            "galaxy, also of groups, csps: tiles of each device's rows, 0 without overlap: a "
            "number, "
            "auto [auto]; csps with --levels: of the rows that ask at each level, one number, one "
            "for each from the second on (2,4), auto [1]"},
           {"levels", "N",
            "csps, galaxy: levels of near devices; a prompt attends to farther rows at higher "
            "ones; "
            "none; auto: none, or two if that is faster [none; 2 with --drop]"},
           {"drop", "P",
            "csps, galaxy (which computes less and sends as much): the part of rows that level 2 "
            "drops, each farther level keeps half as many; not in the first two layers and the "
            "last "
            "[0]"},
           {"levels-overlap", "",
            "csps, galaxy: each level attends to all of its group, nearer rows once more, as CSPS "
            "prints it; not one device's result even with nothing dropped"},
           {"window", "W",
            "blocks of weights in memory at once, the others stream: all, auto [auto]"},
           {"retain", "T", "one FFN block in T stays in memory, too: none, auto [auto]"},
           {"release", "RULE", "early (a block's compute), late (its all-reduce) [early]"},
           {"memory-limit", "BYTES",
            "no device may use more, the program included, as 2GiB [the platform's]"},
           {"devices", "WHICH",
            "those that are used (with strategy auto: that may be): names A,B,C; fewest (as few, "
            "near the master, as hold it in memory); auto (the fastest of them, and the fastest "
            "master); all [all]"},
           {"master", "NAME", "device with prompt, embedding and head [the first]"},
           {"profile", "[NAME=]FILE",
            "measured speed of every device, or of one; or a folder with a NAME.profile.json of "
            "each [nominal]",
            true},
           {"threads", "N",
            "with --profile: computing threads of every device [the most that were measured; the "
            "fewest of emulated devices]"},
           {"out", "FILE", "write the plan; - prints it instead of the table"},
           {"json", "", "print JSON: what the table shows; without --out the plan"},
           {"quiet", "", "print no table: the exit code tells whether there is a plan"}},
      .common = {"platform", "model", "dtype", "strategy", "objective", "seconds", "prompt-tokens",
                 "new-tokens", "workload", "fit", "devices", "hosts", "default", "profile", "out",
                 "json", "help"},
      .examples =
          "  tandem plan --platform home4 --model llama-3.1-8b --dtype q4_k_m\n"
          "  tandem plan --platform home4 --model gpt2-l --objective ttft --out plan.json\n"
          "  tandem plan --platform home4 --model gpt2-l --strategy pipeline --devices "
          "desktop,laptop\n"};
  std::vector<Flag> more = workload_flags();
  std::ranges::move(replica_flags(), std::back_inserter(more));
  syntax.flags.insert(std::ranges::find(syntax.flags, "chat", &Flag::name), more.begin(),
                      more.end());
  const auto window = std::ranges::find(syntax.flags, "window", &Flag::name);
  const std::vector<Flag> losses = loss_flags();
  syntax.flags.insert(window, losses.begin(), losses.end());
  return syntax;
}

}  // namespace tandem::cli
