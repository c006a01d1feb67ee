#include "exec/master.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "exec/emulation/drift.hpp"
#include "exec/runtime/process_facts.hpp"
#include "exec/weights/shard_file.hpp"
#include "model/error.hpp"
#include "planner/lowering.hpp"

namespace tandem::exec {
namespace {

constexpr int kClockPings = 8;
constexpr std::int32_t kDriftEvery = 4;  // steps

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Interrupt::trip(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    if (cancel_) cancel_(reason_);
  } catch (...) {
    return;  // no memory for a short text: nothing is left to do
  }
}

void Interrupt::watch(std::function<void(const std::string&)> cancel) {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) throw Error(reason_);
  cancel_ = std::move(cancel);
}

void Interrupt::leave() noexcept {
  const std::lock_guard lock(mutex_);
  cancel_ = nullptr;
}

// One session. Devices other than the master are `peers`.
class MasterSession {
 public:
  MasterSession(const planner::Plan& plan, const SessionOptions& options, const RunOptions& run,
                Interrupt& interrupt)
      : plan_(plan),
        options_(options),
        interrupt_(interrupt),
        id_(random_session()),
        run_(run),
        graphs_(plan, run_.workload, run_.scored_rows) {
    const std::vector<bool> workers = workers_of(plan);
    for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      if (workers[static_cast<std::size_t>(d)]) peers_.push_back(d);
    }
  }

  Generation generate(const GenerateOptions& options) {
    return run([&] {
      Generation generation = execute(options);
      gather(generation, options);
      return generation;
    });
  }

  std::vector<PassageScores> score(const std::vector<Passage>& passages,
                                   const ScoreOptions& options) {
    return run([&] {
      stage("");
      std::vector<PassageScores> scores;
      for (std::size_t i = 0; i < passages.size(); ++i) {
        scores.push_back(score(static_cast<std::int32_t>(i), passages[i]));
        if (options.on_passage) options.on_passage(i + 1);
      }
      return scores;
    });
  }

 private:
  // What `body` returns, between the session's beginning and its end.
  template <class Body>
  auto run(const Body& body) -> decltype(body()) {
    connect();
    interrupt_.watch([this](const std::string& reason) { session_->cancel(reason); });
    try {
      offer();
      prepare();
      auto result = body();
      if (!peers_.empty()) control().close(Clock::now() + options_.times.close);
      interrupt_.leave();
      return result;
    } catch (const std::exception& error) {
      interrupt_.leave();
      session_->cancel(error.what());
      throw Error(session_->failure());
    }
  }

  Control& control() { return session_->control(); }
  const std::string& name(model::DeviceIndex d) const {
    return plan_.cluster.devices()[static_cast<std::size_t>(d)].name;
  }
  void stage(const std::string& text) const {
    if (options_.on_stage) options_.on_stage(text);
  }

  void connect() {
    stage("connecting");
    std::vector<ControlPeer> connections;
    const Clock::time_point deadline = Clock::now() + options_.times.connect;
    for (const model::DeviceIndex d : peers_) {
      const Endpoint& endpoint = options_.workers.at(static_cast<std::size_t>(d));
      Connection connection = connect_to(endpoint, options_.key,
                                         {.role = Role::master,
                                          .purpose = Purpose::control,
                                          .session = id_,
                                          .device = plan_.master,
                                          .peer = d,
                                          .sends = true},
                                         {.deadline = deadline, .cancellation = nullptr});
      connection.rename(name(d) + " at " + to_text(endpoint));
      connections.push_back({.device = d, .connection = std::move(connection)});
    }
    session_ = std::make_unique<Session>(std::move(connections), options_.times);
  }

  void offer() {
    check_memory(plan_, plan_.master, run_);
    const std::string text = planner::to_json(plan_);
    const std::string sha256 = planner::plan_sha256(plan_);
    std::vector<ShardFile> files;
    files.reserve(peers_.size());
    for (const model::DeviceIndex d : peers_) {
      files.push_back(make_shard(d, /*verify=*/false));
      control().send(d, PlanOffer{.sha256 = sha256,
                                  .plan = text,
                                  .options = to_json(run_),
                                  .shard_sha256 = files.back().sha256,
                                  .shard_bytes = files.back().bytes});
    }
    for (std::size_t i = 0; i < peers_.size(); ++i) answer(peers_[i], files[i]);
  }

  // `verify`: also checks what is found in the cache, whose bytes are about to be used.
  ShardFile make_shard(model::DeviceIndex d, bool verify) {
    stage("preparing the weights of " + name(d));
    const auto progress = [&](const char* what) {
      return [this, text = what + name(d)](std::uint64_t done, std::uint64_t total) {
        session_->check();
        stage(text + ": " + std::to_string(done * 100 / total) + "%");
      };
    };
    return make_shard_file(options_.weights, plan_.model, share_of(d), options_.cache_dir,
                           {.verify = verify,
                            .slicing = progress("slicing the weights of "),
                            .verifying = progress("checking the weights of "),
                            .on_damage = options_.on_warning});
  }

  DeviceWeights load_weights() {
    if (streams(graphs_, plan_.master)) {
      return open_window(plan_, plan_.master, graphs_, make_shard(plan_.master, /*verify=*/true));
    }
    stage("loading the master's weights");
    return {.shard = Shard::slice(options_.weights, plan_.model, share_of(plan_.master)),
            .window = nullptr};
  }

  void answer(model::DeviceIndex d, const ShardFile& file) {
    stage("waiting for " + name(d));
    const auto answer = control().expect<PlanAnswer>(d, session_->patience());
    switch (answer.verdict) {
      case PlanVerdict::accepted:
        break;
      case PlanVerdict::needs_shard:
        // A file that is altered must not go out; a worker that shares this cache removed it.
        if (make_shard(d, /*verify=*/!file.checked).sha256 != file.sha256) {
          throw Error("weights of " + name(d) + ": changed since they were offered; start again");
        }
        stage("sending the weights of " + name(d));
        send(d, file);
        break;
      case PlanVerdict::refused:
        throw Error(name(d) + ": " + printable(answer.reason));
    }
  }

  const model::Share& share_of(model::DeviceIndex d) const {
    return plan_.devices[static_cast<std::size_t>(d)].share;
  }

  void send(model::DeviceIndex to, const ShardFile& file) {
    control().send(to, ShardBegin{.sha256 = file.sha256, .bytes = file.bytes});
    send_shard(file, kMaxChunkBytes, [&](std::span<const std::byte> chunk) {
      control().send(to, ShardChunk{.bytes = {chunk.begin(), chunk.end()}});
    });
    control().send(to, ShardEnd{});
  }

  void prepare() {
    DeviceWeights weights = load_weights();
    session_->check();
    std::vector<std::string> addresses(plan_.cluster.devices().size());
    for (const model::DeviceIndex d : peers_) {
      addresses[static_cast<std::size_t>(d)] =
          to_text(options_.workers[static_cast<std::size_t>(d)]);
    }
    await_ready();  // to open channels
    for (const model::DeviceIndex d : peers_) control().send(d, Peers{.addresses = addresses});
    stage("opening channels");
    session_->open_channels(plan_, graphs_,
                            {.self = plan_.master,
                             .master = plan_.master,
                             .session = id_,
                             .addresses = addresses,
                             .key = options_.key,
                             .listener = nullptr,
                             .ledger = options_.ledger});
    device_run_ =
        &session_->prepare(plan_, {.self = plan_.master, .run = run_, .threads = options_.threads},
                           std::move(weights));
    own_peak_ = reset_peak_resident();
    if (run_.pace != Pace::real) device_run_->warm_up();
    await_ready();  // to execute
  }

  void await_ready() {
    for (const model::DeviceIndex d : peers_) {
      static_cast<void>(control().expect<Ready>(d, session_->patience()));
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
    if (run_.pace == Pace::measured) drift.emplace();
    stage("");
    std::vector<std::int32_t> tokens = options.prompt;
    generation.ready = Clock::now();
    for (std::int32_t i = 0; i < graphs_.count(); ++i) {
      session_->check();
      announce(i, graphs_.at(i).batch(), tokens);
      const std::int32_t token = device_run_->step(i, tokens, sample);
      if (token < 0) throw Error("plan: the master samples no token; make the plan again");
      generation.tokens.push_back(token);
      tokens.assign(1, token);
      if (options.on_token) options.on_token(token);
      if (drift && i % kDriftEvery == 0) drift->sample();
      if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) break;
    }
    if (drift) generation.drift = drift->finish();
    return generation;
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
    own.times = device_run_->times();
    for (const model::DeviceIndex d : peers_) {
      accounts[static_cast<std::size_t>(d)] = account_of(d);
    }
    generation.run = merge(plan_, graphs_, static_cast<std::int32_t>(generation.tokens.size()),
                           accounts, options.keep_spans);
    model::Result& result = generation.run.result;
    result.tokens = generation.tokens;
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
      result.environment["pacing_late_mean_s"] = std::to_string(worst_mean_s);
      result.environment["pacing_late_max_s"] = std::to_string(worst_s);
      result.environment["warm_up"] = "two single-token steps";
    }
    result.environment["clock_uncertainty_s"] = std::to_string(clock_uncertainty_s_);
    result.environment["seed"] = std::to_string(options.sampling.seed);
    result.environment["threads"] = std::to_string(options_.threads);
  }

  // The device's report, its records, and its clock by the fastest of a few exchanges.
  DeviceAccount account_of(model::DeviceIndex d) {
    DeviceAccount account;
    account.report = ask(d);
    bool last = false;
    const std::string source = "report of " + name(d);
    while (!last) {
      const auto piece = control().expect<Report>(d, session_->patience());
      if (piece.kind != ReportKind::spans) throw Error(source + ": metrics twice, expected spans");
      decode_times(piece.bytes, source, account.times);
      last = piece.last;
      if (account.times.size() > most_records() || (piece.bytes.empty() && !last)) {
        throw Error(source + ": " + std::to_string(account.times.size()) +
                    " records and no end, expected at most " + std::to_string(most_records()) +
                    "; install the same tandem on every device");
      }
    }
    if (!account.report.boot.empty() && account.report.boot == boot_id()) return account;
    std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < kClockPings; ++i) {
      const std::int64_t sent_ns = now_ns();
      const DeviceReport pong = ask(d);
      const std::int64_t back_ns = now_ns();
      if (back_ns - sent_ns >= best_ns) continue;
      best_ns = back_ns - sent_ns;
      account.clock_ahead_ns = pong.clock_ns - (sent_ns + best_ns / 2);
    }
    clock_uncertainty_s_ = std::max(clock_uncertainty_s_, static_cast<double>(best_ns) * 0.5e-9);
    return account;
  }

  // Of a run's tasks, that one device can report.
  [[nodiscard]] std::size_t most_records() const {
    return static_cast<std::size_t>(graphs_.prompt().size()) +
           static_cast<std::size_t>(graphs_.count() - 1) *
               static_cast<std::size_t>(graphs_.decode().size());
  }

  DeviceReport ask(model::DeviceIndex d) {
    control().send(d, Ready{});
    const auto report = control().expect<Report>(d, session_->patience());
    if (report.kind != ReportKind::metrics) {
      throw Error("report of " + name(d) + ": spans, expected metrics");
    }
    return parse_device_report(report.bytes, "report of " + name(d));
  }

  const planner::Plan& plan_;
  const SessionOptions& options_;
  Interrupt& interrupt_;
  SessionId id_;
  RunOptions run_;
  StepGraphs graphs_;
  std::vector<model::DeviceIndex> peers_;
  std::unique_ptr<Session> session_;
  DeviceRun* device_run_ = nullptr;  // the session's
  bool own_peak_ = false;            // the kernel lets the peak of memory begin with the session
  double clock_uncertainty_s_ = 0.0;
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
  const RunOptions run{
      .workload = {.prompt_tokens = static_cast<std::int64_t>(options.prompt.size()),
                   .new_tokens = options.new_tokens},
      .pace = options.pace};
  return MasterSession(plan, options, run, interrupt).generate(options);
}

std::vector<PassageScores> score(const planner::Plan& plan, const ScoreOptions& options,
                                 const std::vector<Passage>& passages, Interrupt& interrupt) {
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
