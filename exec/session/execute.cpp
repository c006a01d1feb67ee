#include "exec/session/execute.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "exec/kernels/integer_choice.hpp"
#include "exec/kernels/kernel_table.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/session/emulated_devices.hpp"
#include "exec/session/open_files.hpp"
#include "exec/session/run_weights.hpp"
#include "exec/session/text_reading.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "planner/plan/outdated_profiles.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::exec {
namespace {

std::string machine() {
  utsname names{};
  uname(&names);
  return std::string(names.sysname) + " " + names.release + " " + names.machine + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " cores";
}

std::vector<std::int32_t> prompt_ids(const ExecuteOptions& options, const Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&options.prompt)) return *ids;
  return tokenizer.encode(std::get<std::string>(options.prompt));
}

void check_devices(const planner::Plan& plan, const ExecuteOptions& options) {
  if (!std::holds_alternative<std::monostate>(options.devices)) return;
  const std::vector<bool> workers = workers_of(plan);
  const auto others = std::count(workers.begin(), workers.end(), true);
  if (others == 0) return;
  throw Error("plan: " + std::to_string(others + 1) +
              " working devices, expected the master alone; say where the others are");
}

// Tells the text of one request or of many as it becomes known, and keeps it.
class Texts {
 public:
  Texts(const ExecuteOptions& options, const Tokenizer& tokenizer)
      : options_(options),
        tokenizer_(tokenizer),
        decoder_(tokenizer),
        texts_(options.serve ? options.serve->requests.size() : 1),
        tokens_(options.serve ? options.serve->requests.size() : 0) {}

  void token(const std::vector<std::int32_t>& prompt, std::int32_t token, double at_s) {
    tell_one(prompt, token);
    if (options_.on_token) options_.on_token({.at_s = at_s});
  }

  // Texts of many requests come one by one, each when its request has ended.
  void token(std::int32_t token, const TokenMoment& moment) {
    const std::size_t request = moment.request;
    tokens_[request].push_back(token);
    if (options_.on_token) options_.on_token(moment);
    if (options_.serve->is_one) return tell_one(options_.serve->requests[0].prompt_ids, token);
    if (!moment.is_last) return;
    StreamingDecoder decoder(tokenizer_);
    std::string text;
    for (const std::int32_t id : options_.serve->requests[request].prompt_ids)
      text += decoder.push(id);
    for (const std::int32_t id : tokens_[request]) text += decoder.push(id);
    tell(request, text + decoder.finish());
  }

  std::vector<std::string> finish() {
    if (!options_.serve || options_.serve->is_one) tell(0, decoder_.finish());
    return std::move(texts_);
  }

 private:
  // A token of one request, the first with its prompt.
  void tell_one(const std::vector<std::int32_t>& prompt, std::int32_t token) {
    std::string text;
    if (!any_) {
      for (const std::int32_t id : prompt) text += decoder_.push(id);
    }
    any_ = true;
    tell(0, text + decoder_.push(token));
  }

  void tell(std::size_t request, const std::string& text) {
    texts_[request] += text;
    const bool whole = options_.serve && !options_.serve->is_one;
    if (options_.on_text && (whole || !text.empty())) options_.on_text(request, text);
  }

  const ExecuteOptions& options_;
  const Tokenizer& tokenizer_;
  StreamingDecoder decoder_;
  bool any_ = false;
  std::vector<std::string> texts_;
  std::vector<std::vector<std::int32_t>> tokens_;  // of many requests
};

GenerateOptions generate_options(const planner::Plan& plan, const ExecuteOptions& options,
                                 const Tokenizer& tokenizer) {
  GenerateOptions run;
  run.weights = options.weights;
  run.cache_dir = options.cache_dir.empty() ? default_cache_dir() : options.cache_dir;
  run.cache_bytes = options.cache_bytes;
  run.verify = options.verify;
  if (!std::holds_alternative<EmulatedOn>(options.devices)) run.place = options.place;
  run.threads = options.threads;
  run.kernels = options.kernels;
  run.keep_spans = options.timeline;
  run.on_stage = options.on_stage;
  run.on_warning = options.on_warning;
  run.on_notice = options.on_notice;
  run.watch = options.watch;
  run.on_logits = options.on_logits;
  run.serve = options.serve;
  run.grammar = options.grammar;
  if (run.serve) run.serve->grammar = options.grammar;
  if (!options.serve) {
    run.prompt = prompt_ids(options, tokenizer);
    run.new_tokens = options.new_tokens.value_or(plan.workload.new_tokens);
    run.sampling = options.sampling;
  }
  if (!options.ignore_eos) run.stop_tokens = stop_tokens(plan, tokenizer);
  if (const auto* remote = std::get_if<RemoteAt>(&options.devices)) {
    run.workers = remote->workers;
    run.key = remote->key;
    if (const auto& testbed = remote->testbed) {
      run.pace = Pace::measured;
      run.dilation = testbed->dilation;
      run.turn = testbed->turn;
      run.one_machine = true;
    }
  }
  return run;
}

// Null: the other devices are not in namespaces of this machine.
const TestbedRun* testbed_of(const ExecuteOptions& options) {
  const auto* const remote = std::get_if<RemoteAt>(&options.devices);
  return remote != nullptr && remote->testbed ? &*remote->testbed : nullptr;
}

// Of the profiles of devices that are this machine: emulated ones, or the master. Remote workers
// remark on theirs.
std::string outdated_remark(const planner::Plan& plan, const ExecuteOptions& options) {
  std::optional<model::DeviceIndex> only = plan.master;
  if (std::holds_alternative<EmulatedOn>(options.devices)) only.reset();
  return planner::outdated_remark(plan, {kernels_here(options.kernels)}, only);
}

std::string threads_remark(const planner::Plan& plan, const ExecuteOptions& options) {
  const auto* const emulated = std::get_if<EmulatedOn>(&options.devices);
  // Tasks then take what the profiles say, whatever computes them.
  if (emulated != nullptr && emulated->pace == Pace::nominal) return "";
  // Emulated devices but the master have one (exec/emulation/local_cluster.cpp).
  std::vector<int> threads(plan.devices.size(), emulated != nullptr ? 1 : 0);
  threads[static_cast<std::size_t>(plan.master)] = options.threads;
  return planner::threads_remark(plan, threads);
}

// How the run was done, beside what the session knows.
void describe(const planner::Plan& plan, const ExecuteOptions& options, const GenerateOptions& run,
              const EmulatedDevices* emulated, Execution& done) {
  auto& environment = done.result.environment;
  environment["machine"] = machine();
  if (std::string processor = processor_here(); !processor.empty())
    environment["processor"] = std::move(processor);
  environment["instruction_sets"] = kernels_of(options.kernels).instruction_sets();
  const bool tuned = options.kernels == KernelSet::tuned;
  if (std::string chosen = kernel_choice(); tuned && !chosen.empty())
    environment["integer_kernels"] = std::move(chosen);
  if (run.serve) {
    environment["policy"] = run.serve->policy->name;
    if (run.serve->shares_prefixes) environment["prefix_cache"] = "on";
    if (run.serve->chunk > 0) environment["chunk"] = std::to_string(run.serve->chunk);
    const std::int64_t steps = planner::serving_capacity(plan, run.serve->steps).steps;
    if (steps > 1) environment["in_flight"] = std::to_string(steps);
  } else {
    environment["prompt_tokens"] = std::to_string(run.prompt.size());
    model::set_only_request(done.result);
  }
  if (plan.model.architecture().generates() && !run.serve) {
    for (const planner::SamplingNumber& number : planner::sampling_numbers()) {
      const double x = run.sampling.*number.value;
      const bool always = number.name == "temperature" || number.name == "top_p";
      if (always || x != SamplingOptions().*number.value)
        environment[std::string(number.name)] = std::to_string(x);
    }
    if (run.sampling.top_k > 0) environment["top_k"] = std::to_string(run.sampling.top_k);
  }
  if (run.grammar) environment["answer"] = "of a JSON schema";
  if (emulated != nullptr) {
    emulated->describe(done.result);
  } else if (const auto* remote = std::get_if<RemoteAt>(&options.devices)) {
    environment["transport"] = remote->key ? "TCP, TLS 1.3" : "TCP, not encrypted";
    if (const auto& testbed = remote->testbed) {
      done.result.origin = model::ResultOrigin::measured_testbed;
      environment.insert(testbed->environment.begin(), testbed->environment.end());
    }
  } else {
    environment["transport"] = "none";
  }
  if (run.pace == Pace::measured) environment["drift"] = model::fixed(done.drift, 4);
}

}  // namespace

std::vector<std::int64_t> stop_tokens(const planner::Plan& plan, const Tokenizer& tokenizer) {
  std::vector<std::int64_t> stops = plan.model.eos_tokens;
  const auto more = tokenizer.eos_tokens();
  stops.insert(stops.end(), more.begin(), more.end());
  return stops;
}

namespace {

// What precedes a run.
class Preparation {
 public:
  Preparation(const planner::Plan& plan, const ExecuteOptions& options) : options_(options) {
    check_devices(plan, options);
    if (options.tokenizer == nullptr) own_ = load_tokenizer(options.weights, plan.model);
    run = generate_options(plan, options, tokenizer());
    check_candidates(plan, run);
    check_requests(plan, run);
    outdated = outdated_remark(plan, options);
    if (!outdated.empty() && run.on_warning) run.on_warning(outdated);
    threads = threads_remark(plan, options);
    if (!threads.empty() && run.on_warning) run.on_warning(threads);
    // Before the processes of emulated devices begin, which then find it.
    if (run.kernels == KernelSet::tuned) choose_integer_kernels(run.cache_dir);
    if (testbed_of(options) != nullptr) check_open_files(plan, run.weights, /*one_machine=*/true);
    if (const auto* on = std::get_if<EmulatedOn>(&options.devices)) {
      emulated.emplace(plan, on->pace, on->dilation);
      if (options.on_stage) options.on_stage("starting the emulated devices");
      emulated->start(on->program, run);
    }
  }
  [[nodiscard]] const Tokenizer& tokenizer() const { return own_ ? *own_ : *options_.tokenizer; }
  [[nodiscard]] Interrupt& interrupt() {
    return options_.interrupt != nullptr ? *options_.interrupt : none_;
  }

  GenerateOptions run;
  std::string outdated;  // remarks
  std::string threads;
  std::optional<EmulatedDevices> emulated;

 private:
  const ExecuteOptions& options_;
  std::unique_ptr<Tokenizer> own_;
  Interrupt none_;
};

}  // namespace

void serve_requests(const planner::Plan& plan, const ExecuteOptions& options,
                    const std::function<void()>& on_ready) {
  require(options.serve && options.serve->source != nullptr, "serve_requests: a source");
  if (!plan.model.architecture().generates())
    throw Error(
        "model " + plan.model.name +
        ": an encoder, expected a model that continues texts; serve_texts() is for encoders");
  Preparation ready(plan, options);
  ready.run.on_begin = on_ready;
  static_cast<void>(generate(plan, ready.run, ready.interrupt()));
  if (ready.emulated) ready.emulated->finish();
}

void serve_texts(const planner::Plan& plan, const ExecuteOptions& options, TextSource& source,
                 std::int64_t most_tokens, const std::function<void()>& on_ready) {
  require(!plan.model.architecture().generates(), "serve_texts: an encoder");
  ExecuteOptions longest = options;
  longest.serve.reset();
  longest.prompt = std::vector<std::int32_t>(static_cast<std::size_t>(most_tokens));
  longest.new_tokens = 0;
  Preparation ready(plan, longest);
  ready.run.on_begin = on_ready;
  read_texts(plan, ready.run, source, ready.interrupt());
  if (ready.emulated) ready.emulated->finish();
}

Execution execute(const planner::Plan& plan, const ExecuteOptions& options) {
  const Clock::time_point start = Clock::now();
  Preparation ready(plan, options);
  std::optional<RunWeights> weights;
  if (options.digest_weights) weights.emplace(options.weights, plan.model);
  GenerateOptions& run = ready.run;
  Texts texts(options, ready.tokenizer());
  Clock::time_point begin = start;
  run.on_begin = [&] { begin = Clock::now(); };
  const auto passed_s = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count() / run.dilation;
  };
  run.on_token = [&](std::int32_t token) { texts.token(run.prompt, token, passed_s()); };
  if (run.serve) {
    run.serve->on_token = [&](std::size_t request, std::int32_t token, bool last) {
      texts.token(token, {.request = request, .is_last = last, .at_s = passed_s()});
      if (options.serve->on_token) options.serve->on_token(request, token, last);
    };
  }
  Generation generation = generate(plan, run, ready.interrupt());
  Execution done{.tokens = std::move(generation.tokens),
                 .texts = texts.finish(),
                 .hidden = std::move(generation.hidden),
                 .prompt_tokens = static_cast<std::int64_t>(run.prompt.size()),
                 .result = std::move(generation.run.result),
                 .trace = std::move(generation.run.trace),
                 .drift = generation.drift,
                 .ready = generation.ready};
  if (ready.emulated) ready.emulated->finish();
  done.result.metrics.ready_s = std::chrono::duration<double>(done.ready - start).count();
  describe(plan, options, run, ready.emulated ? &*ready.emulated : nullptr, done);
  if (weights) {
    if (options.on_stage) options.on_stage("hashing the weights for the result");
    done.result.weights_sha256 = weights->digest(
        {.notes = run.cache_dir / "seen", .believe = !options.verify, .threads = options.threads},
        ready.interrupt(), options.on_warning);
    if (options.on_stage) options.on_stage("");
  }
  if (!ready.threads.empty()) done.result.environment["profile_threads"] = ready.threads;
  if (!ready.outdated.empty()) {
    std::string& told = done.result.environment["outdated_profiles"];
    told = ready.outdated + (told.empty() ? "" : "; " + told);
  }
  return done;
}

}  // namespace tandem::exec
