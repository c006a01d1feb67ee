// tandem plan: places a model on a platform.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/measured_disks.hpp"
#include "cli/models.hpp"
#include "cli/options.hpp"
#include "cli/stated_profiles.hpp"
#include "cli/table.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/error.hpp"
#include "model/memory.hpp"
#include "model/quantity_text.hpp"
#include "planner/collective/collective.hpp"
#include "planner/lowering.hpp"
#include "planner/search.hpp"
#include "sim/platform.hpp"
#include "sim/replay.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Bytes;
using model::DeviceProfile;

DeviceProfile read_profile(const std::string& path) {
  return model::parse_profile_json(read_file(path), path);
}

// One profile a device from `--profile F` (every device) and `--profile NAME=F` (that one), made
// slower as the scenario says; nominal where none is given, with the program's memory as stated.
std::vector<DeviceProfile> device_profiles(const model::Cluster& cluster,
                                           const std::vector<std::string>& given) {
  std::optional<DeviceProfile> common;
  std::vector<std::optional<DeviceProfile>> own(cluster.devices().size());
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      if (common)
        throw Usage("flag '--profile' is given twice for every device; write NAME=FILE for one");
      common = read_profile(text);
      continue;
    }
    const auto device = static_cast<std::size_t>(cluster.find(text.substr(0, equals)));
    if (own[device])
      throw Usage("flag '--profile' is given twice for device '" + text.substr(0, equals) + "'");
    own[device] = read_profile(text.substr(equals + 1));
  }
  std::vector<DeviceProfile> profiles = stated_profiles(cluster);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] || common)
      profiles[i] = slowed(own[i] ? *own[i] : *common, cluster.devices()[i].slowdown);
  }
  return profiles;
}

// A number of blocks or layers, or a word for one or for the planner's choice.
std::optional<std::int32_t> count_or_auto(const Options& options, const std::string& flag,
                                          const std::string& zero, std::int64_t most) {
  const std::string text = options.text_or(flag, "auto");
  if (text == "auto") return std::nullopt;
  if (text == zero) return 0;
  if (text.find_first_not_of("0123456789") == std::string::npos)
    return static_cast<std::int32_t>(options.integer_or(flag, 1, 1, most));
  throw Error("flag '--" + flag + "': '" + text + "', expected 1 to " + std::to_string(most) +
              ", " + zero + " or auto");
}

planner::WindowRequest window_request(const Options& options,
                                      const model::Transformer& transformer) {
  constexpr std::int64_t kMostBlocks = 1'000'000;
  planner::WindowRequest window{
      .blocks = count_or_auto(options, "window", "all", kMostBlocks),
      .retain = count_or_auto(options, "retain", "none", transformer.layers)};
  if (window.blocks == 0 && options.has("retain"))
    throw Usage(
        "flag '--retain' says which blocks stay in memory, but with '--window all' every "
        "block does; leave it out");
  return window;
}

std::string window_text(planner::Window window) {
  if (!window.streams()) return "all";
  std::string text = std::to_string(window.blocks);
  if (window.retain > 0) text += ", FFN 1 in " + std::to_string(window.retain);
  return text;
}

std::string share_text(model::Range range) {
  if (range.empty()) return "-";
  return std::to_string(range.size()) + " [" + std::to_string(range.begin) + ", " +
         std::to_string(range.end) + ")";
}

std::string allreduce_text(const planner::AllreduceChoice& allreduce) {
  if (allreduce.prompt.empty()) return "";
  if (allreduce.prompt == allreduce.decode) return ", all-reduce " + allreduce.prompt;
  return ", all-reduce " + allreduce.prompt + " (prompt), " + allreduce.decode + " (new tokens)";
}

void print_plan(const planner::Plan& plan, const std::string& path, std::ostream& out) {
  out << path << ": " << plan.model.name << " on " << plan.cluster.name() << ", strategy "
      << plan.strategy << (plan.partition.empty() ? "" : ", partition " + plan.partition)
      << allreduce_text(plan.allreduce) << ", master "
      << plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name << ", "
      << plan.workload.prompt_tokens << " prompt and " << plan.workload.new_tokens
      << " new tokens\n\n";
  Table table({"device", "layers", "heads", "FFN columns", "window", "weights", "kv cache",
               "activations", "buffers", "program", "total", "budget"});
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = plan.devices[i].memory;
    const model::Device& device = plan.cluster.devices()[i];
    table.add({device.name, share_text(share.layers), share_text(share.heads),
               share_text(share.columns), window_text(plan.devices[i].window),
               to_text(Bytes{memory.weights}), to_text(Bytes{memory.kv_cache}),
               to_text(Bytes{memory.activations}), to_text(Bytes{memory.buffers}),
               to_text(Bytes{memory.program}), to_text(Bytes{memory.total()}),
               to_text(device.memory)});
  }
  table.print(out);
  if (const std::string varies = variation(plan.cluster); !varies.empty()) {
    out << "\nplanned as if constant, which is not: " << varies
        << " (simulate on SimGrid knows of it)\n";
  }
}

Json summary_json(const planner::Plan& plan, const std::string& path) {
  Json json{{"plan", path},
            {"sha256", planner::plan_sha256(plan)},
            {"strategy", plan.strategy},
            {"partition", plan.partition},
            {"allreduce", {{"prompt", plan.allreduce.prompt}, {"decode", plan.allreduce.decode}}},
            {"devices", Json::array()}};
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = plan.devices[i].memory;
    json["devices"].push_back({{"name", plan.cluster.devices()[i].name},
                               {"layers", {share.layers.begin, share.layers.end}},
                               {"heads", share.heads.size()},
                               {"columns", share.columns.size()},
                               {"window_blocks", plan.devices[i].window.blocks},
                               {"retain", plan.devices[i].window.retain},
                               {"weights_bytes", memory.weights},
                               {"kv_cache_bytes", memory.kv_cache},
                               {"activations_bytes", memory.activations},
                               {"buffers_bytes", memory.buffers},
                               {"program_bytes", memory.program},
                               {"total_bytes", memory.total()},
                               {"budget_bytes", plan.cluster.devices()[i].memory.value()}});
  }
  return json;
}

Syntax syntax() {
  // A flag's help is a view: it must outlive what this returns.
  static const std::string allreduces =
      planner::allreduce_names() + ", auto, or PROMPT,DECODE of these [star]";
  return {
      .command = "plan",
      .summary =
          "Places a model on a platform and writes the plan, to standard output without\n"
          "--out. Exit code 3, with the reason, if the platform cannot hold the model.",
      .positionals = {},
      .flags = {
          {"platform", "P", "platform file, or a name in scenarios/platforms (required)"},
          {"model", "M", "model folder, config.json, or known name (required)"},
          {"strategy", "S", "tensor, pipeline (whole layers) or local [tensor]"},
          {"partition", "HOW", "galaxy, equal, or proportions A:B:C [galaxy]"},
          {"prompt-tokens", "N", "tokens of the prompt [64]"},
          {"prompt", "TEXT", "instead: the prompt, whose tokens the model's tokenizer counts"},
          {"new-tokens", "N", "tokens to generate [32]"},
          {"allreduce", "HOW", allreduces},
          {"window", "W",
           "blocks of weights in memory at once, the others stream: all, auto [auto]"},
          {"retain", "T", "one FFN block in T stays in memory besides: none, auto [auto]"},
          {"release", "RULE", "early (a block's compute), late (its all-reduce) [early]"},
          {"memory-limit", "BYTES",
           "no device may use more, the program included, as 2GiB [the platform's]"},
          {"master", "NAME", "device with prompt, embedding and head [the first]"},
          {"profile", "[NAME=]FILE", "measured speed of every device, or of one [nominal]", true},
          {"out", "FILE", "where the plan goes; a summary then goes to stdout"},
          {"json", "", "print the summary as JSON (with --out)"},
          {"quiet", "", "print no summary"}}};
}

std::int64_t prompt_tokens(const Options& options, const std::string& model_name,
                           const model::Transformer& transformer) {
  const std::optional<std::string> text = options.text("prompt");
  if (!text) return options.integer_or("prompt-tokens", 64, 1, 1 << 30);
  if (options.has("prompt-tokens"))
    throw Usage("flags '--prompt' and '--prompt-tokens' contradict each other; give one");
  const std::filesystem::path folder = find_weights(model_name);
  if (!std::filesystem::is_directory(folder))
    throw Error("model " + model_name +
                ": has no tokenizer to count the prompt's tokens with, expected a model folder; "
                "give '--prompt-tokens'");
  return static_cast<std::int64_t>(exec::load_tokenizer(folder, transformer)->encode(*text).size());
}

}  // namespace

int plan_command(const Arguments& arguments, std::ostream& out) {
  const Options options(syntax(), arguments);
  const std::optional<std::string> path = options.text("out");
  if (options.has("json") && !path)
    throw Usage("flag '--json' needs '--out': without it the plan, which is JSON, is printed");
  if (options.has("json") && options.has("quiet"))
    throw Usage("flags '--json' and '--quiet' contradict each other; give one");
  const std::string platform = options.required("platform");
  const std::string model_name = options.required("model");

  std::vector<std::string_view> known;
  for (const planner::Strategy& strategy : planner::strategies()) known.push_back(strategy.name);
  const std::string strategy = options.choice_or("strategy", "tensor", known);
  for (const std::string_view flag : {"partition", "allreduce"}) {
    const planner::Strategy& chosen = planner::find_strategy(strategy);
    const bool meant = chosen.splits || (flag == "partition" && chosen.splits_layers);
    if (options.has(flag) && !meant)
      throw Usage("flag '--" + std::string(flag) + "' says how to split the model, but strategy '" +
                  strategy + "' does not split it; leave it out");
  }
  const model::Transformer transformer = load_model(model_name);
  planner::Request request{
      .model = transformer,
      .cluster = sim::read_platform(find_platform(platform).string()).cluster,
      .strategy = strategy,
      .partition = options.text_or("partition", "galaxy"),
      .allreduce = options.text_or("allreduce", "star"),
      .evaluate = sim::replay,
      .master = options.text_or("master", ""),
      .workload = {.prompt_tokens = prompt_tokens(options, model_name, transformer),
                   .new_tokens = options.integer_or("new-tokens", 32, 1, 1 << 30)},
      .profiles = {},
      .window = window_request(options, transformer),
      .release = options.choice_or("release", "early", {"early", "late"}) == "late"
                     ? model::ReleaseRule::late
                     : model::ReleaseRule::early};
  if (const auto limit = options.text("memory-limit"))
    request.memory_limit = model::parse_bytes(*limit, "flag '--memory-limit'");
  request.profiles = device_profiles(request.cluster, options.all("profile"));
  request.cluster = with_measured_disks(request.cluster, request.profiles, options.all("profile"));
  if (path) check_writable(*path);

  const auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) {
    out << no->reason << (no->reason.ends_with('\n') ? "" : "\n");
    return 3;
  }
  const auto& plan = std::get<planner::Plan>(answer);
  if (!path) {
    out << planner::to_json(plan);
    return 0;
  }
  write_file(*path, planner::to_json(plan));
  if (options.has("json")) {
    out << summary_json(plan, *path).dump(2) << '\n';
  } else if (!options.has("quiet")) {
    print_plan(plan, *path, out);
  }
  return 0;
}

}  // namespace tandem::cli
