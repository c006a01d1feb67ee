// tandem eval: how well the model, as a plan executes it, expects held-out text and recalls facts.

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <thread>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/device_flags.hpp"
#include "cli/flags/dtype.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "cli/version.hpp"
#include "cli/views/generation_view.hpp"
#include "cli/views/interruption.hpp"
#include "exec/emulation/local_cluster.hpp"
#include "exec/evaluation/examination.hpp"
#include "exec/kernels/integer_choice.hpp"
#include "exec/session/hosts.hpp"
#include "exec/session/master.hpp"
#include "exec/session/open_files.hpp"
#include "exec/session/run_weights.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/model_folder.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/search/search.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Syntax eval_syntax() {
  return {
      .command = "eval",
      .summary =
          "Scores a model on held-out text (bits per byte) and on questions about facts told a\n"
          "known number of tokens before (recall), computed as a plan's prompts are. Without a\n"
          "plan, this machine computes alone.",
      .positionals = {},
      .flags = {kWeightsFlag,
                {"dtype", "TYPE",
                 "without a plan: weights in f32, f16, bf16, q8_0, q4_0, q5_0, q5_1, q4_k, q5_k, "
                 "q6_k, or a "
                 "mix, q4_k_m or q5_k_m [f32; as a GGUF file has it]"},
                kOwnCacheTypeFlag,
                {"plan", "FILE", "the plan whose execution is scored"},
                {"hosts", "FILE", "where its devices listen: lines 'device-name host:port'"},
                {"emulate", "", "start its devices as processes on this machine, not paced"},
                {"text", "FILE", "lines {\"text\": ...} [DIR/eval/heldout.jsonl]"},
                {"recall", "FILE",
                 "lines {\"distance\", \"prompt\", \"answer\"} [DIR/eval/recall.jsonl]"},
                {"limit", "N", "the first N documents, and N questions of each distance"},
                {"threads", "N", "computing threads of the master [all cores; 1 if emulated]"},
                kKernelsFlag,
                kKeyFlag,
                kSlicesFlag,
                kCacheSizeFlag,
                {"out", "FILE", "scores as JSON; - prints them instead of the table"},
                {"json", "", "print the scores as JSON"},
                {"quiet", "", "print nothing"}}};
}

// A file of the command line, or of the model's folder if it is there.
std::optional<exec::QuestionSource> source_of(const Options& options, const char* flag,
                                              const std::filesystem::path& usual) {
  if (const auto path = options.text(flag)) return exec::QuestionSource{*path, read_file(*path)};
  std::error_code ignored;
  if (!std::filesystem::exists(usual, ignored)) return std::nullopt;
  return exec::QuestionSource{usual.string(), read_file(usual)};
}

// The session compares what it needs with the memory that is available.
planner::Plan unlimited_plan(const model::Transformer& transformer) {
  // An encoder is refused by whoever scores.
  const std::int64_t new_tokens = transformer.architecture().generates() ? 1 : 0;
  auto made = planner::plan_here(transformer, {.prompt_tokens = 1, .new_tokens = new_tokens},
                                 model::Bytes{1e15});
  if (const auto* infeasible = std::get_if<planner::Infeasible>(&made)) {
    throw Error(infeasible->reason);
  }
  return std::get<planner::Plan>(std::move(made));
}

bool works_alone(const planner::Plan& plan) {
  return std::ranges::none_of(exec::workers_of(plan), [](bool works) { return works; });
}

planner::Plan plan_of(const Options& options, const std::filesystem::path& weights) {
  const auto path = options.text("plan");
  if (!path) options.refuse({"hosts", "emulate", "key"}, "without '--plan'");
  if (options.has("hosts") && options.has("emulate")) {
    throw Usage("flags '--hosts' and '--emulate' contradict each other; give one");
  }
  if (!options.has("hosts")) options.refuse({"key"}, "without '--hosts', whose devices share it");
  if (!path) {
    model::Transformer transformer = load_model(weights.string());
    if (const auto formats = dtype_of(options, transformer)) transformer.formats = *formats;
    transformer.cache = cache_type_of(options, transformer);
    return unlimited_plan(transformer);
  }
  options.refuse({"dtype", "cache-type"}, "with '--plan', which says it");
  planner::Plan plan = planner::parse_plan_json(read_file(*path), *path);
  exec::require_logits(plan, "a score is of all logits");
  const std::vector<bool> workers = exec::workers_of(plan);
  const auto others = std::count(workers.begin(), workers.end(), true);
  if (works_alone(plan))
    options.accept_idle({"hosts", "key", "emulate"}, "as the plan's master works alone");
  if (others > 0 && !options.has("hosts") && !options.has("emulate")) {
    throw Usage("the plan has " + std::to_string(others + 1) +
                " working devices; give '--hosts FILE' or '--emulate'");
  }
  return plan;
}

exec::ScoreOptions score_options(const Options& options, const planner::Plan& plan,
                                 const std::filesystem::path& weights) {
  exec::ScoreOptions run;
  run.weights = weights;
  const Cache cache = cache_of(options);
  run.cache_dir = cache.folder;
  run.cache_bytes = cache.bytes;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  run.kernels = kernels_of(options);
  const bool emulate = options.has("emulate") && !works_alone(plan);
  run.threads = static_cast<int>(options.integer_or("threads", emulate ? 1 : cores, 1, 1024));
  if (const auto hosts = options.text("hosts"); hosts && !works_alone(plan)) {
    run.workers = exec::parse_hosts(read_file(*hosts), *hosts, plan);
    if (const auto key = options.text("key")) run.key = exec::read_key_file(*key);
  }
  return run;
}

Json recall_json(const exec::Recall& recall) {
  const exec::Interval interval = exec::wilson_interval(recall.right, recall.questions);
  return {{"questions", recall.questions},
          {"right", recall.right},
          {"accuracy", recall.accuracy()},
          {"accuracy_low", interval.low},
          {"accuracy_high", interval.high}};
}

Json source_json(const exec::QuestionSource& source) {
  return {{"file", source.path}, {"sha256", model::sha256_hex(source.contents)}};
}

Json to_json(const exec::ExaminationScores& scores, double elapsed_s, const planner::Plan& plan,
             const Options& options, const std::optional<exec::QuestionSource>& text,
             const std::optional<exec::QuestionSource>& recall,
             const std::optional<std::string>& weights_sha256, exec::KernelSet kernels) {
  Json json{{"schema", "tandem.eval/2"}, {"model", plan.model.name}};
  json["weights_sha256"] = weights_sha256 ? Json(*weights_sha256) : Json(nullptr);
  json["plan"] = options.has("plan") ? Json{{"sha256", planner::plan_sha256(plan)},
                                            {"strategy", plan.strategy},
                                            {"platform", plan.cluster.name()}}
                                     : Json();
  json["text"] = nullptr;
  json["recall"] = nullptr;
  if (text) {
    json["text"] = source_json(*text);
    json["text"].update({{"documents", scores.documents},
                         {"bytes", scores.bytes},
                         {"tokens", scores.tokens},
                         {"bits", scores.bits},
                         {"bits_per_byte", scores.bits_per_byte()},
                         {"perplexity", scores.perplexity()}});
  }
  if (recall) {
    json["recall"] = source_json(*recall);
    json["recall"].update(recall_json(scores.total()));
    Json& distances = json["recall"]["distances"] = Json::array();
    for (const auto& [distance, part] : scores.recall) {
      Json entry{{"distance", distance}};
      entry.update(recall_json(part));
      distances.push_back(std::move(entry));
    }
  }
  json["environment"] = {{"tandem", std::string(version())}, {"kernels", to_string(kernels)}};
  json["elapsed_s"] = elapsed_s;
  return json;
}

std::vector<std::string> recall_row(std::string name, const exec::Recall& recall) {
  const exec::Interval interval = exec::wilson_interval(recall.right, recall.questions);
  return {std::move(name), std::to_string(recall.questions), std::to_string(recall.right),
          model::fixed(100.0 * recall.accuracy(), 1) + " %",
          model::fixed(100.0 * interval.low, 1) + " to " + model::fixed(100.0 * interval.high, 1) +
              " %"};
}

void print(const exec::ExaminationScores& scores, std::ostream& out) {
  if (scores.documents > 0) {
    model::Table table(
        {"held-out text", "documents", "bytes", "tokens", "bits per byte", "perplexity"});
    table.add({"", std::to_string(scores.documents), std::to_string(scores.bytes),
               std::to_string(scores.tokens), model::fixed(scores.bits_per_byte(), 4),
               model::fixed(scores.perplexity(), 3)});
    table.print(out);
  }
  if (!scores.recall.empty()) {
    if (scores.documents > 0) out << '\n';
    model::Table table({"recall, tokens apart", "questions", "right", "accuracy", "95 % interval"});
    for (const auto& [distance, part] : scores.recall) {
      table.add(recall_row(std::to_string(distance), part));
    }
    if (scores.recall.size() > 1) table.add(recall_row("all", scores.total()));
    table.print(out);
  }
}

}  // namespace

int eval_command(const Arguments& arguments, std::ostream& out) {
  Options options(eval_syntax(), arguments);
  const Shown show = shown(options);
  if (!show.file) options.refuse({"quiet"}, "but to leave no result; give '--out FILE'");
  const std::filesystem::path weights = weights_of(options.required("weights"));
  const std::int64_t limit = options.integer_or("limit", 1 << 30, 1, 1 << 30);
  const planner::Plan plan = plan_of(options, weights);
  const bool emulate = options.has("emulate") && !works_alone(plan);
  exec::check_config(weights, plan.model);
  exec::ScoreOptions run = score_options(options, plan, weights);

  const auto text = source_of(options, "text", weights / "eval" / "heldout.jsonl");
  const auto recall = source_of(options, "recall", weights / "eval" / "recall.jsonl");
  FileRoles files;
  files.reads_model("flag '--weights'", weights);
  for (const char* const flag : {"plan", "hosts", "key"}) files.reads(options, flag);
  if (text) files.reads("the held-out text", text->path);
  if (recall) files.reads("the recall questions", recall->path);
  if (show.file) files.writes("flag '--out'", *show.file);
  files.check();
  options.settle();
  if (!text && !recall) {
    throw Error(weights.string() +
                ": no eval/heldout.jsonl and no eval/recall.jsonl; give '--text' or '--recall'");
  }
  const auto tokenizer = exec::load_tokenizer(weights, plan.model);
  const exec::Examination exam =
      exec::make_examination(text, recall, *tokenizer, plan.model.max_context, limit);

  exec::Interrupt interrupt;
  const Interruption interruption([&](const std::string& reason) { interrupt.trip(reason); });
  GenerationView view(out, !show.table());
  if (run.kernels == exec::KernelSet::tuned) exec::choose_integer_kernels(run.cache_dir);
  std::unique_ptr<exec::LocalCluster> cluster;
  if (emulate) {
    exec::check_open_files(plan, weights, /*one_machine=*/true);
    view.stage("starting the emulated devices");
    run.one_machine = true;
    run.key = exec::random_key();
    cluster = std::make_unique<exec::LocalCluster>(
        exec::LocalClusterOptions{.key = *run.key,
                                  .cache_dir = run.cache_dir,
                                  .cache_bytes = run.cache_bytes,
                                  .kernels = run.kernels,
                                  .wanted = exec::workers_of(plan)});
    run.workers = cluster->endpoints();
  }
  run.on_stage = [&](const std::string& stage) { view.stage(stage); };
  run.on_warning = [&](const std::string& warning) { view.remark(warning); };
  run.on_notice = [&](const std::string& notice) { view.notice(notice); };
  const std::string of = " of " + std::to_string(exam.passages.size()) + " texts scored";
  run.on_passage = [&](std::size_t done) { view.stage(std::to_string(done) + of); };

  std::optional<exec::RunWeights> digested;
  if (show.file || show.json) digested.emplace(weights, plan.model);
  const auto start = std::chrono::steady_clock::now();
  const exec::ExaminationScores scores =
      exec::summarize(exam, exec::score(plan, run, exam.passages, interrupt));
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::optional<std::string> weights_sha256;
  if (digested) {
    view.stage("hashing the weights for the result");
    weights_sha256 = digested->digest(
        {.notes = run.cache_dir / "seen", .believe = !run.verify, .threads = run.threads},
        interrupt, run.on_warning);
  }
  view.finish();
  if (cluster) cluster->wait(std::chrono::seconds(2));

  const std::string json =
      to_json(scores, elapsed_s, plan, options, text, recall, weights_sha256, run.kernels).dump(2) +
      '\n';
  deliver(show, json, out);
  if (show.json) {
    out << json;
  } else if (show.table()) {
    print(scores, out);
  }
  return 0;
}

}  // namespace tandem::cli
