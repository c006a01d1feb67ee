#include "cli/flags/workload.hpp"

#include <cmath>
#include <ostream>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/flags/prompt.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/error.hpp"
#include "model/quantity_text.hpp"
#include "model/text_table.hpp"
#include "planner/serving/capacity.hpp"
#include "planner/serving/chunk_search.hpp"

namespace tandem::cli {
namespace {

using planner::InferenceRequest;

// "sequential (one request after another), ...".
std::string policies_text() {
  std::string text;
  for (const planner::Policy& policy : planner::policies()) {
    text += text.empty() ? "" : ", ";
    text += policy.name;
    text += " (";
    text += policy.summary;
    text += ')';
  }
  return text + " [continuous; recurrent with --samples]";
}

void count_prompts(const Options& options, std::vector<InferenceRequest>& requests,
                   const model::Transformer& model, const std::filesystem::path& folder,
                   const std::string& remedy) {
  std::unique_ptr<exec::Tokenizer> tokenizer;
  for (InferenceRequest& request : requests) {
    if (!request.prompt) continue;
    if (folder.empty()) {
      throw Error("request '" + request.id +
                  "': its prompt is a text, and there is no tokenizer to count its tokens; " +
                  remedy);
    }
    if (!tokenizer) tokenizer = exec::load_tokenizer(folder, model);
    request.prompt_ids = encoded_prompt(options, *tokenizer, *request.prompt,
                                        "prompt of request '" + request.id + "'");
    request.prompt_tokens = static_cast<std::int64_t>(request.prompt_ids.size());
  }
}

// A policy with a budget of rows needs to know it.
void check_budget(const Served& served, const model::Transformer& model) {
  if (!served.policy->budget) return;
  const std::string subject = "flag '--policy': '" + std::string(served.policy->name) + "' ";
  if (!model.architecture().generates())
    throw Usage(subject +
                "reads prompts in chunks, an encoder reads its text whole; expected "
                "another policy");
  if (served.best_chunk)
    throw Usage(subject +
                "has steps of at most as many rows as '--chunk' says, which 'auto' does "
                "not find; give a number, such as --chunk 256");
  if (!planner::serves(*served.policy, served.chunk))
    throw Usage(subject +
                "has steps of a given number of rows; give it with --chunk N, such as "
                "--chunk 256");
}

}  // namespace

std::vector<Flag> workload_flags() {
  static const std::string policies = policies_text();
  return {
      {"workload", "FILE",
       "many requests, a line of JSON each: id, arrival_s, prompt (or prompt_ids, prompt_tokens), "
       "new_tokens"},
      {"samples", "M", "instead: M requests alike, all there from the beginning"},
      {"policy", "P", policies},
      {"chunk", "N",
       "read prompts in chunks of N tokens beside decoding, with policy sarathi so that a step has "
       "N rows in all; auto: as predicted best [whole]"},
      {"in-flight", "N",
       "steps of different sequences, or chunks of a prompt, under way at once on a pipeline "
       "[auto: one a stage, with policy recurrent one a request; as planned]"}};
}

std::optional<Served> served_workload(const Options& options, const model::Transformer& model,
                                      const std::filesystem::path& folder,
                                      const std::string& remedy,
                                      const std::function<planner::InferenceRequest()>& sample) {
  const std::optional<std::string> path = options.text("workload");
  Served served{.requests = {}, .samples = options.has("samples")};
  if (path && served.samples)
    throw Usage("flags '--workload' and '--samples' contradict each other; give one");
  if (!path && !served.samples) {
    options.refuse({"policy", "chunk", "in-flight"},
                   "without '--workload' or '--samples', whose requests they are for");
    return std::nullopt;
  }
  if (served.samples) {
    constexpr std::int64_t kMostSamples = 10000;
    const std::int64_t count = options.integer_or("samples", 1, 1, kMostSamples);
    served.requests = planner::samples_of(sample(), count);
  } else {
    served.requests = planner::parse_requests(read_file(*path), *path);
    count_prompts(options, served.requests, model, folder, remedy);
  }
  planner::check_requests(served.requests, model);
  std::vector<std::string_view> names;
  for (const planner::Policy& policy : planner::policies()) names.push_back(policy.name);
  served.policy = &planner::find_policy(
      options.choice_or("policy", served.samples ? "recurrent" : "continuous", names));
  served.best_chunk = options.text_or("chunk", "") == "auto";
  if (!served.best_chunk) served.chunk = options.integer_or("chunk", 0, 1, 1 << 30);
  if ((served.chunk > 0 || served.best_chunk) && !model.architecture().generates())
    throw Usage("flag '--chunk': an encoder reads its text whole; leave it out");
  check_budget(served, model);
  if (options.text_or("in-flight", "auto") != "auto")
    served.steps = options.integer_or("in-flight", 1, 1, planner::kMostSteps);
  if (served.steps > 1 && !served.policy->several) {
    throw Usage("flag '--in-flight': policy '" + std::string(served.policy->name) +
                "' has one request at a time, each in one step; expected 1, or another policy");
  }
  return served;
}

void find_chunk(Served& served, const planner::Plan& plan) {
  if (!served.best_chunk) return;
  served.chunk = planner::best_chunk(plan, served.requests, *served.policy, served.steps);
}

std::string to_text(const Served& served) {
  const std::string noun = served.samples ? " sample" : " request";
  return std::to_string(served.requests.size()) + noun +
         (served.requests.size() == 1 ? ", " : "s, ") + std::string(served.policy->name) +
         (served.chunk == 0       ? ""
          : served.policy->budget ? ", steps of at most " + std::to_string(served.chunk) + " rows"
                                  : ", prompts in chunks of " + std::to_string(served.chunk)) +
         (served.steps > 1 ? ", " + std::to_string(served.steps) + " steps in flight" : "");
}

void print_requests(const model::Result& result, std::ostream& out) {
  using model::Seconds;
  model::Table table(
      {"request", "arrival", "queueing", "first token", "end", "token latency, p50"});
  for (const model::RequestResult& request : result.requests) {
    const double latency = request.token_latency.p50;
    table.add({request.id, to_text(Seconds{request.arrival_s}),
               to_text(Seconds{request.queueing_s}), to_text(Seconds{request.ttft_s}),
               to_text(Seconds{request.end_s}),
               std::isfinite(latency) ? to_text(Seconds{latency}) : "-"});
  }
  table.print(out);
  if (result.metrics.throughput_tokens_per_s) {
    out << "\nthroughput  " << model::fixed(*result.metrics.throughput_tokens_per_s, 2)
        << " tokens a second\n";
  }
}

}  // namespace tandem::cli
