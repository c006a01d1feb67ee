#include "exec/master.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "exec/emulation/drift.hpp"
#include "exec/master_voice.hpp"
#include "exec/master_weights.hpp"
#include "exec/report_gathering.hpp"
#include "exec/request_serving.hpp"
#include "exec/runtime/process_facts.hpp"
#include "exec/runtime/wait_notice.hpp"
#include "model/error.hpp"
#include "planner/graph_cache.hpp"
#include "planner/lowering.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::exec {
namespace {

constexpr std::int32_t kDriftEvery = 4;  // steps
static_assert(planner::kMostSequences <= static_cast<std::int64_t>(kMaxSegments),
              "a step of as many sequences as a scheduler puts together can be announced");

}  // namespace

// One session. Devices other than the master are `peers`.
class MasterSession {
 public:
  MasterSession(const planner::Plan& plan, const SessionOptions& options, const RunOptions& run,
                Interrupt& interrupt)
      : plan_(plan),
        options_(options),
        interrupt_(interrupt),
        voice_(options),
        id_(random_session()),
        run_(run),
        graphs_(plan, run_) {
    const std::vector<bool> workers = workers_of(plan);
    for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      if (workers[static_cast<std::size_t>(d)]) peers_.push_back(d);
    }
  }

  Generation generate(const GenerateOptions& options) {
    // While no device computes. At measured pace nothing is taken from the prediction's cost model.
    if (run_.pace == Pace::measured && options_.ledger && !peers_.empty())
      run_.overhead = measure_message_overhead(plan_.model);
    return run([&] {
      Generation generation = options.serve ? serve(options) : execute(options);
      gather(generation, options);
      return generation;
    });
  }

  std::vector<PassageScores> score(const std::vector<Passage>& passages,
                                   const ScoreOptions& options) {
    return run([&] {
      voice_.stage("");
      std::vector<PassageScores> scores;
      for (std::size_t i = 0; i < passages.size(); ++i) {
        scores.push_back(score(static_cast<std::int32_t>(i), passages[i]));
        if (options.on_passage) voice_.with([&] { options.on_passage(i + 1); });
      }
      return scores;
    });
  }

 private:
  // What `body` returns, between the session's beginning and its end.
  template <class Body>
  auto run(const Body& body) -> decltype(body()) {
    session_ = std::make_unique<Session>(options_.times);
    weights_.emplace(plan_, options_, *session_, voice_);
    try {
      interrupt_.watch([this](const std::string& reason) { session_->cancel(reason); });
      const WaitNotice notice(session_->activity(),
                              {.first = options_.times.notice,
                               .text = [this] { return waited_for(); },
                               .say = [this](const std::string& text) { voice_.notify(text); }});
      connect();
      offer();
      prepare();
      auto result = body();
      say_goodbye();
      interrupt_.leave();
      return result;
    } catch (const std::exception& error) {
      interrupt_.leave();
      session_->cancel(error.what());
      throw Error(session_->failure());
    }
  }

  // All work is done: whatever goes wrong from here takes nothing of it away.
  void say_goodbye() {
    if (peers_.empty()) return;
    try {
      control().say_goodbye();
      for (const std::string& fault : control().close(Clock::now() + options_.times.close)) {
        voice_.warn(fault);
      }
    } catch (const Error& error) {
      voice_.warn(error.what());
    }
  }

  Control& control() { return session_->control(); }
  Activity& activity() { return session_->activity(); }
  const std::string& name(model::DeviceIndex d) const {
    return plan_.cluster.devices()[static_cast<std::size_t>(d)].name;
  }

  // For a notice, on its thread: the device at the end of the chain of those that wait for another.
  std::string waited_for() {
    const auto names = [this](model::DeviceIndex d) {
      return d >= 0 && d < plan_.cluster.size() ? name(d) : "a device";
    };
    const Heartbeat own = activity().read();
    model::DeviceIndex d = own.subject;
    if (!connected_ || std::ranges::find(peers_, d) == peers_.end()) {
      return name(plan_.master) + " " + describe(own, names);
    }
    PeerState state = control().state_of(d);
    for (std::size_t hops = 0; hops < peers_.size(); ++hops) {
      const model::DeviceIndex next = state.activity.subject;
      if (next == d || std::ranges::find(peers_, next) == peers_.end()) break;
      d = next;
      state = control().state_of(d);
    }
    const Clock::duration still = Clock::now() - state.moved;
    return "waiting for " + state.name + ", which " + describe(state.activity, names) +
           (still < options_.times.notice
                ? ""
                : ", and has not got on for " +
                      std::to_string(
                          std::chrono::duration_cast<std::chrono::seconds>(still).count()) +
                      " s");
  }

  void connect() {
    if (peers_.empty()) return;
    voice_.stage("connecting");
    std::vector<Dial> dials;
    for (const model::DeviceIndex d : peers_) {
      dials.push_back({.endpoint = options_.workers.at(static_cast<std::size_t>(d)),
                       .hello = {.role = Role::master,
                                 .purpose = Purpose::control,
                                 .session = id_,
                                 .device = plan_.master,
                                 .peer = d,
                                 .sends = true}});
    }
    // Each is kept alive from when it has answered, however late the others are.
    connect_all(
        dials, options_.key,
        {.deadline = Clock::now() + options_.times.connect,
         .cancellation = &session_->cancellation()},
        [this](model::DeviceIndex d) { return name(d); },
        [&](std::size_t i, Connection connection) {
          control().add({.device = peers_[i], .connection = std::move(connection)});
        });
    connected_ = true;
  }

  void offer() {
    std::vector<model::DeviceIndex> here{plan_.master};
    if (options_.one_machine) here.insert(here.end(), peers_.begin(), peers_.end());
    check_memory(plan_, here, run_);
    check_record_memory(plan_, graphs_, here, run_);
    weights_->offer(peers_, {.sha256 = planner::plan_sha256(plan_),
                             .plan = planner::to_json(plan_),
                             .options = to_json(run_)});
  }

  const model::Share& share_of(model::DeviceIndex d) const {
    return plan_.devices[static_cast<std::size_t>(d)].share;
  }

  void prepare() {
    DeviceWeights weights = weights_->load(graphs_);
    weights_->finish();
    std::vector<std::string> addresses(plan_.cluster.devices().size());
    for (const model::DeviceIndex d : peers_) {
      addresses[static_cast<std::size_t>(d)] =
          to_text(options_.workers[static_cast<std::size_t>(d)]);
    }
    await_ready();  // to open channels
    for (const model::DeviceIndex d : peers_) control().send(d, Peers{.addresses = addresses});
    voice_.stage("opening channels");
    activity().enter(Phase::opening);
    session_->open_channels(plan_, graphs_,
                            {.self = plan_.master,
                             .master = plan_.master,
                             .session = id_,
                             .addresses = addresses,
                             .key = options_.key,
                             .reception = nullptr,
                             .ledger = options_.ledger,
                             .dilation = run_.dilation,
                             .overhead = run_.overhead});
    device_run_ = &session_->prepare(plan_,
                                     {.self = plan_.master,
                                      .run = run_,
                                      .threads = options_.threads,
                                      .turn = options_.turn.get()},
                                     std::move(weights));
    own_peak_ = reset_peak_resident();
    activity().enter(Phase::warming_up);
    if (run_.pace != Pace::real) device_run_->warm_up();
    await_ready();  // to execute
  }

  void await_ready() {
    for (const model::DeviceIndex d : peers_) {
      voice_.stage("waiting for " + name(d));
      activity().enter(Phase::waiting, d);
      static_cast<void>(control().expect<Ready>(d));
    }
  }

  Generation execute(const GenerateOptions& options) {
    Generation generation;
    generation.tokens.reserve(static_cast<std::size_t>(graphs_.count()));
    Sampler sampler(options.sampling);
    const SampleToken sample = [&](std::span<const float> logits) {
      return sampler.sample(logits);
    };
    std::optional<DriftWatch> drift;
    if (run_.pace == Pace::measured) drift.emplace(options_.turn.get());
    voice_.stage("");
    std::vector<std::int32_t> tokens = options.prompt;
    generation.ready = Clock::now();
    for (std::int32_t i = 0; i < graphs_.count(); ++i) {
      session_->check();
      announce(i, graphs_.at(i).batch(), tokens);
      const std::int32_t token = device_run_->step(i, tokens, sample);
      if (!plan_.model.architecture().generates()) {
        generation.hidden = device_run_->hidden();
        break;
      }
      if (token < 0) throw Error("plan: the master samples no token; make the plan again");
      generation.tokens.push_back(token);
      tokens.assign(1, token);
      if (options.on_token) voice_.with([&] { options.on_token(token); });
      if (drift && i % kDriftEvery == 0) drift->sample();
      if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) break;
    }
    if (drift) generation.drift = drift->finish();
    return generation;
  }

  Generation serve(const GenerateOptions& options) {
    serving_.emplace(*options.serve, options.stop_tokens, run_.capacity, run_.dilation);
    std::optional<DriftWatch> drift;
    if (run_.pace == Pace::measured) drift.emplace(options_.turn.get());
    voice_.stage("");
    Generation generation;
    generation.ready = Clock::now();
    serving_->run(
        generation.ready,
        {.wait_until = [this](Clock::time_point when) { wait_until(when); },
         .announce = [this](std::int32_t i, const model::Batch& batch,
                            const std::vector<std::int32_t>& rows) { announce(i, batch, rows); },
         .execute =
             [this](std::int32_t i, const model::Batch& batch, std::span<const std::int32_t> rows,
                    const SampleToken& sample, Clock::time_point not_before) {
               return device_run_->serve(i, batch, rows, sample, not_before);
             },
         .await_finish =
             [this](Clock::time_point deadline) { return device_run_->await_finish(deadline); },
         .finish =
             [this](const SampleToken& sample) {
               session_->check();
               return device_run_->finish(sample);
             },
         .on_token =
             [&](std::size_t request, std::int32_t token, bool last) {
               if (!options.serve->on_token) return;
               voice_.with([&] { options.serve->on_token(request, token, last); });
             },
         .after_step =
             [&](std::int32_t i) {
               if (drift && i % kDriftEvery == 0) drift->sample();
             }});
    device_run_->settle();
    if (drift) generation.drift = drift->finish();
    return generation;
  }

  // In pieces, so that a failure elsewhere ends it.
  void wait_until(Clock::time_point when) {
    constexpr std::chrono::milliseconds kPiece{50};
    session_->check();
    while (Clock::now() < when) {
      activity().enter(Phase::waiting, plan_.master);
      std::this_thread::sleep_until(std::min(when, Clock::now() + kPiece));
      session_->check();
    }
  }

  PassageScores score(std::int32_t i, const Passage& passage) {
    session_->check();
    const std::vector<std::int32_t> rows(passage.tokens.begin(), passage.tokens.end() - 1);
    const model::Batch batch =
        planner::scored_batch(static_cast<std::int32_t>(rows.size()), passage.scored);
    announce(i, batch, rows);
    PassageScores scores;
    auto expected = passage.tokens.end() - passage.scored;
    device_run_->score(i, batch, rows, [&](std::span<const float> logits) {
      require(expected != passage.tokens.end(), "as many rows are sampled as asked for");
      scores.push_back(score_token(logits, *expected));
      return *expected++;
    });
    require(expected == passage.tokens.end(), "as many rows are sampled as asked for");
    return scores;
  }

  void announce(std::int32_t i, const model::Batch& batch,
                const std::vector<std::int32_t>& tokens) {
    for (const model::DeviceIndex d : peers_) {
      control().send(
          d, StepBegin{.step = i,
                       .batch = batch,
                       .tokens = share_of(d).embedding ? tokens : std::vector<std::int32_t>{}});
    }
  }

  void gather(Generation& generation, const GenerateOptions& options) {
    std::vector<DeviceAccount> accounts(plan_.cluster.devices().size());
    DeviceAccount& own = accounts[static_cast<std::size_t>(plan_.master)];
    own.report = device_run_->report();
    own.times = device_run_->take_records();
    const std::unique_ptr<model::Steps> made = steps_made(generation);
    model::Steps& steps = *made;
    ReportGathering reports(control(), plan_, most_records(), options_.times.report);
    control().say_goodbye();
    for (const model::DeviceIndex d : peers_) {
      voice_.stage("waiting for the report of " + name(d));
      activity().enter(Phase::waiting, d);
      DeviceAccount& account = accounts[static_cast<std::size_t>(d)];
      try {
        account = reports.account_of(d);
        check_report(plan_, steps, d, account, run_.keep_records);
      } catch (const Error& error) {
        account = DeviceAccount();
        account.missing = true;
        voice_.warn(error.what(), "; the run was done, but the result lacks what only " + name(d) +
                                      " knows of it");
      }
    }
    generation.run = merge(plan_, steps, accounts, options.keep_spans, run_.dilation);
    model::Result& result = generation.run.result;
    result.tokens = generation.tokens;
    if (options.serve) fill_served(accounts, generation.run);
    if (run_.pace != Pace::real) result.pace = std::string(to_string(run_.pace));
    double worst_mean_s = 0.0;
    double worst_s = 0.0;
    for (const DeviceAccount& account : accounts) {
      worst_mean_s = std::max(worst_mean_s, account.report.mean_late_s);
      worst_s = std::max(worst_s, account.report.max_late_s);
    }
    result.environment["peak_memory"] =
        own_peak_ ? "of the session, its weights in place" : "since the start of the process";
    if (run_.pace != Pace::real) {
      result.environment["pacing_late_mean_s"] = std::to_string(worst_mean_s / run_.dilation);
      result.environment["pacing_late_max_s"] = std::to_string(worst_s / run_.dilation);
      result.environment["warm_up"] = "two single-token steps";
      if (run_.overhead) {
        result.environment["message_overhead_s"] = std::to_string(run_.overhead->threads.message_s);
      }
    }
    result.environment["clock_uncertainty_s"] = std::to_string(reports.clock_uncertainty_s());
    result.environment["weights_sent_bytes"] = std::to_string(weights_->shipped().sent_bytes);
    if (!options.serve) result.environment["seed"] = std::to_string(options.sampling.seed);
    result.environment["threads"] = std::to_string(options_.threads);
  }

  std::unique_ptr<model::Steps> steps_made(const Generation& generation) {
    if (run_.serves()) {
      return std::make_unique<planner::ScheduledSteps>(plan_, serving_->scheduled());
    }
    // An encoder's pass samples nothing.
    const std::size_t steps = generation.hidden.empty() ? generation.tokens.size() : 1;
    return std::make_unique<FirstSteps>(graphs_, static_cast<std::int32_t>(steps));
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
    if (run_.serves()) {
      planner::ScheduledSteps steps(plan_, serving_->scheduled());
      std::vector<double> bytes(plan_.cluster.devices().size());
      for (std::int32_t i = 0; run_.keep_records && i < steps.count(); ++i) {
        const std::vector<double> more = model::record_bytes(steps.graph(i), bytes.size());
        for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] += more[d];
      }
      for (const double all : bytes)
        most.push_back(static_cast<std::size_t>(all / model::kRecordBytes));
      return most;
    }
    for (const double bytes : record_bytes(plan_, graphs_, run_)) {
      most.push_back(static_cast<std::size_t>(bytes / model::kRecordBytes));
    }
    return most;
  }

  const planner::Plan& plan_;
  const SessionOptions& options_;
  Interrupt& interrupt_;
  MasterVoice voice_;
  SessionId id_;
  RunOptions run_;
  StepGraphs graphs_;
  std::vector<model::DeviceIndex> peers_;
  std::unique_ptr<Session> session_;
  std::optional<MasterWeights> weights_;  // of the session
  std::atomic<bool> connected_ = false;
  DeviceRun* device_run_ = nullptr;        // the session's
  std::optional<RequestServing> serving_;  // of a run that serves requests
  bool own_peak_ = false;  // the kernel lets the peak of memory begin with the session
};

std::vector<bool> workers_of(const planner::Plan& plan) {
  const StepGraphs graphs(plan, plan.workload);
  std::vector<bool> workers;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    const bool talks =
        !channels_of(graphs.prompt(), d).empty() || !channels_of(graphs.decode(), d).empty();
    workers.push_back(talks && d != plan.master);
  }
  return workers;
}

Generation generate(const planner::Plan& plan, const GenerateOptions& options,
                    Interrupt& interrupt) {
  if (options.serve) {
    // Of the largest step of a prompt; room is made for it before the first request.
    const planner::Capacity capacity = planner::serving_capacity(plan, options.serve->steps);
    const std::int64_t rows = std::min(capacity.rows, plan.model.max_context - 1);
    const RunOptions run{.workload = {.prompt_tokens = rows, .new_tokens = 1},
                         .pace = options.pace,
                         .dilation = options.dilation,
                         .keep_records = options.keep_spans,
                         .capacity = capacity};
    return MasterSession(plan, options, run, interrupt).generate(options);
  }
  const RunOptions run{
      .workload = {.prompt_tokens = static_cast<std::int64_t>(options.prompt.size()),
                   .new_tokens = options.new_tokens},
      .pace = options.pace,
      .dilation = options.dilation,
      .keep_records = options.keep_spans};
  return MasterSession(plan, options, run, interrupt).generate(options);
}

std::vector<PassageScores> score(const planner::Plan& plan, const ScoreOptions& options,
                                 const std::vector<Passage>& passages, Interrupt& interrupt) {
  if (!plan.model.architecture().generates()) {
    throw Error("model " + plan.model.name +
                ": an encoder, expected a model that continues texts; its hidden states come from "
                "'tandem run --hidden'");
  }
  std::size_t longest = 0;
  std::int32_t most_scored = 0;
  for (const Passage& passage : passages) {
    const std::size_t tokens = passage.tokens.size();
    if (passage.scored < 1 || static_cast<std::size_t>(passage.scored) >= tokens) {
      throw Error("passage of " + std::to_string(tokens) +
                  " tokens: " + std::to_string(passage.scored) +
                  " scored, expected at least 1, and a token before them; lengthen it");
    }
    for (const std::int32_t token : passage.tokens) {
      if (0 <= token && token < plan.model.vocab) continue;
      throw Error("token " + std::to_string(token) + ": expected 0 to " +
                  std::to_string(plan.model.vocab - 1) +
                  ", the model's vocabulary; use the model's own tokenizer");
    }
    longest = std::max(longest, tokens);
    most_scored = std::max(most_scored, passage.scored);
  }
  if (passages.empty()) return {};
  const RunOptions run{
      .workload = {.prompt_tokens = static_cast<std::int64_t>(longest) - 1, .new_tokens = 1},
      .scored_rows = most_scored};
  return MasterSession(plan, options, run, interrupt).score(passages, options);
}

}  // namespace tandem::exec
