#include "exec/session/master.hpp"

#include <algorithm>
#include <utility>

#include "exec/emulation/drift.hpp"
#include "exec/machine/process_facts.hpp"
#include "exec/session/master_session.hpp"
#include "exec/session/report_gathering.hpp"
#include "exec/session/request_serving.hpp"
#include "exec/session/text_reading.hpp"
#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/memory/session_memory.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::exec {
namespace {

constexpr std::int32_t kDriftEvery = 4;  // steps
static_assert(planner::kMostSequences <= static_cast<std::int64_t>(kMaxSegments),
              "a step of as many sequences as a scheduler puts together can be announced");

// A generation, or many requests, in one session.
class GenerationRun {
 public:
  GenerationRun(const planner::Plan& plan, const GenerateOptions& options, const RunOptions& run,
                Interrupt& interrupt)
      : plan_(plan), options_(options), session_(plan, options, run, interrupt) {}

  Generation generate() {
    return session_.run([&] {
      Generation generation = options_.serve ? serve() : execute();
      if (run().reports()) gather(generation);
      return generation;
    });
  }

 private:
  [[nodiscard]] const RunOptions& run() const { return session_.options(); }

  void begin(Generation& generation) {
    generation.ready = Clock::now();
    if (options_.on_begin) session_.voice().with(options_.on_begin);
  }

  Generation execute() {
    Generation generation;
    generation.tokens.reserve(static_cast<std::size_t>(session_.graphs().count()));
    Sampler sampler(options_.sampling, options_.prompt, options_.grammar);
    const SampleToken sample = [&](const Scores& scores) { return sampler.sample(scores); };
    std::optional<DriftWatch> drift;
    if (run().pace == Pace::measured) drift.emplace(options_.turn.get());
    session_.voice().stage("");
    std::vector<std::int32_t> tokens = options_.prompt;
    begin(generation);
    for (std::int32_t i = 0; i < session_.graphs().count(); ++i) {
      session_.check();
      session_.announce(i, session_.graphs().at(i).batch(), tokens);
      session_.device().expect(session_.graphs().count() - i);
      const std::int32_t token = session_.device().step(i, tokens, sample);
      if (!plan_.model.architecture().generates()) {
        generation.hidden = finite_states(
            session_.device().hidden(static_cast<std::int32_t>(tokens.size())), plan_.model);
        break;
      }
      if (token < 0) throw Error("plan: the master samples no token; make the plan again");
      generation.tokens.push_back(token);
      tokens.assign(1, token);
      if (options_.on_logits)
        session_.voice().with([&] { options_.on_logits(session_.device().logits()); });
      if (options_.on_token) session_.voice().with([&] { options_.on_token(token); });
      if (drift && i % kDriftEvery == 0) drift->sample();
      if (std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end()) break;
    }
    if (drift) generation.drift = drift->finish();
    return generation;
  }

  Generation serve() {
    serving_.emplace(*options_.serve, options_.stop_tokens, run().capacity, run().dilation,
                     planner::CachePlaces(plan_));
    std::optional<DriftWatch> drift;
    if (run().pace == Pace::measured && run().reports()) drift.emplace(options_.turn.get());
    session_.voice().stage("");
    Generation generation;
    begin(generation);
    serving_->run(
        generation.ready,
        {.wait_until = [this](Clock::time_point when,
                              const std::string& what) { session_.wait_until(when, what); },
         .announce =
             [this](std::int32_t i, const model::Batch& batch,
                    const std::vector<std::int32_t>& rows) { session_.announce(i, batch, rows); },
         .execute =
             [this](std::int32_t i, const model::Batch& batch, std::span<const std::int32_t> rows,
                    const SampleToken& sample, Clock::time_point not_before) {
               session_.device().expect(serving_->steps_left());
               return session_.device().serve(i, batch, rows, sample, not_before);
             },
         .await_finish =
             [this](Clock::time_point deadline) {
               return session_.device().await_finish(deadline);
             },
         .finish =
             [this](const SampleToken& sample) {
               session_.check();
               return session_.device().finish(sample);
             },
         .await_news =
             [this] {
               session_.wait_a_moment(
                   [this](Clock::time_point until) { options_.serve->source->await(until); });
             },
         .on_token =
             [this](std::size_t request, std::int32_t token, bool last) {
               if (!options_.serve->on_token) return;
               session_.voice().with([&] { options_.serve->on_token(request, token, last); });
             },
         .after_step =
             [&](std::int32_t i) {
               if (drift && i % kDriftEvery == 0) drift->sample();
             }});
    session_.device().settle();
    if (drift) generation.drift = drift->finish();
    return generation;
  }

  void gather(Generation& generation) {
    std::vector<DeviceAccount> accounts(plan_.cluster.devices().size());
    DeviceAccount& own = accounts[static_cast<std::size_t>(plan_.master)];
    own.report = session_.device().report();
    own.times = session_.device().take_records();
    const std::unique_ptr<model::Steps> made = steps_made(generation);
    model::Steps& steps = *made;
    ReportGathering reports(session_.control(), plan_, most_records(), options_.times.report);
    session_.control().say_goodbye();
    for (const model::DeviceIndex d : session_.peers()) {
      session_.voice().stage("waiting for the report of " + session_.name(d));
      session_.activity().enter(Phase::waiting, d);
      DeviceAccount& account = accounts[static_cast<std::size_t>(d)];
      try {
        account = reports.account_of(d);
        check_report(plan_, steps, d, account, run().keep_records);
      } catch (const Error& error) {
        account = DeviceAccount();
        account.missing = true;
        session_.voice().warn(error.what(), "; the run was done, but the result lacks what only " +
                                                session_.name(d) + " knows of it");
      }
    }
    generation.run =
        merge(plan_, steps, accounts, options_.keep_spans, run().dilation, served_steps(own));
    model::Result& result = generation.run.result;
    if (options_.keep_spans) {  // whose making is the most that the master ever does
      model::MemoryUse& peak =
          result.devices.at(static_cast<std::size_t>(plan_.master)).peak_memory;
      peak.program += std::max(0.0, peak_resident_bytes() - peak.total());
    }
    result.tokens = generation.tokens;
    if (options_.serve) fill_served(accounts, generation.run);
    result.origin = origin_of(run().pace);
    double worst_mean_s = 0.0;
    double worst_s = 0.0;
    for (const DeviceAccount& account : accounts) {
      worst_mean_s = std::max(worst_mean_s, account.report.mean_late_s);
      worst_s = std::max(worst_s, account.report.max_late_s);
    }
    result.environment["peak_memory"] = session_.own_peak() ? "of the session, its weights in place"
                                                            : "since the start of the process";
    if (run().pace != Pace::real) {
      result.environment["pacing_late_mean_s"] = std::to_string(worst_mean_s / run().dilation);
      result.environment["pacing_late_max_s"] = std::to_string(worst_s / run().dilation);
      result.environment["warm_up"] = "two single-token steps";
      if (run().overhead) {
        result.environment["message_overhead_s"] =
            std::to_string(run().overhead->threads.message_s);
      }
    }
    result.environment["clock_uncertainty_s"] = std::to_string(reports.clock_uncertainty_s());
    const MasterSession::Announced& announced = session_.announced();
    result.environment["announcements"] = std::to_string(announced.messages);
    result.environment["announcement_bytes"] = std::to_string(announced.bytes);
    result.environment["announcement_cpu_s"] = std::to_string(announced.cpu_s);
    result.environment["weights_sent_bytes"] = std::to_string(session_.shipped().sent_bytes);
    for (const std::string& remark : session_.shipped().remarks) {
      std::string& told = result.environment["outdated_profiles"];
      told += (told.empty() ? "" : "; ") + remark;
    }
    if (!options_.serve) result.environment["seed"] = std::to_string(options_.sampling.seed);
    result.environment["threads"] = std::to_string(options_.threads);
    result.environment["kernels"] = kernels_text(accounts);
  }

  // The master's kernels, and which devices computed with others: "tuned; eigen on 'phone'".
  std::string kernels_text(const std::vector<DeviceAccount>& accounts) const {
    std::string text(to_string(options_.kernels));
    for (const model::DeviceIndex d : session_.peers()) {
      const DeviceAccount& account = accounts[static_cast<std::size_t>(d)];
      if (account.missing || account.report.kernels == options_.kernels) continue;
      text +=
          "; " + std::string(to_string(account.report.kernels)) + " on '" + session_.name(d) + "'";
    }
    return text;
  }

  std::unique_ptr<model::Steps> steps_made(const Generation& generation) {
    if (run().serves()) {
      return std::make_unique<planner::ScheduledSteps>(plan_, serving_->scheduled());
    }
    // An encoder's pass samples nothing.
    const std::size_t steps = generation.hidden.empty() ? generation.tokens.size() : 1;
    return std::make_unique<FirstSteps>(session_.graphs(), static_cast<std::int32_t>(steps));
  }

  // The steps that requests made, on the clock of the master's account; none of a generation.
  [[nodiscard]] std::vector<model::ServedStep> served_steps(const DeviceAccount& own) const {
    if (!serving_) return {};
    std::vector<model::ServedStep> steps = serving_->served();
    const double begin_s = serving_->since_begin(own.report.tally.origin_ns);
    for (model::ServedStep& step : steps) {
      step.step.not_before_s -= begin_s;
      step.end_s -= begin_s;
    }
    return steps;
  }

  // What the result says of requests; its trace's times are made to begin with the run.
  void fill_served(const std::vector<DeviceAccount>& accounts, RunResult& run) const {
    serving_->fill(run.result);
    const auto& own = accounts[static_cast<std::size_t>(plan_.master)].report.tally;
    const double begin_s = serving_->since_begin(own.origin_ns);
    for (model::Span& span : run.trace.spans) {
      span.start += begin_s;
      span.end += begin_s;
    }
  }

  // By device.
  [[nodiscard]] std::vector<std::size_t> most_records() const {
    std::vector<std::size_t> most;
    if (run().serves()) {
      planner::ScheduledSteps steps(plan_, serving_->scheduled());
      std::vector<double> bytes(plan_.cluster.devices().size());
      for (std::int32_t i = 0; run().keep_records && i < steps.count(); ++i) {
        const std::vector<double> more = model::record_bytes(steps.graph(i), bytes.size());
        for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] += more[d];
      }
      for (const double all : bytes)
        most.push_back(static_cast<std::size_t>(all / model::kRecordBytes));
      return most;
    }
    for (const double bytes : record_bytes(plan_, session_.graphs(), run())) {
      most.push_back(static_cast<std::size_t>(bytes / model::kRecordBytes));
    }
    return most;
  }

  const planner::Plan& plan_;
  const GenerateOptions& options_;
  MasterSession session_;
  std::optional<RequestServing> serving_;  // of a run that serves requests
};

}  // namespace

void require_logits(const planner::Plan& plan, const std::string& what) {
  if (plan.candidates == 0) return;
  throw Error("plan: devices send the best " + std::to_string(plan.candidates) +
              " of their logits of a token, but " + what +
              "; plan with '--candidates none', or '--head master'");
}

void check_candidates(const planner::Plan& plan, const GenerateOptions& options) {
  if (plan.candidates == 0) return;
  if (options.on_logits) require_logits(plan, "all logits are asked for");
  if (options.grammar) require_logits(plan, "the form of an answer needs all logits");
  const auto check = [&](const SamplingOptions& sampling, const std::string& who) {
    const std::string why = undecided_by(sampling, plan.candidates);
    if (!why.empty()) require_logits(plan, who + why);
  };
  if (!options.serve) return check(options.sampling, "sampling ");
  for (const planner::InferenceRequest& request : options.serve->requests)
    check(request.sampling, "request '" + request.id + "' ");
}

namespace {

// By the requests' numbers, as a scheduler's batches name them.
std::vector<std::int32_t> long_sequences_of(const model::Transformer& transformer,
                                            std::span<const planner::InferenceRequest> requests) {
  std::vector<std::int32_t> sequences;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (transformer.rotates_long(requests[r].positions()))
      sequences.push_back(static_cast<std::int32_t>(r));
  }
  return sequences;
}

planner::Workload workload_of(const GenerateOptions& options) {
  return {.prompt_tokens = static_cast<std::int64_t>(options.prompt.size()),
          .new_tokens = options.new_tokens};
}

// Within what the plan reserves. One request may be longer than planned, in the same chunks: every
// device checks that it has the memory.
planner::Capacity capacity_of(const planner::Plan& plan, const ServeOptions& serve) {
  planner::Capacity capacity = planner::serving_capacity(plan, serve.steps);
  if (serve.is_one)
    capacity.positions = std::max(capacity.positions,
                                  planner::least_capacity(serve.requests, serve.chunk).positions);
  return capacity;
}

}  // namespace

void check_requests(const planner::Plan& plan, const GenerateOptions& options) {
  if (!options.serve) {
    const planner::Workload workload = workload_of(options);
    workload.validate(plan.model);
    planner::check_lengths(plan, workload);
    return;
  }
  const ServeOptions& serve = *options.serve;
  planner::check_serves_many(plan);
  planner::check_capacity(serve.requests, serve.chunk, capacity_of(plan, serve));
}

Generation generate(const planner::Plan& plan, const GenerateOptions& options,
                    Interrupt& interrupt) {
  check_candidates(plan, options);
  check_requests(plan, options);
  if (options.serve) {
    // Of the largest step of a prompt; memory for it is allocated before the first request.
    const planner::Capacity capacity = capacity_of(plan, *options.serve);
    const std::int64_t rows = std::min(capacity.rows, plan.model.max_context - 1);
    const RunOptions run{.workload = {.prompt_tokens = rows, .new_tokens = 1},
                         .pace = options.pace,
                         .dilation = options.dilation,
                         .keep_records = options.keep_spans,
                         .capacity = capacity,
                         .most_steps = options.serve->source != nullptr
                                           ? 0
                                           : planner::most_steps(options.serve->requests,
                                                                 options.serve->chunk, capacity),
                         .long_sequences = long_sequences_of(plan.model, options.serve->requests)};
    return GenerationRun(plan, options, run, interrupt).generate();
  }
  const RunOptions run{.workload = workload_of(options),
                       .pace = options.pace,
                       .dilation = options.dilation,
                       .keep_records = options.keep_spans};
  return GenerationRun(plan, options, run, interrupt).generate();
}

}  // namespace tandem::exec
