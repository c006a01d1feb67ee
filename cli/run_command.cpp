// tandem run: executes a plan, on real devices or on emulated ones.

#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include "cli/files/files.hpp"
#include "cli/files/npy.hpp"
#include "cli/files/plan_argument.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/device_flags.hpp"
#include "cli/flags/dtype.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/local_model.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/prompt.hpp"
#include "cli/flags/run_mode.hpp"
#include "cli/flags/run_prediction.hpp"
#include "cli/flags/sampling_flags.hpp"
#include "cli/flags/testbed_flag.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/replica_run.hpp"
#include "cli/version.hpp"
#include "cli/views/generation_view.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/prediction_watch.hpp"
#include "cli/views/result_tables.hpp"
#include "cli/views/run_view.hpp"
#include "cli/views/standard_output.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/grammar/token_grammars.hpp"
#include "exec/machine/available_memory.hpp"
#include "exec/session/execute.hpp"
#include "exec/session/hosts.hpp"
#include "exec/session/master.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/report/result.hpp"
#include "model/report/trace.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/serving/local_service.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {
namespace {

constexpr double kMaxDrift = 0.30;

Syntax run_syntax() {
  Syntax syntax{
      .command = "run",
      .summary =
          "Executes a plan and prints the text as it comes; without a plan this machine runs the\n"
          "model alone (strategy local) in the memory that is available now, weights streaming\n"
          "from its disk if they do not fit, a prompt read in chunks if it does not fit whole. An\n"
          "encoder computes hidden states, in one pass. Exit code 3, with the reason, if weights\n"
          "cannot stream, or if emulated times are worth nothing because this machine's speed\n"
          "drifted.",
      .positionals = {"[plan.json]"},
      .flags = {
          kWeightsFlag,
          kHostsFileFlag,
          {"emulate", "", "start every device as a process on this machine"},
          kTestbedFlag,
          {"pace", "HOW",
           "emulated compute: measured, or nominal, where all times are replayed [measured]"},
          {"dilate", "D", "emulated time passes D times more slowly [as this machine needs]"},
          {"prompt", "TEXT", "prompt [a text of the planned length; required without one]", false,
           true},
          {"raw-prompt", "", "special tokens written in it (\"</s>\") are plain text"},
          kChatFlag,
          kSystemFlag,
          {"prompt-ids", "FILE", "prompt as token ids, separated by spaces or lines"},
          {"new-tokens", "N",
           "most tokens [the plan's; without one 512, or what the context leaves]"},
          {"ignore-eos", "", "do not stop at the end-of-sequence token"},
          {"json", "", "the answer is a JSON object"},
          {"json-schema", "FILE", "the answer is JSON that conforms to this schema"},
          {"seed", "S", "of sampling, with --temperature [0]"},
          {"hidden", "FILE.npy", "write an encoder's last hidden states, [tokens, hidden]"},
          {"logits", "FILE.npy", "write what each token was chosen from, [new tokens, vocabulary]"},
          kMasterThreadsFlag,
          kKernelsFlag,
          kKeyFlag,
          kOwnDtypeFlag,
          kOwnCacheTypeFlag,
          kMemoryLimitFlag,
          kSlicesFlag,
          kCacheSizeFlag,
          kVerifyFlag,
          {"map", "", "use weights where their file has them [until a copy is faster]"},
          {"copy", "", "copy weights to memory of their own before the first token"},
          {"max-drift", "X", "largest drift of this machine's speed, measured pace [0.30]"},
          {"allow-drift", "", "report a larger drift, but accept the run"},
          {"predicted", "FILE",
           "show the prediction of this run beside it, and what deviates most at the end"},
          {"out", "FILE", "result as JSON"},
          {"trace", "FILE", "timeline for Perfetto"},
          {"quiet", "", "no progress and no remarks"}}};
  const std::vector<Flag> sampling = sampling_flags();
  syntax.flags.insert(std::ranges::find(syntax.flags, "seed", &Flag::name), sampling.begin(),
                      sampling.end());
  const std::vector<Flag> more = planned_workload_flags();
  syntax.flags.insert(syntax.flags.begin() + 11, more.begin(), more.end());
  return syntax;
}

// What is run, with which prompt.
struct Job {
  planner::Plan plan;
  RunMode mode;
  std::unique_ptr<exec::Tokenizer> tokenizer;
  std::vector<std::int32_t> prompt;
  std::int64_t new_tokens = 0;
  std::optional<Served> served{};        // instead of these
  std::filesystem::path planned_file{};  // the workload file of the plan; empty: none
};

// One of many that are alike, as the flags for one request say.
planner::InferenceRequest sample_of(const Options& options, const planner::Plan& plan,
                                    const exec::Tokenizer& tokenizer,
                                    const std::filesystem::path& weights) {
  planner::InferenceRequest sample{
      .id = {}, .new_tokens = new_tokens(options, plan.model, plan.workload.new_tokens)};
  sample.prompt_ids = prompt_of(options, tokenizer, weights, plan.workload.prompt_tokens);
  sample.prompt_tokens = static_cast<std::int64_t>(sample.prompt_ids.size());
  sample.sampling = sampling_of(options);
  sample.ignore_eos = options.has("ignore-eos");
  return sample;
}

Job planned_job(const Options& options, const std::filesystem::path& weights) {
  const std::string& path = options.positional(0);
  planner::PlanFile file = plan_argument(path);
  planner::Plan& plan = file.plan;
  check_outcome(options, plan.model);
  const RunMode mode = run_mode_of(options, &plan);
  exec::check_config(weights, plan.model);
  const std::filesystem::path workload =
      file.service ? planned_file(*file.service, path) : std::filesystem::path();
  const planner::PlannedService* const planned = service_to_run(options, file);
  if (options.has("workload") ||
      (planned != nullptr && planned->samples == 0 && !options.has("samples")))
    options.refuse({"chat", "system"}, "with many requests, whose prompts are whole texts");
  std::unique_ptr<exec::Tokenizer> tokenizer;
  std::optional<Served> served =
      served_workload(options, {.model = plan.model,
                                .tokenizer = weights,
                                .sample =
                                    [&] {
                                      tokenizer = tokenizer_of(options, plan.model, weights,
                                                               options.has("prompt-ids"));
                                      return sample_of(options, plan, *tokenizer, weights);
                                    },
                                .planned = planned,
                                .plan = path,
                                .runs = true});
  const bool ids_only = served ? std::ranges::none_of(served->requests,
                                                      [](const planner::InferenceRequest& request) {
                                                        return request.prompt.has_value();
                                                      })
                               : options.has("prompt-ids");
  if (!tokenizer) tokenizer = tokenizer_of(options, plan.model, weights, ids_only);
  if (served) {
    check_runs(options, plan, *served);
    find_sharing(options, *served, plan);
    find_chunk(*served, plan);
    return {std::move(plan), mode, std::move(tokenizer), {}, 0, std::move(served), workload};
  }
  // Of a plan for many requests the length is a mean, which a prompt need not have.
  const bool any_length = file.service && (options.has("prompt") || options.has("prompt-ids"));
  const auto length = any_length ? std::nullopt : std::optional(plan.workload.prompt_tokens);
  std::vector<std::int32_t> prompt = prompt_of(options, *tokenizer, weights, length);
  const std::int64_t count = new_tokens(options, plan.model, plan.workload.new_tokens);
  return {std::move(plan), mode, std::move(tokenizer), std::move(prompt), count, {}, workload};
}

// The rows of a prompt's chunks without a plan, 0: whole; nothing: as it fits.
std::optional<std::int64_t> chunk_here(const Options& options,
                                       const model::Transformer& transformer) {
  const std::string chunk = options.text_or("chunk", "auto");
  const bool has_logits = options.has("logits");
  if (chunk == "whole") return 0;
  if (chunk == "auto") return has_logits ? std::optional<std::int64_t>(0) : std::nullopt;
  if (has_logits || !transformer.architecture().generates())
    throw Usage("flag '--chunk': " +
                std::string(has_logits ? "with '--logits', which is of a prompt read whole"
                                       : "an encoder reads its text whole") +
                "; expected whole, or leave it out");
  return options.integer_or("chunk", 0, 1, 1 << 30);
}

// Without a plan: one for this machine. The reason why there is none instead.
std::variant<Job, planner::Infeasible> local_job(const Options& options,
                                                 const std::filesystem::path& weights) {
  const RunMode mode = run_mode_of(options, nullptr);
  options.refuse({"workload", "samples", "policy", "in-flight", "prefix-cache"},
                 "without a plan; `tandem plan --workload` reserves memory for the requests");
  const model::Transformer transformer = local_model(options, weights);
  check_outcome(options, transformer);
  auto tokenizer = tokenizer_of(options, transformer, weights, options.has("prompt-ids"));
  std::vector<std::int32_t> prompt = prompt_of(options, *tokenizer, weights, std::nullopt);
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most =
      transformer.max_context - (transformer.architecture().generates() ? 1 : 0);
  if (length > most)
    throw Error("prompt: " + std::to_string(length) + " tokens, expected at most " +
                std::to_string(most) + " in the context of " + transformer.name + ", which is " +
                std::to_string(transformer.max_context) + "; shorten it");
  constexpr std::int64_t kUsual = 512;
  const std::int64_t count =
      new_tokens(options, transformer, std::min(kUsual, transformer.max_context - length));
  auto answer =
      planner::plan_prompt_here(transformer, {.prompt_tokens = length, .new_tokens = count},
                                local_memory(options), chunk_here(options, transformer));
  if (auto* no = std::get_if<planner::Infeasible>(&answer)) return std::move(*no);
  auto& found = std::get<planner::ServicePlan>(answer);
  Job job{std::move(found.plan), mode, std::move(tokenizer), std::move(prompt), count};
  if (found.chunk == 0) return job;
  planner::InferenceRequest request{.id = {}, .prompt_tokens = length, .new_tokens = count};
  request.prompt_ids = job.prompt;
  request.sampling = sampling_of(options);
  request.ignore_eos = options.has("ignore-eos");
  job.served = Served{.requests = planner::samples_of(request, 1),
                      .policy = &planner::find_policy("continuous"),
                      .chunk = found.chunk,
                      .samples = true};
  return job;
}

// What every answer must be; null: any text.
std::shared_ptr<const exec::TokenGrammar> grammar_of(const Options& options, const Job& job) {
  const auto path = options.text("json-schema");
  if (!options.has("json") && !path) return nullptr;
  if (path) options.refuse({"json"}, "with '--json-schema', which is a form of JSON, too");
  options.refuse({"ignore-eos"},
                 "with '--json' and '--json-schema', whose answers end where they "
                 "are complete");
  if (!job.plan.model.architecture().generates())
    throw Error("flag '" + std::string(path ? "--json-schema" : "--json") +
                "': the model is an encoder, expected one that generates text");
  exec::TokenGrammars grammars(*job.tokenizer, exec::stop_tokens(job.plan, *job.tokenizer),
                               job.plan.model.vocab);
  return grammars.of_schema(path ? read_file(*path) : exec::kAnyObject,
                            path.value_or("the schema of JSON objects"));
}

exec::ExecuteOptions execute_options(const Options& options, const Job& job,
                                     const std::filesystem::path& weights) {
  constexpr double kMostDilation = 1000.0;
  exec::ExecuteOptions run;
  run.weights = weights;
  run.prompt = job.prompt;
  run.new_tokens = job.new_tokens;
  const Cache cache = cache_of(options);
  run.cache_dir = cache.folder;
  run.cache_bytes = cache.bytes;
  run.verify = options.has(kVerifyFlag.name);
  if (!job.mode.one_machine() && !options.has("copy"))
    run.place = options.has("map") ? exec::WeightPlace::mapped : exec::WeightPlace::chosen;
  run.ignore_eos = options.has("ignore-eos");
  if (job.served) {
    run.serve = exec::ServeOptions{.requests = job.served->requests,
                                   .policy = job.served->policy,
                                   .chunk = job.served->chunk,
                                   .steps = job.served->steps,
                                   .shares_prefixes = job.served->shares_prefixes,
                                   .is_one = job.served->is_one(),
                                   .on_token = {}};
  } else if (job.plan.model.architecture().generates()) {
    run.sampling = sampling_of(options);
  }
  run.grammar = grammar_of(options, job);
  run.threads = master_threads(options, job.plan, job.mode.one_machine());
  run.kernels = kernels_of(options);
  run.timeline = options.has("trace");
  run.digest_weights = options.has("out");
  run.tokenizer = job.tokenizer.get();
  if (job.mode.emulate) {
    exec::EmulatedOn emulated{.program = "/proc/self/exe", .pace = job.mode.pace};
    if (options.has("dilate"))
      emulated.dilation = options.number_or("dilate", 1.0, 1.0, kMostDilation);
    run.devices = emulated;
  } else if (const auto& hosts = job.mode.hosts) {
    exec::RemoteAt remote{.workers = exec::parse_hosts(read_file(*hosts), *hosts, job.plan)};
    if (const auto key = options.text("key")) remote.key = exec::read_key_file(*key);
    if (const auto& testbed = job.mode.testbed)
      remote.testbed = exec::TestbedRun{
          .turn = std::make_shared<exec::SharedTurn>(std::filesystem::path(testbed->turn)),
          .dilation = testbed->dilation,
          .environment = testbed->environment};
    run.devices = remote;
  }
  return run;
}

// The prediction to show beside the run; nothing if none is asked for.
std::optional<PredictionWatch> watch_of(const Options& options, const Job& job) {
  const auto path = options.text("predicted");
  if (!path) return std::nullopt;
  const bool generates = job.plan.model.architecture().generates();
  return PredictionWatch(
      read_prediction(*path, {.plan = job.plan,
                              .prompt_tokens = static_cast<std::int64_t>(job.prompt.size()),
                              .new_tokens = generates ? job.new_tokens : 0,
                              .served = job.served ? &*job.served : nullptr}));
}

// `planned`: the workload file of the plan; empty if there is none.
void check_files(const Options& options, const std::filesystem::path& weights,
                 const std::filesystem::path& planned) {
  FileRoles files;
  if (options.positionals() > 0) files.reads("argument plan.json", options.positional(0));
  files.reads_model("flag '--weights'", weights);
  for (const char* const flag :
       {"hosts", "key", "testbed", "prompt-ids", "json-schema", "workload", "predicted"})
    files.reads(options, flag);
  if (!planned.empty()) files.reads("the plan's workload", planned);
  for (const char* const flag : {"out", "trace", "hidden", "logits"}) files.writes(options, flag);
  files.check();
}

// The exit code of a run that is over.
int judge_drift(const Options& options, const RunMode& mode, double drift, double most,
                std::ostream& out) {
  if (mode.pace != exec::Pace::measured || drift <= most) return 0;
  const std::string reason = "the machine's speed drifted by " + model::fixed(drift * 100, 0) +
                             "% during the run, at most " + model::fixed(most * 100, 0) +
                             "% is allowed; run again when it is quiet";
  if (!options.has("allow-drift")) {
    out << reason << '\n';
    return 3;
  }
  if (!options.has("quiet")) std::cerr << "tandem: " << reason << '\n';
  return 0;
}

// Runs one plan, or this machine alone. Returns the exit code.
int run_one(Options options, std::ostream& out) {
  const auto start = exec::Clock::now();
  if (options.positionals() > 0)
    check_plan_argument(options.positional(0),
                        "check the path; a prompt is given by --prompt, a folder of weights by "
                        "--weights, and without a plan this machine runs the model alone");
  const std::filesystem::path weights = weights_of(options.required("weights"));
  const bool quiet = options.has("quiet");
  if (quiet)
    options.refuse({"predicted"}, "with '--quiet'; compare the results with 'tandem compare'");
  std::variant<Job, planner::Infeasible> found =
      options.positionals() > 0 ? planned_job(options, weights) : local_job(options, weights);
  if (const auto* no = std::get_if<planner::Infeasible>(&found)) {
    out << no->reason << (no->reason.ends_with('\n') ? "" : "\n");
    return 3;
  }
  const Job& job = std::get<Job>(found);
  const planner::Plan& plan = job.plan;
  const RunMode& mode = job.mode;
  const auto result_path = options.text("out");
  const auto hidden_path = options.text("hidden");
  const auto logits_path = options.text("logits");
  const auto trace_path = options.text("trace");
  const double max_drift = options.number_or("max-drift", kMaxDrift, 0.0, 1e6);
  static_cast<void>(options.has("allow-drift"));
  exec::ExecuteOptions run = execute_options(options, job, weights);
  check_files(options, weights, job.planned_file);
  std::optional<PredictionWatch> watch = watch_of(options, job);
  options.settle();
  if (options.positionals() == 0 && !quiet) {
    if (const std::string remark = planner::streaming_remark(plan); !remark.empty())
      std::cerr << "tandem: " << remark << '\n';
  }
  if (const std::string varies = variation(plan.cluster); mode.one_machine() && !varies.empty()) {
    std::cerr
        << "tandem run: " << varies
        << ": not emulated, nor is any other jitter, loss, background traffic or change during "
           "the run; `tandem simulate` knows of them\n";
  }

  exec::Interrupt interrupt;
  const Interruption interruption([&](const std::string& reason) { interrupt.trip(reason); },
                                  [&] { interrupt.trip(ReaderGone().what()); });
  run.interrupt = &interrupt;
  std::optional<NpyRows> logits;
  if (logits_path) {
    logits.emplace(*logits_path, plan.model.vocab);
    run.on_logits = [&](std::span<const float> row) { logits->add(row); };
  }
  GenerationView view(out, quiet);
  exec::Execution done = show_execution(plan, run, view, watch ? &*watch : nullptr);

  model::Result& result = done.result;
  result.metrics.ready_s = std::chrono::duration<double>(done.ready - start).count();
  result.environment["tandem"] = version();
  if (trace_path) {
    write_file(*trace_path, model::to_perfetto_json(done.trace, kind_of(result.origin)));
    result.trace = path_from(*trace_path, result_path);
    model::set_communication(result, done.trace);
  }
  if (logits) logits->finish();
  if (hidden_path)
    write_file(*hidden_path, to_npy(done.hidden, done.prompt_tokens, plan.model.hidden));
  if (result_path) write_file(*result_path, model::to_json(result));
  if (!quiet) print_summary(result, plan);
  if (watch) {
    for (const std::string& line : watch->summary(result, plan)) view.remark(line);
  }
  return judge_drift(options, mode, done.drift, max_drift, out);
}

}  // namespace

int run_command(const Arguments& arguments, std::ostream& out) {
  Options options(run_syntax(), arguments);
  if (options.positionals() > 0 && is_folder(options.positional(0)))
    return run_replicas(options, run_one, out);
  return run_one(std::move(options), out);
}

}  // namespace tandem::cli
