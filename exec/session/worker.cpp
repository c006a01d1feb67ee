#include "exec/session/worker.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <variant>
#include <vector>

#include "exec/discovery/discovery_guest.hpp"
#include "exec/emulation/dilation.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/kernels/integer_choice.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/machine/process_facts.hpp"
#include "exec/runtime/wait_notice.hpp"
#include "exec/session/open_files.hpp"
#include "exec/session/rejection_log.hpp"
#include "exec/session/weight_intake.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/system_fault.hpp"
#include "planner/plan/outdated_profiles.hpp"

namespace tandem::exec {
namespace {

// A master's turn at the door.
class Service {
 public:
  explicit Service(Reception& reception) : reception_(&reception) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() { reception_->leave(); }

 private:
  Reception* reception_;
};

// What outlives sessions.
struct KeptWeights {
  explicit KeptWeights(const WorkerOptions& options)
      : store(options.cache_dir, options.cache_bytes,
              options.verify ? Trust::nothing : Trust::records) {}
  BlockStore store;
  ResidentBlocks memory;
};

// One master's session. `plan_` is checked before anything is allocated for it.
class WorkerSession {
 public:
  WorkerSession(Incoming incoming, Reception& reception, const WorkerOptions& options,
                KeptWeights& weights)
      : service_(reception),
        options_(options),
        reception_(reception),
        weights_(weights),
        hello_(incoming.hello) {
    session_ = std::make_unique<Session>(options.times);
    session_->control().add(
        {.device = hello_.device, .connection = std::move(incoming.connection)});
    reception_.watch([this] { return ending_ || session_->control().failed(); });
  }
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;
  ~WorkerSession() {
    // The next master waits until this one's memory is free.
    reception_.watch([] { return true; });
    session_.reset();
  }

  void run() {
    try {
      const WaitNotice notice(
          session_->activity(),
          {.first = 2 * options_.times.notice,
           .text = [this] { return waited_for(); },
           .say = options_.verbose ? options_.log : std::function<void(const std::string&)>()});
      activity().enter(Phase::waiting);
      const Message first = control().receive(hello_.device);
      if (std::holds_alternative<Inquiry>(first)) {
        be_discovered();
        return;
      }
      accept_plan(first);
      prepare();
      execute();
    } catch (const std::exception& error) {
      session_->cancel(model::describe(error));
      throw ReportedError(session_->failure());
    }
  }

 private:
  void remark(const std::string& line) const {
    if (options_.verbose && options_.log) options_.log(line);
  }
  Control& control() { return session_->control(); }
  Activity& activity() { return session_->activity(); }
  // The master's next message, which may take as long as its work.
  template <class M>
  [[nodiscard]] M expect() {
    activity().enter(Phase::waiting);
    return control().expect<M>(hello_.device);
  }

  // For a notice, on its thread. The plan, and with it every name but the master's, may not be
  // known yet.
  std::string waited_for() {
    const auto number = [](model::DeviceIndex d) { return "device " + std::to_string(d); };
    const Heartbeat own = activity().read();
    if (own.phase != Phase::waiting) return "this device " + describe(own, number);
    const PeerState master = control().state_of(hello_.device);
    return "waiting for the master, which " + describe(master.activity, number);
  }

  void be_discovered() {
    serve_discovery(control(), activity(), reception_, session_->shared_cancellation(),
                    {.machine = {.cache_dir = options_.cache_dir,
                                 .program = options_.program,
                                 .threads = options_.threads,
                                 .kernels = options_.kernels},
                     .key = options_.key,
                     .hello = hello_,
                     .connect = options_.times.connect});
    end_well();
  }

  // After the master's Goodbye.
  void end_well() {
    ending_ = true;  // the next master may come at once
    for (const std::string& fault : control().close(Clock::now() + options_.times.close))
      remark(fault);
  }

  void accept_plan(const Message& first) {
    const auto* const offered = std::get_if<PlanOffer>(&first);
    if (offered == nullptr)
      throw Error("master: sent " + std::string(name_of(first)) +
                  ", expected PlanOffer or Inquiry; install the same tandem on every device");
    const PlanOffer& offer = *offered;
    try {
      check(offer);
    } catch (const Error& error) {
      control().send(hello_.device,
                     PlanAnswer{.verdict = PlanVerdict::refused, .reason = error.what()});
      throw;
    }
    // Of devices that a master emulates it speaks itself, once for all.
    std::string outdated;
    if (options_.ledger_fd < 0) {
      outdated = planner::outdated_remark(*plan_, {kernels_here(options_.kernels)}, self_);
      std::vector<int> threads(plan_->devices.size(), 0);
      threads[static_cast<std::size_t>(self_)] = options_.threads;
      const std::string other = planner::threads_remark(*plan_, threads);
      if (!outdated.empty() && !other.empty()) outdated += "; ";
      outdated += other;
    }
    if (!outdated.empty()) remark(outdated);
    control().send(hello_.device, PlanAnswer{.verdict = PlanVerdict::accepted, .reason = outdated});
  }

  void check(const PlanOffer& offer) {
    try {
      plan_ = std::make_unique<planner::Plan>(planner::parse_plan_json(offer.plan, "offered plan"));
    } catch (const Error& error) {
      // The master has read it: what it could not, a tandem of another version wrote.
      const std::string fault = error.what();
      throw Error(fault.substr(0, fault.rfind(';')) + "; install the same tandem on every device");
    }
    const std::string sha256 = planner::plan_sha256(*plan_);
    if (sha256 != offer.sha256) {
      throw Error("offered plan: digest " + sha256.substr(0, 12) + ", announced as " +
                  model::printable(offer.sha256, 12) + "; install the same tandem on every device");
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
    // The master has looked for the devices that it emulates.
    if (options_.ledger_fd < 0)
      model::require_open_files(run_files(*plan_, self_), "the master's plan");
    check_memory(*plan_, self_, run_, weights_.memory.bytes());
    layout_ = layout_of(plan_->model, device().share);
    graphs_ = std::make_unique<StepGraphs>(*plan_, run_);
    check_record_memory(*plan_, *graphs_, std::span(&self_, 1), run_, weights_.memory.bytes());
  }

  const planner::DevicePlan& device() const {
    return plan_->devices[static_cast<std::size_t>(self_)];
  }

  // What the memory of former sessions, the cache and the master have of this share.
  [[nodiscard]] DeviceWeights obtain_weights() {
    WeightIntake intake(*session_, hello_.device, weights_.store, weights_.memory);
    const std::uint64_t hashed_before = weights_.store.bytes_checked();
    files_ = intake.take(plan_->model, layout_, streams(*graphs_, self_));
    const std::uint64_t hashed = weights_.store.bytes_checked() - hashed_before;
    const std::uint64_t before = weights_.memory.bytes_read();
    activity().enter(Phase::loading, Activity::kNobody, layout_.bytes);
    DeviceWeights weights = open_weights_of(*plan_, self_, *graphs_, files_, weights_.memory,
                                            [this](std::uint64_t done, std::uint64_t /*total*/) {
                                              session_->check();
                                              activity().advance(done);
                                            });
    remark(
        "weights: " + to_text(intake.counts()) + ", " +
        model::to_text(model::Bytes{static_cast<double>(weights_.memory.bytes_read() - before)}) +
        " read into memory, " + model::to_text(model::Bytes{static_cast<double>(hashed)}) +
        " hashed again");
    return weights;
  }

  void prepare() {
    DeviceWeights weights = obtain_weights();
    control().send(hello_.device, Ready{});  // to open channels
    const auto peers = expect<Peers>();
    if (peers.addresses.size() != plan_->cluster.devices().size()) {
      throw Error("master: " + std::to_string(peers.addresses.size()) + " addresses, expected " +
                  std::to_string(plan_->cluster.size()) +
                  "; install the same tandem on every device");
    }
    std::shared_ptr<Ledger> ledger;
    if (options_.ledger_fd >= 0) {
      ledger = std::make_shared<Ledger>(dilated(plan_->cluster, run_.dilation), options_.ledger_fd);
    }
    if (options_.turn_fd >= 0) turn_ = std::make_unique<SharedTurn>(options_.turn_fd);
    activity().enter(Phase::opening);
    session_->open_channels(*plan_, run_,
                            {.self = self_,
                             .master = plan_->master,
                             .session = hello_.session,
                             .addresses = peers.addresses,
                             .key = options_.key,
                             .reception = &reception_,
                             .ledger = std::move(ledger),
                             .dilation = run_.dilation,
                             .overhead = run_.overhead});
    device_run_ = &session_->prepare(*plan_,
                                     {.self = self_,
                                      .run = run_,
                                      .threads = options_.threads,
                                      .kernels = options_.kernels,
                                      .turn = turn_.get()},
                                     std::move(weights));
    graphs_.reset();
    reset_peak_resident();
    activity().enter(Phase::warming_up);
    if (run_.pace != Pace::real) device_run_->warm_up();
    control().send(hello_.device, Ready{});  // to execute
  }

  // Steps as they are announced; then a report for each Ready, until Goodbye.
  void execute() {
    std::int32_t next = 0;
    bool told_records = false;
    while (true) {
      activity().enter(Phase::waiting);
      const Message message = control().receive(hello_.device);
      if (const auto* begin = std::get_if<StepBegin>(&message)) {
        step(*begin, next++);
      } else if (std::holds_alternative<Ready>(message)) {
        device_run_->settle();
        activity().enter(Phase::reporting);
        control().send(hello_.device, Report{.kind = ReportKind::metrics,
                                             .last = true,
                                             .bytes = to_json(device_run_->report())});
        if (!told_records) send_records();
        told_records = true;
      } else if (std::holds_alternative<Goodbye>(message)) {
        end_well();
        return;
      } else {
        throw Error("master: sent " + std::string(name_of(message)) +
                    ", expected StepBegin, Ready or Goodbye; install the same tandem on every "
                    "device");
      }
    }
  }

  void step(const StepBegin& begin, std::int32_t next) {
    const SampleToken sample = [](const Scores&) -> std::int32_t {
      throw Error("plan: samples on a worker, expected on the master only");
    };
    if (run_.scored_rows > 0 && begin.step == next) {
      device_run_->read(next, begin.batch, begin.tokens, sample);
      return;
    }
    if (run_.serves() && begin.step == next) {
      static_cast<void>(device_run_->serve(next, begin.batch, begin.tokens, sample));
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

  void send_records() {
    const TimeLog records = device_run_->take_records();
    constexpr std::size_t kPiece = 2730;  // records, nearly 64 KiB
    std::span<const TaskTime> rest(records);
    do {
      const auto piece = rest.first(std::min(kPiece, rest.size()));
      rest = rest.subspan(piece.size());
      control().send(
          hello_.device,
          Report{.kind = ReportKind::spans, .last = rest.empty(), .bytes = encode_times(piece)});
    } while (!rest.empty());
  }

  Service service_;  // first: it is left last, and even if the session cannot begin
  const WorkerOptions& options_;
  Reception& reception_;
  KeptWeights& weights_;
  Hello hello_;
  std::atomic<bool> ending_ = false;
  model::DeviceIndex self_ = 0;
  std::unique_ptr<planner::Plan> plan_;
  RunOptions run_;
  std::unique_ptr<StepGraphs> graphs_;
  ShardLayout layout_;
  std::vector<BlockFile> files_;      // in use while the session lasts
  std::unique_ptr<SharedTurn> turn_;  // outlives the session's run
  std::unique_ptr<Session> session_;
  DeviceRun* device_run_ = nullptr;  // the session's
};

void say(const WorkerOptions& options, const std::string& line) {
  if (options.log) options.log(line);
}

}  // namespace

void serve(ListenSocket socket, const WorkerOptions& options, const Cancellation& cancellation) {
  if (options.ledger_fd < 0) model::require_open_files(kSessionFiles, "a worker");
  if (options.kernels == KernelSet::tuned) choose_integer_kernels(options.cache_dir);
  RejectionLog rejections([&](const std::string& line) { say(options, line); });
  KeptWeights weights(options);
  Reception reception(Listener(
      std::move(socket), options.key,
      {.on_rejected = [&](const std::string& reason) { rejections.add(reason, Clock::now()); }}));
  while (true) {
    std::optional<Incoming> incoming = reception.next_master(
        {.deadline = Clock::now() + RejectionLog::kWindow, .cancellation = &cancellation});
    rejections.settle(Clock::now());
    if (!incoming) continue;
    const std::string peer = incoming->connection.peer();
    incoming->connection.rename("master at " + peer.substr(peer.find(' ') + 1));
    try {
      if (options.verbose) say(options, "session with " + peer + " begins");
      WorkerSession(std::move(*incoming), reception, options, weights).run();
      if (options.verbose) say(options, "session with " + peer + " is done");
    } catch (const std::exception& error) {
      if (options.once && dynamic_cast<const ReportedError*>(&error) != nullptr) throw;
      const std::string reason = model::describe(error);
      if (options.once) throw Error(reason);
      say(options, std::string("session with ").append(peer).append(" failed: ").append(reason));
    }
    if (options.once) return;
  }
}

}  // namespace tandem::exec
