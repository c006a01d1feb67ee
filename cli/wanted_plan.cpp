// What `tandem plan` is asked.

#include "cli/wanted_plan.hpp"

#include <iostream>
#include <string_view>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/fit_answers.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/dtype.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/local_model.hpp"
#include "cli/flags/plan_workload.hpp"
#include "cli/flags/platform_flags.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/measured_disks.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/strategy/common/namesakes.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::cli {
namespace {

void check_files(const Options& options, const std::string& platform, const std::string& model,
                 const std::optional<Bounded>& bounded, const std::optional<FormatBound>& formats,
                 const Shown& show) {
  FileRoles files;
  files.reads("flag '--platform'", platform);
  if (bounded) files.reads("the measured loss", bounded->file);
  if (formats) files.reads("the measured losses of types", formats->file);
  files.reads_model("flag '--model'", find_weights(model));
  files.reads("flag '--model'", find_config(model));
  files.reads(options, "workload");
  for (const std::string& profile : options.all("profile")) {
    const std::size_t equals = profile.find('=');
    files.reads("flag '--profile'",
                equals == std::string::npos ? profile : profile.substr(equals + 1));
  }
  const bool folder = options.has("replicas");
  if (show.file && folder) files.writes_in("flag '--out'", *show.file, replica_file_names());
  if (show.file && !folder) files.writes("flag '--out'", *show.file);
  files.check();
}

// `--dtype` of one strategy.
void set_formats(const Options& options, const std::string& strategy,
                 model::Transformer& transformer) {
  const std::string dtype = options.text_or("dtype", "");
  if (dtype.find(',') != std::string::npos)
    throw Usage("flag '--dtype': '" + dtype + "' is several formats with strategy '" + strategy +
                "', expected one; '--strategy auto' compares several");
  if (const auto format = dtype_of(options, transformer, DTypes::planned))
    transformer.formats = *format;
}

// The name of `--strategy`.
std::string wanted_strategy(const Options& options) {
  std::vector<std::string_view> known;
  for (const planner::Strategy& strategy : planner::strategies()) known.push_back(strategy.name);
  known.push_back(kAutoStrategy);
  const std::string name = options.text_or("strategy", "");
  if (const std::string remedy = planner::namesake_remedy(name); !remedy.empty())
    throw Error("flag '--strategy': '" + name + "', expected " + planner::strategy_names() +
                " or auto" + remedy);
  return options.choice_or("strategy", kAutoStrategy, known);
}

planner::SearchEffort::Limits wanted_limits(const Options& options, bool bounded) {
  const planner::SearchEffort::Limits limits = effort_limits(options);
  if (!bounded) return limits;
  const std::string why = "with '--max-ttft', or '--max-loss' and levels, which search to the end";
  options.refuse({"evaluations"}, why);
  if (limits.seconds) options.refuse({"seconds"}, why);
  return {};
}

std::optional<Served> wanted_requests(const Options& options, const std::string& model_name,
                                      const model::Transformer& transformer) {
  const auto sample = [&] {
    const planner::Workload one = lengths_of(options, model_name, transformer);
    return planner::InferenceRequest{
        .id = {}, .prompt_tokens = one.prompt_tokens, .new_tokens = one.new_tokens};
  };
  return served_workload(
      options, {.model = transformer,
                .tokenizer = tokenizer_source(model_name),
                .remedy = "give prompt_tokens, or '--model' a folder or GGUF file with a tokenizer",
                .sample = sample,
                .plans = true});
}

// Prints what is unusual in the file, and what is assumed of the devices that are `used`.
void print_platform_remarks(const sim::Platform& scenario, const std::vector<bool>& used) {
  for (const std::string& remark :
       platform_remarks(scenario, model::of_devices(scenario.cluster, used))) {
    std::cerr << "tandem plan: " << remark << '\n';
  }
}

// Refuses what compares two plans by one request.
void check_one_request(const StrategyFlags& flags) {
  if (flags.sp == "auto")
    throw Usage(
        "flag '--sp': auto compares two plans by one request, expected ntp or tp with a "
        "workload of several");
  if (!flags.moves)
    throw Usage(
        "flag '--decode-moves': auto compares plans by one request, expected q, kv or migrate with "
        "a workload of several");
}

// What is read before the platform.
struct Read {
  std::string model_name;
  std::string strategy;  // as `--strategy` names it
  bool any;
  const planner::Strategy& chosen;  // whose flags are read
  StrategyFlags flags;
  std::optional<Bounded> bounded;
  std::optional<planner::LossBudget> budget;
  model::Transformer transformer;
  std::optional<Served> served;
  planner::Objective objective;
};

planner::Request wanted_request(const Options& options, const Read& read,
                                const WantedDevices& devices, const model::Cluster& cluster) {
  const auto& [model_name, strategy, any, chosen, flags, bounds, budget, transformer, served,
               objective] = read;
  const bool bounded = bounds.has_value();
  const auto cache = given_cache_type(options);
  const planner::HeadPlacement head = head_of(options, chosen);
  const auto wire = given_wire(options, chosen, any);
  planner::Request request{
      .model = transformer,
      .cluster = cluster,
      .strategy = strategy,
      .partition = options.text_or("partition", std::string(planner::kAutoPartition)),
      .allreduce = flags.collective,
      .tiles = tiles(options, chosen),
      .decode_moves = flags.moves.value_or(planner::DecodeMoves::queries),
      .token_ffn = flags.token_ffn,
      .gather_weights = flags.gathers,
      .evaluate = sim::evaluate_fair,
      .master = options.text_or("master", ""),
      .workload = workload_of(options, model_name, transformer, served),
      .profiles = {},
      .window = window_of(options, transformer, devices),
      .release = release_of(options),
      .objective = objective,
      .rounds = any ? 1 : flags.rounds,
      .groups = flags.groups,
      .group_strategy = flags.galaxy_groups ? std::string(planner::kGalaxyGroups) : "",
      .wire = wire.value_or(model::WireFormat::f32),
      // Losses of dropping are measured with f32.
      .open = {.wire = !wire && (budget || !bounded), .cache = !cache && (budget || !bounded)},
      .budget = budget,
      .open_axes = any || bounded ? planner::OpenAxes{} : flags.open,
      .head = head,
      .candidates = candidates_of(options, head),
      .sparse = bounded ? std::nullopt : sparse_of(options, chosen)};
  if (request.workload.steps() < 2 && !options.has("decode-ffn"))
    request.token_ffn = planner::TokenFfn::owner;
  request.memory_limit = memory_limit(options);
  return request;
}

// For the devices that are used, with what profiles have measured.
planner::Request measured_request(const Options& options, const WantedPlan& question,
                                  planner::Request request) {
  request = planner::for_devices(std::move(request), question.devices.used);
  request.profiles = device_profiles(options, request.cluster, question.scenario.processors,
                                     question.scenario.shares);
  request.cluster = model::with_measured_disks(request.cluster, request.profiles,
                                               profile_files(options, request.cluster));
  planner::check_budget(request);
  request = planner::with_default_types(std::move(request));
  if (const std::string remark = planner::default_cache_remark(request, question.formats);
      !remark.empty())
    options.remark(remark);
  const StrategyFlags& flags = question.flags;
  if (flags.sp != "ntp") request.allreduce = options.text("allreduce");  // each way's own, if none
  if (flags.sp == "tp") request.strategy = flags.with_split;
  return request;
}

}  // namespace

WantedPlan wanted_plan(const Options& options, const Shown& show) {
  const std::string platform = find_platform(options.required("platform")).string();
  const std::optional<FitGoal> goal = fit_goal(options);
  const std::string model_name =
      goal == FitGoal::model ? stand_in_model() : options.required("model");
  const std::string strategy = wanted_strategy(options);
  const bool any = strategy == kAutoStrategy;
  if (any) refuse_with_any(options);
  const planner::Strategy& chosen = planner::find_strategy(any ? "galaxy" : strategy);
  const StrategyFlags flags = strategy_flags(options, chosen, strategy);
  const std::optional<Bounded> bounded = bounded_of(options, chosen, find_weights(model_name));
  if (goal && bounded)
    options.refuse({"max-loss"}, "with '--fit " + std::string(to_string(*goal)) +
                                     "' and strategy '" + strategy +
                                     "', whose levels are chosen by time; name another strategy");
  const std::optional<FormatBound> formats_bound =
      format_bound_of(options, chosen, find_weights(model_name));
  check_files(options, platform, model_name, bounded, formats_bound, show);
  const planner::SearchEffort::Limits limits = wanted_limits(options, bounded.has_value());
  model::Transformer transformer = load_model(model_name);
  transformer.cache = given_cache_type(options).value_or(model::CacheFormat::f32);
  std::vector<model::WeightFormats> formats;
  if (any) formats = dtypes_of(options, transformer);
  if (!any) set_formats(options, strategy, transformer);
  const std::optional<Served> served = wanted_requests(options, model_name, transformer);
  const planner::Objective objective =
      bounded ? planner::Objective::ttft : objective_of(options, chosen, any, served);
  std::optional<PricedFormats> priced;
  std::optional<planner::LossBudget> budget;
  if (formats_bound) {
    priced = priced_formats(formats_bound->file, find_weights(model_name), transformer);
    budget = planner::LossBudget{.most = formats_bound->most, .prices = priced->loss.prices};
  }
  const Read read{.model_name = model_name,
                  .strategy = strategy,
                  .any = any,
                  .chosen = chosen,
                  .flags = flags,
                  .bounded = bounded,
                  .budget = budget,
                  .transformer = transformer,
                  .served = served,
                  .objective = objective};
  const sim::Platform scenario = sim::read_platform(platform, platform_options(options, true));
  const WantedDevices devices = devices_of(options, scenario.cluster, chosen, any);
  if (!show.quiet) print_platform_remarks(scenario, devices.used);
  WantedPlan question{.model_name = model_name,
                      .any = any,
                      .flags = flags,
                      .goal = goal,
                      .bounded = bounded,
                      .priced = priced,
                      .limits = limits,
                      .formats = formats,
                      .served = served,
                      .objective = objective,
                      .scenario = scenario,
                      .devices = devices,
                      .request = wanted_request(options, read, devices, scenario.cluster)};
  if (!served)
    question.shortened = shortening_text(options, question.request.workload, transformer);
  question.request = measured_request(options, question, std::move(question.request));
  if (served) check_one_request(flags);
  if (!served)
    question.reading = prompt_reading(options, transformer,
                                      only_whole(question.request, flags, bounded.has_value()));
  check_in_flight(options, served ? served->steps : question.reading.steps, question.request, any);
  question.replicas = wanted_replicas(options, any, served);
  return question;
}

}  // namespace tandem::cli
