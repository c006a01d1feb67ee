// tandem plan: places a model on a platform.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "advice/choice.hpp"
#include "cli/cap_answers.hpp"
#include "cli/files/files.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/fit_answers.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/dtype.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/fit_flags.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/plan_flags.hpp"
#include "cli/flags/plan_syntax.hpp"
#include "cli/flags/plan_workload.hpp"
#include "cli/flags/platform_flags.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/strategy_flags.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/free_answers.hpp"
#include "cli/plan_answers.hpp"
#include "cli/plan_report.hpp"
#include "cli/replica_answers.hpp"
#include "cli/views/next_commands.hpp"
#include "cli/views/predicted_view.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/graph/memory.hpp"
#include "model/predict/measured_disks.hpp"
#include "planner/plan/outdated_profiles.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/extrapolation.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/search.hpp"
#include "planner/search/sp_choice.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::cli {
namespace {

void check_files(const Options& options, const std::string& platform, const std::string& model,
                 const std::optional<Bounded>& bounded, const Shown& show) {
  FileRoles files;
  files.reads("flag '--platform'", platform);
  if (bounded) files.reads("the measured loss", bounded->file);
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

// Weights stream only where memory lacks, so a plan for one device shows before the search that
// flags of streaming have no effect.
void check_streaming_of_any(const Options& options, planner::Request request) {
  if (!options.has("retain") && !options.has("release")) return;
  request.strategy = "local";
  request.partition = planner::kAutoPartition;
  request.allreduce.reset();
  request.tiles.reset();
  request.head = planner::HeadPlacement::master;
  request.candidates = 0;
  request.wire = model::WireFormat::f32;
  request.open.wire = false;
  const auto answer = planner::make_plan(request);
  if (const auto* const plan = std::get_if<planner::Plan>(&answer))
    static_cast<void>(check_streaming(options, *plan));
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

}  // namespace

int plan_command(const Arguments& arguments, std::ostream& out) {
  Options options(plan_syntax(), arguments);
  const Shown show = shown(options);
  const std::string platform = find_platform(options.required("platform")).string();
  const std::optional<FitGoal> goal = fit_goal(options);
  std::string model_name = goal == FitGoal::model ? stand_in_model() : options.required("model");

  std::vector<std::string_view> known;
  for (const planner::Strategy& strategy : planner::strategies()) known.push_back(strategy.name);
  known.push_back(kAutoStrategy);
  const std::string strategy = options.choice_or("strategy", kAutoStrategy, known);
  const bool any = strategy == kAutoStrategy;
  if (any) refuse_with_any(options);
  const planner::Strategy& chosen = planner::find_strategy(any ? "galaxy" : strategy);
  const StrategyFlags flags = strategy_flags(options, chosen, strategy);
  const std::optional<Bounded> bounded = bounded_of(options, chosen, find_weights(model_name));
  check_files(options, platform, model_name, bounded, show);
  planner::SearchEffort::Limits limits;
  if (bounded || flags.sp == "auto" || !flags.moves ||
      options.text_or("devices", "all") == "fewest") {
    options.refuse({"seconds", "evaluations"},
                   "with '--max-loss', '--sp auto', '--decode-moves auto' or '--devices fewest', "
                   "which search to the end");
  } else {
    limits = effort_limits(options);
  }
  model::Transformer transformer = load_model(model_name);
  const auto cache = given_cache_type(options);
  transformer.cache = cache.value_or(model::CacheFormat::f32);
  std::vector<model::WeightFormats> formats =
      any ? dtypes_of(options, transformer) : std::vector<model::WeightFormats>();
  if (!any) set_formats(options, strategy, transformer);
  std::optional<Served> served = served_workload(
      options, {.model = transformer,
                .tokenizer = tokenizer_source(model_name),
                .remedy = "give prompt_tokens, or '--model' a folder or GGUF file with a tokenizer",
                .sample =
                    [&] {
                      const planner::Workload one = lengths_of(options, model_name, transformer);
                      return planner::InferenceRequest{.id = {},
                                                       .prompt_tokens = one.prompt_tokens,
                                                       .new_tokens = one.new_tokens};
                    },
                .plans = true});
  const planner::Objective objective =
      bounded ? planner::Objective::ttft : objective_of(options, chosen, any, served);
  sim::Platform scenario = sim::read_platform(platform, platform_options(options, true));
  if (const std::string assumed = defaults_remark(scenario); !assumed.empty() && !show.quiet)
    std::cerr << "tandem plan: " << assumed << '\n';
  if (const std::string slow = speed_remark(scenario.cluster); !slow.empty() && !show.quiet)
    std::cerr << "tandem plan: " << slow << '\n';
  model::Cluster cluster = std::move(scenario.cluster);
  const WantedDevices devices = devices_of(options, cluster, chosen, any);
  const planner::HeadPlacement head = head_of(options, chosen);
  const auto wire = given_wire(options, chosen, any);
  planner::Request request{
      .model = transformer,
      .cluster = std::move(cluster),
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
      // Losses are measured with f32.
      .open = {.wire = !wire && !bounded, .cache = !cache && !bounded},
      .open_axes = any || bounded ? planner::OpenAxes{} : flags.open,
      .head = head,
      .candidates = candidates_of(options, head),
      .sparse = bounded ? std::nullopt : sparse_of(options, chosen)};
  if (request.workload.steps() < 2 && !options.has("decode-ffn"))
    request.token_ffn = planner::TokenFfn::owner;
  if (const auto limit = options.text("memory-limit"))
    request.memory_limit = model::parse_bytes(*limit, "flag '--memory-limit'");
  std::string shortened = served ? "" : shortening_text(options, request.workload, transformer);
  request = planner::for_devices(std::move(request), devices.used);
  request.profiles =
      device_profiles(options, request.cluster, scenario.processors, scenario.shares);
  request.cluster = model::with_measured_disks(request.cluster, request.profiles,
                                               profile_files(options, request.cluster));
  request = planner::with_default_types(std::move(request));
  if (const std::string remark = planner::default_cache_remark(request, formats); !remark.empty())
    options.remark(remark);
  std::optional<planner::SpChoice> of_two;
  if (flags.sp != "ntp") request.allreduce = options.text("allreduce");  // each way's own, if none
  if (flags.sp == "tp") request.strategy = flags.with_split;
  if (flags.sp == "auto" && served)
    throw Usage(
        "flag '--sp': auto compares two plans by one request, expected ntp or tp with a "
        "workload of several");
  if (!flags.moves && served)
    throw Usage(
        "flag '--decode-moves': auto compares plans by one request, expected q, kv or migrate with "
        "a workload of several");
  const study::PromptReading reading =
      served
          ? study::PromptReading{}
          : prompt_reading(options, transformer, only_whole(request, flags, bounded.has_value()));
  check_in_flight(options, served ? served->steps : reading.steps, request, any);
  const std::optional<WantedReplicas> replicas = wanted_replicas(options, any, served);
  options.settle();
  if (replicas) {
    check_streaming_of_any(options, request);
    return plan_replicas(options, *replicas,
                         question_of(options, request, formats, reading, served),
                         {.limits = limits, .shares = scenario.shares}, *served, show, out);
  }
  std::optional<Fitted> fitted;
  if (goal) {
    planner::Request fitting = request;
    fitting.open_axes = {};
    fitting.rounds = rounds(options);
    fitted = find_fit(options, {.goal = *goal,
                                .request = std::move(fitting),
                                .model_name = model_name,
                                .any_strategy = any,
                                .formats = formats,
                                .limits = limits,
                                .reading = reading});
    if (!fitted->plan) {
      out << fitted->text << cap_remark(request.cluster, scenario.shares);
      return 3;
    }
    request = fitted->found.request;
    model_name = fitted->found.model_name;
    formats = fitted->found.formats;
    limits = fitted->found.limits;
    request.open_axes = any ? planner::OpenAxes{} : flags.open;
    if (!any) request.rounds = flags.rounds;
    request = planner::with_default_types(std::move(request));
    shortened =
        goal == FitGoal::context ? "" : shortening_text(options, request.workload, request.model);
  }
  const bool prints = show.table() || (show.json && show.file);
  // A question turned round, losses and the two of --sp are answered by searches of their own.
  const bool tries_changes = prints && !goal && !bounded && flags.sp != "auto";
  AskedPlan asked_plan{.question = question_of(options, request, formats, reading, served),
                       .any = any,
                       .fewest = devices.fewest,
                       .searched = devices.searched,
                       .any_moves = !flags.moves,
                       .chose_master = !options.has("master"),
                       .limits = limits};
  if (!any && served) asked_plan.question.served->policy = served->policy;
  if (tries_changes) limits = without_free_changes(limits, may_have_replicas(asked_plan));
  if (!scenario.shares.empty()) limits = without_cap_cost(limits);
  if (any) check_streaming_of_any(options, request);

  std::optional<study::Choice> choice;
  std::optional<MeasuredLoss> loss;
  std::optional<DropAnswer> drop;
  if (bounded) loss = measured_loss(*bounded, find_weights(model_name));
  std::optional<planner::DecodeChoice> of_moves;
  std::optional<OneSearch> search;
  const auto answer_for = [&](const planner::Request& asked) {
    if (devices.searched)
      return answer_of_any(options, asked, formats, reading, served, limits, choice);
    if (flags.sp == "auto") return answer_of(of_two.emplace(planner::choose_sp(asked)));
    if (!flags.moves) return answer_of(of_moves.emplace(planner::choose_moves(asked)));
    if (loss) return answer_within(asked, *loss, *bounded, drop);
    return answer_to(options, asked, reading, served, limits, &search.emplace());
  };
  std::optional<planner::FewestDevices> few;
  const auto as_fitted = [&] {
    if (fitted->chunk > 0) served = one_in_chunks(fitted->plan->workload, fitted->chunk, reading);
    return Answer(*fitted->plan);
  };
  auto answer = fitted && fitted->interrupted ? as_fitted()
                : devices.fewest              ? answer_on_fewest(request, answer_for, few)
                                              : answer_for(request);
  if (fitted && std::holds_alternative<planner::Infeasible>(answer)) {
    answer = as_fitted();  // on devices or with a master that the search does not try
    choice.reset();
  }
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) {
    out << no->reason << (no->reason.ends_with('\n') ? "" : "\n")
        << cap_remark(request.cluster, scenario.shares);
    return 3;
  }
  const auto& plan = std::get<planner::Plan>(answer);
  check_stages(options, plan);
  if (const std::string remark = check_streaming(options, plan); !remark.empty() && !show.quiet)
    std::cerr << "tandem plan: " << remark << '\n';
  planner::check_rates(plan);
  planner::PlanFile file{.plan = plan};
  if (served) file.service = service_of(options, *served, show.file);
  if (choice && !choice->to_the_end)
    file.search = planner::SearchCut{.evaluations = choice->evaluations};
  if (search && !search->to_the_end)
    file.search = planner::SearchCut{.evaluations = search->evaluations};
  if (fitted && fitted->interrupted)
    file.search = planner::SearchCut{.evaluations = fitted->checks};
  file.shares = shares_of(plan, scenario.shares);
  file.decisions = choice   ? decisions_of(*choice)
                   : search ? search->decisions
                            : std::vector<planner::PlanDecision>();
  const std::string json = planner::to_json(file);
  deliver(show, json, out);
  if (const std::string guess = planner::extrapolation_remark(plan); !guess.empty() && !show.quiet)
    std::cerr << "tandem plan: " << guess << '\n';
  const std::string outdated =
      planner::outdated_remark(request.cluster, request.profiles, exec::kernels_here());
  if (!outdated.empty() && !show.quiet) std::cerr << "tandem plan: " << outdated << '\n';
  if (search && !search->to_the_end && !show.quiet)
    std::cerr << "tandem plan: " << cut_remark(*search) << '\n';
  if (drop && !show.quiet) {
    for (const std::string& remark : drop->remarks) std::cerr << "tandem plan: " << remark << '\n';
  }
  std::optional<CapCost> cap;
  // Of one request, read whole or as `advice/prompt_chunks.hpp` has it.
  const bool is_one = !served || (served->is_one() && served->chunk == 0) ||
                      study::is_one_in_chunks(for_prediction(*served));
  if (!file.shares.empty() && is_one && (show.json || show.table()))
    cap = cap_cost(options, scenario, request, file,
                   {.limits = limits,
                    .any = devices.searched,
                    .reading = reading,
                    .chunk = served ? served->chunk : 0});
  const model::Result predicted = prints ? predicted_times(plan, served) : model::Result();
  std::optional<study::FreeChanges> free;
  if (choice) asked_plan.spent_s = choice->elapsed_s;
  if (search) asked_plan.spent_s = search->elapsed_s;
  if (tries_changes && !(choice && choice->interrupted) && !(search && search->interrupted))
    free = free_changes_of(options, asked_plan, plan, choice, predicted);
  const Found found{.file = file,
                    .served = served,
                    .choice = choice,
                    .few = few,
                    .of_two = of_two,
                    .of_moves = of_moves,
                    .drop = drop,
                    .bounded = bounded,
                    .loss = loss,
                    .fitted = fitted,
                    .cap = cap,
                    .free = free,
                    .predicted = predicted,
                    .objective = objective,
                    .platform_devices = scenario.hosts,
                    .given = flag_names(arguments)};
  if (show.json) {
    const nlohmann::ordered_json summary = summary_of(found, request, show);
    out << (show.file ? summary.dump(2) + '\n' : json);
  } else if (show.table()) {
    print_tables(found, request, show, shortened, out);
    if (show.file) print_next(file, *show.file, model_name, !served || has_prompts(*served), out);
  }
  return 0;
}

}  // namespace tandem::cli
