#include "cli/emulation.hpp"

#include <algorithm>
#include <iostream>
#include <thread>

#include "exec/emulation/dilation.hpp"
#include "exec/transport/key.hpp"
#include "model/text_table.hpp"

namespace tandem::cli {
namespace {

constexpr double kMostDilation = 1000.0;

double dilation_of(const Options& options, double demand, exec::Pace pace) {
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (!options.has("dilate")) return exec::dilation_for(demand, pace, cores);
  return options.number_or("dilate", 1.0, 1.0, kMostDilation);
}

}  // namespace

Emulation::Emulation(const planner::Plan& plan, const Options& options, exec::GenerateOptions& run)
    : plan_(&plan),
      quiet_(options.has("quiet")),
      pace_(run.pace),
      demand_(exec::peak_demand(plan)),
      dilation_(dilation_of(options, demand_, pace_)) {
  run.dilation = dilation_;
}

void Emulation::start(exec::GenerateOptions& run) {
  if (dilation_ > 1.0 && !quiet_) {
    std::cerr << "tandem: the devices need " << model::fixed(demand_, 2)
              << " of this machine at once; their time passes " << model::fixed(dilation_, 2)
              << " times more slowly, results are divided by that\n";
  }
  punctuality_ = exec::ask_for_punctuality();
  if (const std::string varies = variation(plan_->cluster); !varies.empty()) {
    std::cerr
        << "tandem run: " << varies
        << ": not emulated, nor is any other jitter, loss, background traffic or change during "
           "the run; `tandem simulate` knows of them\n";
  }
  run.one_machine = true;
  run.key = exec::random_key();
  run.ledger = std::make_shared<exec::Ledger>(exec::dilated(plan_->cluster, dilation_));
  const auto turn = std::make_shared<exec::SharedTurn>();
  run.turn = turn;
  cluster_ = std::make_unique<exec::LocalCluster>(
      exec::LocalClusterOptions{.key = *run.key,
                                .cache_dir = run.cache_dir,
                                .cache_bytes = run.cache_bytes,
                                .ledger_fd = run.ledger->descriptor(),
                                .turn_fd = turn->descriptor(),
                                .wanted = exec::workers_of(*plan_)});
  run.workers = cluster_->endpoints();
}

void Emulation::finish() { cluster_->wait(std::chrono::seconds(2)); }

void Emulation::describe(model::Result& result) const {
  auto& environment = result.environment;
  environment["transport"] = "link ledger over loopback TCP, TLS 1.3";
  environment["scheduling"] =
      punctuality_ + (pace_ == exec::Pace::measured ? ", devices compute in turns" : "");
  environment["demand_cores"] = model::fixed(demand_, 2);
  environment["dilation"] = model::fixed(dilation_, 2);
}

}  // namespace tandem::cli
