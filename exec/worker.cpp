#include "exec/worker.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "exec/runtime/process_facts.hpp"
#include "exec/weights/shard_file.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

// One master's session. `plan_` is checked before anything is allocated for it.
class WorkerSession {
 public:
  WorkerSession(Incoming incoming, Listener& listener, const WorkerOptions& options)
      : options_(options), listener_(listener), hello_(incoming.hello) {
    std::vector<ControlPeer> peers;
    peers.push_back({.device = hello_.device, .connection = std::move(incoming.connection)});
    session_ = std::make_unique<Session>(std::move(peers), options.times);
  }

  void run() {
    try {
      accept_plan();
      prepare();
      execute();
    } catch (const std::exception& error) {
      session_->cancel(error.what());
      throw Error(session_->failure());
    }
  }

 private:
  void remark(const std::string& line) const {
    if (options_.verbose && options_.log) options_.log(line);
  }
  Control& control() { return session_->control(); }

  void accept_plan() {
    auto offer = control().expect<PlanOffer>(hello_.device, session_->patience());
    try {
      check(offer);
    } catch (const Error& error) {
      control().send(hello_.device,
                     PlanAnswer{.verdict = PlanVerdict::refused, .reason = error.what()});
      throw;
    }
    obtain_shard(offer);
  }

  void check(const PlanOffer& offer) {
    plan_ = std::make_unique<planner::Plan>(planner::parse_plan_json(offer.plan, "offered plan"));
    const std::string sha256 = planner::plan_sha256(*plan_);
    if (sha256 != offer.sha256) {
      throw Error("offered plan: digest " + sha256.substr(0, 12) + ", announced as " +
                  printable(offer.sha256, 12) + "; install the same tandem on every device");
    }
    self_ = hello_.peer;
    if (self_ < 0 || self_ >= plan_->cluster.size() || self_ == plan_->master ||
        hello_.device != plan_->master) {
      throw Error("offered plan: session between master " + std::to_string(hello_.device) +
                  " and device " + std::to_string(self_) + ", but the plan has master " +
                  std::to_string(plan_->master) + " and " + std::to_string(plan_->cluster.size()) +
                  " devices");
    }
    run_ = parse_run_options(offer.options, "offered run");
    run_.workload.validate(plan_->model);
    check_memory(*plan_, self_, run_);
    const std::uint64_t bytes = Shard::file_bytes(plan_->model, device().share);
    if (offer.shard_bytes != bytes) {
      throw Error("offered shard: " + std::to_string(offer.shard_bytes) + " bytes, expected " +
                  std::to_string(bytes) +
                  " for this share; install the same tandem on every device");
    }
    graphs_ = std::make_unique<StepGraphs>(*plan_, run_.workload, run_.scored_rows);
  }

  const planner::DevicePlan& device() const {
    return plan_->devices[static_cast<std::size_t>(self_)];
  }

  void obtain_shard(const PlanOffer& offer) {
    std::optional<ShardFile> file = find_shard(options_.cache_dir, offer.shard_sha256);
    const bool known = file.has_value();
    if (known) {
      control().send(hello_.device, PlanAnswer{.verdict = PlanVerdict::accepted, .reason = {}});
    } else {
      ShardReceiver receiver(options_.cache_dir, offer.shard_sha256, offer.shard_bytes);
      control().send(hello_.device, PlanAnswer{.verdict = PlanVerdict::needs_shard, .reason = {}});
      file = receive_shard(offer, receiver);
    }
    remark("weights " + offer.shard_sha256.substr(0, 12) +
           (known ? " are in the cache" : " received"));
    shard_file_ = *file;
  }

  ShardFile receive_shard(const PlanOffer& offer, ShardReceiver& receiver) {
    const auto begin = control().expect<ShardBegin>(hello_.device, session_->patience());
    if (begin.sha256 != offer.shard_sha256 || begin.bytes != offer.shard_bytes) {
      throw Error("shard: announced as " + printable(begin.sha256, 12) + " of " +
                  std::to_string(begin.bytes) + " bytes, offered as " +
                  printable(offer.shard_sha256, 12) + " of " + std::to_string(offer.shard_bytes));
    }
    while (receiver.received() < offer.shard_bytes) {
      receiver.append(control().expect<ShardChunk>(hello_.device, session_->patience()).bytes);
    }
    static_cast<void>(control().expect<ShardEnd>(hello_.device, session_->patience()));
    return receiver.finish();
  }

  void prepare() {
    // Its digest was checked when it was found, or received.
    DeviceWeights weights =
        streams(*graphs_, self_)
            ? open_window(*plan_, self_, *graphs_, shard_file_)
            : DeviceWeights{.shard = Shard::read(shard_file_.path, plan_->model, device().share),
                            .window = nullptr};
    control().send(hello_.device, Ready{});  // to open channels
    const auto peers = control().expect<Peers>(hello_.device, session_->patience());
    if (peers.addresses.size() != plan_->cluster.devices().size()) {
      throw Error("master: " + std::to_string(peers.addresses.size()) + " addresses, expected " +
                  std::to_string(plan_->cluster.size()) +
                  "; install the same tandem on every device");
    }
    std::shared_ptr<Ledger> ledger;
    if (options_.ledger_fd >= 0) {
      ledger = std::make_shared<Ledger>(plan_->cluster, options_.ledger_fd);
    }
    session_->open_channels(*plan_, *graphs_,
                            {.self = self_,
                             .master = plan_->master,
                             .session = hello_.session,
                             .addresses = peers.addresses,
                             .key = options_.key,
                             .listener = &listener_,
                             .ledger = std::move(ledger)});
    device_run_ = &session_->prepare(
        *plan_, {.self = self_, .run = run_, .threads = options_.threads}, std::move(weights));
    graphs_.reset();
    reset_peak_resident();
    if (run_.pace != Pace::real) device_run_->warm_up();
    control().send(hello_.device, Ready{});  // to execute
  }

  // Steps as they are announced; then a report for each Ready, until Goodbye.
  void execute() {
    std::int32_t next = 0;
    bool told_times = false;
    while (true) {
      const Message message = control().receive(hello_.device, session_->patience());
      if (const auto* begin = std::get_if<StepBegin>(&message)) {
        step(*begin, next++);
      } else if (std::holds_alternative<Ready>(message)) {
        control().send(hello_.device, Report{.kind = ReportKind::metrics,
                                             .last = true,
                                             .bytes = to_json(device_run_->report())});
        if (!told_times) send_times();
        told_times = true;
      } else if (std::holds_alternative<Goodbye>(message)) {
        control().close(Clock::now() + options_.times.close);
        return;
      } else {
        throw Error("master: sent " + std::string(name_of(message)) +
                    ", expected StepBegin, Ready or Goodbye; install the same tandem on every "
                    "device");
      }
    }
  }

  void step(const StepBegin& begin, std::int32_t next) {
    const SampleToken sample = [](std::span<const float>) -> std::int32_t {
      throw Error("plan: samples on a worker, expected on the master only");
    };
    if (run_.scored_rows > 0 && begin.step == next) {
      device_run_->score(next, begin.batch, begin.tokens, sample);
      return;
    }
    StepGraphs& graphs = device_run_->graphs();
    if (begin.step != next || next >= graphs.count() || begin.batch != graphs.at(next).batch()) {
      throw Error("master: announced step " + std::to_string(begin.step) + " of " +
                  std::to_string(begin.batch.rows()) + " rows, expected step " +
                  std::to_string(next) + " of the plan's " + std::to_string(graphs.count()) +
                  "; install the same tandem on every device");
    }
    device_run_->step(next, begin.tokens, sample);
  }

  void send_times() {
    const std::string bytes = encode_times(device_run_->times());
    constexpr std::size_t kPiece = kMaxChunkBytes / 24 * 24;  // whole records
    for (std::size_t at = 0; at == 0 || at < bytes.size(); at += kPiece) {
      control().send(hello_.device, Report{.kind = ReportKind::spans,
                                           .last = at + kPiece >= bytes.size(),
                                           .bytes = bytes.substr(at, kPiece)});
    }
  }

  const WorkerOptions& options_;
  Listener& listener_;
  Hello hello_;
  model::DeviceIndex self_ = 0;
  std::unique_ptr<planner::Plan> plan_;
  RunOptions run_;
  std::unique_ptr<StepGraphs> graphs_;
  ShardFile shard_file_;
  std::unique_ptr<Session> session_;
  DeviceRun* device_run_ = nullptr;  // the session's
};

void say(const WorkerOptions& options, const std::string& line) {
  if (options.log) options.log(line);
}

}  // namespace

void serve(ListenSocket socket, const WorkerOptions& options, const Cancellation& cancellation) {
  Listener listener(std::move(socket), options.key, {.on_rejected = [&](const std::string& reason) {
                      say(options, "client turned away: " + reason);
                    }});
  while (true) {
    std::optional<Incoming> incoming = listener.accept(
        {.deadline = Clock::now() + std::chrono::hours(24), .cancellation = &cancellation});
    if (!incoming) continue;
    const std::string peer = incoming->connection.peer();
    if (incoming->hello.purpose != Purpose::control || incoming->hello.role != Role::master) {
      continue;  // left over from a session that failed; closing it is the answer
    }
    try {
      if (options.verbose) say(options, "session with " + peer + " begins");
      WorkerSession(std::move(*incoming), listener, options).run();
      if (options.verbose) say(options, "session with " + peer + " is done");
    } catch (const std::exception& error) {
      if (options.once) throw Error(error.what());
      say(options, "session with " + peer + " failed: " + error.what());
    }
    if (options.once) return;
  }
}

}  // namespace tandem::exec
