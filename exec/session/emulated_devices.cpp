#include "exec/session/emulated_devices.hpp"

#include <algorithm>
#include <thread>

#include "exec/emulation/dilation.hpp"
#include "exec/session/open_files.hpp"
#include "exec/session/plan_workers.hpp"
#include "exec/transport/key.hpp"
#include "model/base/text_table.hpp"

namespace tandem::exec {
namespace {

double needed_dilation(double demand, Pace pace) {
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return dilation_for(demand, pace, cores);
}

}  // namespace

double dilation_here(const planner::Plan& plan, Pace pace) {
  return needed_dilation(peak_demand(plan), pace);
}

EmulatedDevices::EmulatedDevices(const planner::Plan& plan, Pace pace,
                                 std::optional<double> dilation)
    : plan_(&plan),
      pace_(pace),
      demand_(peak_demand(plan)),
      dilation_(dilation ? *dilation : needed_dilation(demand_, pace)) {}

void EmulatedDevices::start(const std::filesystem::path& program, GenerateOptions& run) {
  if (dilation_ > 1.0 && run.on_warning) {
    run.on_warning("the devices need " + model::fixed(demand_, 2) +
                   " of this machine at once; their time passes " + model::fixed(dilation_, 2) +
                   " times more slowly, results are divided by that");
  }
  check_open_files(*plan_, run.weights, /*one_machine=*/true);
  punctuality_ = ask_for_punctuality();
  run.pace = pace_;
  run.dilation = dilation_;
  run.one_machine = true;
  run.key = random_key();
  run.ledger = std::make_shared<Ledger>(dilated(plan_->cluster, dilation_));
  const auto turn = std::make_shared<SharedTurn>();
  run.turn = turn;
  cluster_ =
      std::make_unique<LocalCluster>(LocalClusterOptions{.program = program,
                                                         .key = *run.key,
                                                         .cache_dir = run.cache_dir,
                                                         .cache_bytes = run.cache_bytes,
                                                         .verify = run.verify,
                                                         .kernels = run.kernels,
                                                         .ledger_fd = run.ledger->descriptor(),
                                                         .turn_fd = turn->descriptor(),
                                                         .wanted = workers_of(*plan_)});
  run.workers = cluster_->endpoints();
}

void EmulatedDevices::finish() { cluster_->wait(std::chrono::seconds(2)); }

void EmulatedDevices::describe(model::Result& result) const {
  auto& environment = result.environment;
  environment["transport"] = "link ledger over loopback TCP, TLS 1.3";
  environment["scheduling"] =
      punctuality_ + (pace_ == Pace::measured ? ", devices compute in turns" : "");
  environment["demand_cores"] = model::fixed(demand_, 2);
  environment["dilation"] = model::fixed(dilation_, 2);
}

}  // namespace tandem::exec
