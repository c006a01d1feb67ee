#include "cli/flags/workload_flags.hpp"

#include <algorithm>
#include <iostream>
#include <system_error>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/flags/prefix_flag.hpp"
#include "cli/flags/prompt.hpp"
#include "cli/flags/sampling_flags.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_capacity.hpp"
#include "planner/serving/service_search.hpp"
#include "planner/strategy/common/lowering.hpp"

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
  return text;
}

namespace fs = std::filesystem;

// Returns whether special tokens in texts were encoded as plain text: as planned, or by
// --raw-prompt, which has no effect without texts.
bool count_prompts(const Options& options, std::vector<InferenceRequest>& requests,
                   const WorkloadUse& use, bool planned_raw) {
  std::unique_ptr<exec::Tokenizer> tokenizer;
  exec::WrittenTokens written = exec::WrittenTokens::tokens;
  for (InferenceRequest& request : requests) {
    if (!request.prompt) continue;
    if (use.tokenizer.empty()) {
      throw Error("request '" + request.id +
                  "': its prompt is a text, and there is no tokenizer to count its tokens; " +
                  use.remedy);
    }
    if (!tokenizer) {
      tokenizer = exec::load_tokenizer(use.tokenizer, use.model);
      written = written_tokens(options);
      if (planned_raw) written = exec::WrittenTokens::text;
    }
    request.prompt_ids = encoded_prompt(*tokenizer, *request.prompt, written,
                                        "prompt of request '" + request.id + "'");
    request.prompt_tokens = static_cast<std::int64_t>(request.prompt_ids.size());
  }
  return written == exec::WrittenTokens::text;
}

void remark(const Options& options, const std::string& text) {
  if (!options.has("quiet")) std::cerr << "tandem: " << text << '\n';
}

// Of the requests' prompts one may have another length than planned, by another tokenizer.
void check_lengths(const Options& options, const std::vector<InferenceRequest>& requests,
                   const std::vector<InferenceRequest>& planned) {
  for (std::size_t i = 0; i < std::min(requests.size(), planned.size()); ++i) {
    if (requests[i].prompt_tokens == planned[i].prompt_tokens) continue;
    return remark(options, "the prompt of request '" + requests[i].id + "' has " +
                               std::to_string(requests[i].prompt_tokens) +
                               " tokens, the plan was made for " +
                               std::to_string(planned[i].prompt_tokens) +
                               "; predictions of the plan do not apply");
  }
}

std::string count_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " request" : " requests");
}

// Whether lengths are not enough.
bool needs_prompts(const Options& options, const WorkloadUse& use) {
  return use.runs || (!use.plans && asks_for_prefixes(options));
}

// The requests of the file at --workload.
void read_workload(const Options& options, const std::string& path, const WorkloadUse& use,
                   Served& served) {
  const std::string text = read_file(path);
  served.sha256 = model::sha256_hex(text);
  const bool known = use.planned != nullptr && use.planned->sha256 == served.sha256;
  if (known && !needs_prompts(options, use) && use.tokenizer.empty() &&
      !options.has("raw-prompt")) {
    served.requests = use.planned->requests;
    return;
  }
  served.requests = planner::parse_requests(text, path);
  served.raw_prompts = count_prompts(options, served.requests, use, false);
}

// The requests of the file that the plan was made for.
void read_planned(const Options& options, const WorkloadUse& use, Served& served) {
  const planner::PlannedService& planned = *use.planned;
  served.requests = planned.requests;
  served.sha256 = planned.sha256;
  const fs::path path = planned_file(planned, use.plan);
  if (path.empty()) {
    const std::string lost =
        use.plan.string() + ": its workload '" + model::one_line(planned.file) + "' is not there";
    if (needs_prompts(options, use)) {
      throw Error(lost + ", expected the prompts of its " + count_text(planned.requests.size()) +
                  ", which a plan does not hold; give '--workload FILE', or '--prompt' to run one "
                  "request alone");
    }
    return remark(options, lost + "; using the arrivals and lengths of its " +
                               count_text(planned.requests.size()) + ", which the plan holds");
  }
  const std::string text = read_file(path);
  const std::string shown = model::one_line(fs::proximate(path).string());
  if (const std::string sha256 = model::sha256_hex(text); sha256 != planned.sha256) {
    throw Error(shown + ": changed since " + use.plan.string() + " was made for it, SHA-256 " +
                sha256.substr(0, 16) + ", expected " + planned.sha256.substr(0, 16) +
                "; plan again, or give '--workload " + shown + "' to take the file as it is now");
  }
  if (!needs_prompts(options, use)) return;
  served.requests = planner::parse_requests(text, shown);
  static_cast<void>(count_prompts(options, served.requests, use, planned.raw_prompts));
  check_lengths(options, served.requests, planned.requests);
}

// A policy with a budget of rows needs to know it.
void check_budget(const Served& served, const model::Transformer& model) {
  if (!served.policy->budget()) return;
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
  static const std::string policies = policies_text() + " [continuous; recurrent with --samples]";
  return {
      {"workload", "FILE",
       "many requests, a line of JSON each: id, arrival_s, prompt (or prompt_ids, prompt_tokens), "
       "new_tokens"},
      {"samples", "M", "instead: M identical requests, all present from the start"},
      {"policy", "P", policies},
      {"chunk", "N",
       "read prompts in chunks of N tokens, of many requests beside decoding, with policy sarathi "
       "so "
       "that a step has N rows in all; whole; auto: as predicted best [auto]"},
      {"in-flight", "N",
       "steps of different sequences, or chunks of a prompt, under way at once on a pipeline "
       "[auto: as predicted best]"}};
}

std::vector<Flag> planned_workload_flags() {
  static const std::string policies =
      policies_text() + " [as planned, else continuous; recurrent with --samples]";
  return {
      {"workload", "FILE", "other requests, as of 'tandem plan' [as planned, else one request]"},
      {"samples", "M", "instead: M identical requests, all present from the start [as planned]"},
      {"policy", "P", policies},
      {"chunk", "N",
       "most rows of prompts in a step, auto or whole [as planned, else whole; auto for run "
       "without a plan]"},
      {"in-flight", "N", "steps under way at once on a pipeline, or auto [as planned]"},
      kPrefixFlag};
}

std::optional<Served> served_workload(const Options& options, const WorkloadUse& use) {
  const std::optional<std::string> path = options.text("workload");
  const planner::PlannedService* const planned = use.planned;
  Served served{.requests = {}, .samples = options.has("samples")};
  if (path && served.samples)
    throw Usage("flags '--workload' and '--samples' contradict each other; give one");
  if (!path && !served.samples) {
    if (planned == nullptr) {
      if (!use.plans) options.refuse({"chunk"}, "without '--workload' or '--samples'");
      if (!use.plans)
        options.refuse({"in-flight"}, "without '--workload' or '--samples', whose steps they are");
      options.refuse({"policy"}, "without '--workload' or '--samples', whose requests it is for");
      if (!use.plans)
        options.refuse({"prefix-cache"},
                       "without '--workload' or '--samples', whose requests have prefixes");
      return std::nullopt;
    }
    served.samples = planned->samples > 0;
  }
  if (served.samples) {
    constexpr std::int64_t kMostSamples = 10000;
    const std::int64_t count =
        options.integer_or("samples", planned != nullptr ? planned->samples : 1, 1, kMostSamples);
    served.requests = planner::samples_of(use.sample(), count);
  } else if (path) {
    read_workload(options, *path, use, served);
  } else {
    read_planned(options, use, served);
  }
  planner::check_requests(served.requests, use.model);
  served.shares_prefixes = planner::states_prefixes(served.requests);
  std::vector<std::string_view> names;
  for (const planner::Policy& policy : planner::policies()) names.push_back(policy.name);
  const std::string_view usual = served.samples ? "recurrent" : "continuous";
  served.policy = &planner::find_policy(options.choice_or(
      "policy", planned != nullptr ? std::string_view(planned->policy) : usual, names));
  const bool searched =
      use.plans && !served.policy->budget() && use.model.architecture().generates();
  const std::string chunk = options.text_or("chunk", searched ? "auto" : "");
  served.best_chunk = chunk == "auto";
  if (!served.best_chunk && chunk != "whole")
    served.chunk = options.integer_or("chunk", planned != nullptr ? planned->chunk : 0, 1, 1 << 30);
  if ((served.chunk > 0 || served.best_chunk) && !use.model.architecture().generates())
    throw Usage("flag '--chunk': an encoder reads its text whole; leave it out");
  check_budget(served, use.model);
  // Another policy may have one step at a time.
  if (planned != nullptr && served.policy->several()) served.steps = planned->in_flight;
  if (const std::string steps = options.text_or("in-flight", ""); steps == "auto")
    served.steps = 0;
  else if (!steps.empty())
    served.steps = options.integer_or("in-flight", 1, 1, planner::kMostSteps);
  if (served.steps > 1 && !served.policy->several()) {
    throw Usage("flag '--in-flight': policy '" + std::string(served.policy->name) +
                "' has one request at a time, each in one step; expected 1, or another policy");
  }
  return served;
}

void find_sharing(const Options& options, Served& served, const planner::Plan& plan) {
  served.shares_prefixes = shares_prefixes(options, plan, served.requests, served.shares_prefixes);
  if (!served.shares_prefixes || !served.samples) return;
  for (InferenceRequest& request : served.requests) {
    if (request.prompt_ids.empty()) request.prefix = {{"samples", request.prompt_tokens}};
  }
}

void find_chunk(Served& served, const planner::Plan& plan) {
  if (!served.best_chunk) return;
  served.chunk = planner::reserved_chunk(plan, served.requests, *served.policy, served.steps);
}

fs::path planned_file(const planner::PlannedService& planned, const fs::path& plan) {
  if (planned.file.empty()) return {};
  std::error_code ignored;
  fs::path path = fs::weakly_canonical(plan, ignored).parent_path() / planned.file;
  // What came through a pipe cannot be read again.
  return fs::is_regular_file(path, ignored) ? path : fs::path();
}

planner::PlannedService service_of(const Options& options, const Served& served,
                                   const std::optional<std::string>& plan) {
  planner::PlannedService service{
      .policy = std::string(served.policy->name), .chunk = served.chunk, .in_flight = served.steps};
  if (served.samples) {
    service.samples = static_cast<std::int64_t>(served.requests.size());
    return service;
  }
  std::optional<std::string> where = plan;
  if (plan) {  // a link is written through: what counts is where the file itself is
    std::error_code fault;
    const fs::path target = fs::weakly_canonical(*plan, fault);
    if (!fault) where = target.string();
  }
  service.file = path_from(options.required("workload"), where);
  service.sha256 = served.sha256;
  service.raw_prompts = served.raw_prompts;
  service.requests = planner::lengths_of(served.requests);
  return service;
}

const planner::PlannedService* service_to_run(const Options& options,
                                              const planner::PlanFile& file) {
  if (!file.service) return nullptr;
  const planner::PlannedService& service = *file.service;
  const bool prompt = options.has("prompt") || options.has("prompt-ids");
  const bool alone = options.has("logits") || !file.plan.model.architecture().generates() ||
                     (prompt && service.samples == 0);
  if (!alone || options.has("samples") || options.has("workload")) return &service;
  const std::size_t count =
      service.samples > 0 ? static_cast<std::size_t>(service.samples) : service.requests.size();
  if (service.samples == 1 && service.chunk > 0)
    remark(options, "this run reads the prompt whole, the plan in chunks of " +
                        std::to_string(service.chunk) + "; predictions of the plan do not apply");
  else
    remark(options, "the plan was made for " + count_text(count) +
                        " together, this run is one alone; predictions of the plan do not apply");
  return nullptr;
}

bool has_prompts(const Served& served) {
  return served.samples || std::ranges::all_of(served.requests, [](const auto& request) {
           return !request.prompt_ids.empty();
         });
}

void check_runs(const Options& options, const planner::Plan& plan, const Served& served) {
  const bool planned = !served.samples && !options.has("workload");
  if (!served.samples) {
    const std::string when =
        planned ? "with the workload that the plan was made for, which says it for each request; "
                  "give '--prompt' to run one request alone"
                : "with '--workload', which says it for each request";
    options.refuse({"prompt", "prompt-ids", "new-tokens", "ignore-eos", "hidden"}, when);
    refuse_sampling(options, when);
  }
  options.refuse({"logits"}, "with many requests: it is of one text");
  planner::check_serves_many(plan);
  if (!plan.model.architecture().generates())
    throw Error("model " + plan.model.name +
                ": an encoder, expected a model that continues texts; run it text by text");
  for (const planner::InferenceRequest& request : served.requests) {
    if (request.prompt_ids.empty())
      throw Error(
          "request '" + request.id +
          "': has prompt_tokens only, expected the tokens themselves to run it; give prompt "
          "or prompt_ids in a '--workload', or '--prompt' to run one request alone");
  }
}

std::string to_text(const Served& served) {
  if (served.is_one() && served.chunk > 0 && !served.policy->budget())
    return "one request, its prompt in chunks of " + std::to_string(served.chunk);
  const std::string noun = served.samples ? " sample" : " request";
  return std::to_string(served.requests.size()) + noun +
         (served.requests.size() == 1 ? ", " : "s, ") + std::string(served.policy->name) +
         (served.chunk == 0         ? ""
          : served.policy->budget() ? ", steps of at most " + std::to_string(served.chunk) + " rows"
                                    : ", prompts in chunks of " + std::to_string(served.chunk)) +
         (served.steps > 1 ? ", " + std::to_string(served.steps) + " steps in flight" : "");
}

}  // namespace tandem::cli
