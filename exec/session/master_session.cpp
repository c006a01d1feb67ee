#include "exec/session/master_session.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "exec/machine/process_facts.hpp"
#include "exec/session/open_files.hpp"
#include "exec/session/plan_workers.hpp"
#include "model/graph/announcement.hpp"

namespace tandem::exec {

MasterSession::MasterSession(const planner::Plan& plan, const SessionOptions& options,
                             const RunOptions& run, Interrupt& interrupt)
    : plan_(&plan),
      options_(&options),
      interrupt_(&interrupt),
      voice_(options),
      id_(random_session()),
      run_(run),
      graphs_(std::make_unique<StepGraphs>(plan, run_)) {
  const std::vector<bool> workers = workers_of(plan);
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    if (workers[static_cast<std::size_t>(d)]) peers_.push_back(d);
  }
}

void MasterSession::begin() {
  // While no device computes. At measured pace nothing is taken from the prediction's cost model.
  if (run_.pace == Pace::measured && options_->turn && !peers_.empty())
    run_.overhead = measure_message_overhead(plan_->model);
  if (!options_->one_machine) check_open_files(*plan_, options_->weights, false);
  session_ = std::make_unique<Session>(options_->times);
  weights_.emplace(*plan_, *options_, *session_, voice_);
}

void MasterSession::connect() {
  if (peers_.empty()) return;
  voice_.stage("connecting");
  std::vector<Dial> dials;
  for (const model::DeviceIndex d : peers_) {
    dials.push_back({.endpoint = options_->workers.at(static_cast<std::size_t>(d)),
                     .hello = {.role = Role::master,
                               .purpose = Purpose::control,
                               .session = id_,
                               .device = plan_->master,
                               .peer = d,
                               .sends = true}});
  }
  // Each is kept alive from when it has answered, however late the others are.
  connect_all(
      dials, options_->key,
      {.deadline = Clock::now() + options_->times.connect,
       .cancellation = &session_->cancellation()},
      [this](model::DeviceIndex d) { return name(d); },
      [&](std::size_t i, Connection connection) {
        control().add({.device = peers_[i], .connection = std::move(connection)});
      });
  connected_ = true;
}

void MasterSession::offer() {
  std::vector<model::DeviceIndex> here{plan_->master};
  if (options_->one_machine) here.insert(here.end(), peers_.begin(), peers_.end());
  check_memory(*plan_, here, run_);
  check_record_memory(*plan_, *graphs_, here, run_);
  weights_->offer(peers_, {.sha256 = planner::plan_sha256(*plan_),
                           .plan = planner::to_json(*plan_),
                           .options = to_json(run_)});
}

void MasterSession::prepare() {
  DeviceWeights weights = weights_->load(*graphs_);
  weights_->finish();
  for (const std::string& remark : weights_->shipped().remarks) voice_.warn(remark);
  std::vector<std::string> addresses(plan_->cluster.devices().size());
  for (const model::DeviceIndex d : peers_) {
    addresses[static_cast<std::size_t>(d)] =
        to_text(options_->workers[static_cast<std::size_t>(d)]);
  }
  await_ready();  // to open channels
  for (const model::DeviceIndex d : peers_) control().send(d, Peers{.addresses = addresses});
  voice_.stage("opening channels");
  activity().enter(Phase::opening);
  session_->open_channels(*plan_, run_,
                          {.self = plan_->master,
                           .master = plan_->master,
                           .session = id_,
                           .addresses = addresses,
                           .key = options_->key,
                           .reception = nullptr,
                           .ledger = options_->ledger,
                           .dilation = run_.dilation,
                           .overhead = run_.overhead});
  device_run_ = &session_->prepare(*plan_,
                                   {.self = plan_->master,
                                    .run = run_,
                                    .threads = options_->threads,
                                    .kernels = options_->kernels,
                                    .turn = options_->turn.get()},
                                   std::move(weights));
  graphs_.reset();  // the run has its own
  own_peak_ = reset_peak_resident();
  activity().enter(Phase::warming_up);
  if (run_.pace != Pace::real) device_run_->warm_up();
  await_ready();  // to execute
}

void MasterSession::await_ready() {
  for (const model::DeviceIndex d : peers_) {
    voice_.stage("waiting for " + name(d));
    activity().enter(Phase::waiting, d);
    static_cast<void>(control().expect<Ready>(d));
  }
}

void MasterSession::announce(std::int32_t i, const model::Batch& batch,
                             const std::vector<std::int32_t>& tokens) {
  const auto begin = system_lane_clock().cpu_time();
  for (const model::DeviceIndex d : peers_) {
    const StepBegin step{.step = i,
                         .batch = batch,
                         .tokens = plan_->devices[static_cast<std::size_t>(d)].share.embedding
                                       ? tokens
                                       : std::vector<std::int32_t>{}};
    announced_.bytes +=
        model::announcement_bytes(batch, static_cast<std::int64_t>(step.tokens.size()));
    control().send(d, step);
  }
  announced_.messages += static_cast<std::int64_t>(peers_.size());
  announced_.cpu_s += std::chrono::duration<double>(system_lane_clock().cpu_time() - begin).count();
}

void MasterSession::wait_a_moment(const std::function<void(Clock::time_point until)>& sleep) {
  constexpr std::chrono::milliseconds kMoment{50};
  activity().enter(Phase::waiting, plan_->master);
  sleep(Clock::now() + kMoment);
  session_->check();
}

void MasterSession::wait_until(Clock::time_point when, const std::string& what) {
  constexpr std::chrono::seconds kShowEvery{1};
  const auto text = [&] {
    const auto left = std::chrono::ceil<std::chrono::seconds>(when - Clock::now());
    return "waiting for " + what + ", which arrives in " + std::to_string(left.count()) + " s";
  };
  session_->check();
  Clock::time_point show = Clock::time_point::max();
  if (!what.empty() && when - Clock::now() >= options_->times.notice) {
    voice_.notify(text());
    show = Clock::now() + kShowEvery;
  }
  while (Clock::now() < when) {
    if (Clock::now() >= show) {
      voice_.stage(text());
      show += kShowEvery;
    }
    wait_a_moment(
        [when](Clock::time_point until) { std::this_thread::sleep_until(std::min(when, until)); });
  }
}

// All work is done: whatever goes wrong from here takes nothing of it away.
void MasterSession::say_goodbye() {
  if (peers_.empty()) return;
  try {
    control().say_goodbye();
    for (const std::string& fault : control().close(Clock::now() + options_->times.close)) {
      voice_.warn(fault);
    }
  } catch (const Error& error) {
    voice_.warn(error.what());
  }
}

DeviceStates MasterSession::states() {
  DeviceStates states(plan_->cluster.devices().size());
  Heartbeat own = activity().read();
  own.memory_bytes = resident_bytes();
  states[static_cast<std::size_t>(plan_->master)] = own;
  for (const model::DeviceIndex d : peers_)
    states[static_cast<std::size_t>(d)] = control().state_of(d).activity;
  return states;
}

std::string MasterSession::waited_for() {
  const auto names = [this](model::DeviceIndex d) {
    return d >= 0 && d < plan_->cluster.size() ? name(d) : "a device";
  };
  const Heartbeat own = activity().read();
  model::DeviceIndex d = own.subject;
  if (!connected_ || works_itself(own) || std::ranges::find(peers_, d) == peers_.end()) {
    return name(plan_->master) + " " + describe(own, names);
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
         (still < options_->times.notice
              ? ""
              : ", and has not got on for " +
                    std::to_string(
                        std::chrono::duration_cast<std::chrono::seconds>(still).count()) +
                    " s");
}

}  // namespace tandem::exec
