#pragma once

// The process that owns a testbed: it starts the devices of plans in it, and takes it down.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exec/emulation/turn.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/testbed/door.hpp"
#include "exec/testbed/memory_groups.hpp"
#include "exec/testbed/testbed.hpp"
#include "exec/testbed/testbed_facts.hpp"
#include "exec/transport/cancellation.hpp"
#include "model/base/descriptor.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

struct SupervisorOptions {
  TcpChoice tcp = TcpChoice::system;
  double dilation = 1.0;
  std::filesystem::path program = "/proc/self/exe";  // a tandem
};

// What `tandem run` is given in the master's namespace, beside what the testbed adds (--hosts,
// --key, --testbed).
struct PlanRun {
  std::vector<std::string> words{};  // its command line, from the plan on
  std::filesystem::path cache_dir{};
  std::optional<std::uint64_t> cache_bytes{};
  bool verify = false;
  KernelSet kernels = default_kernel_set();
  bool silent = false;  // its standard output goes nowhere
};

// Owns a testbed, the only one of this machine, and the processes in it: none outlives it, nor this
// process, however that ends. To be made by a thread that lives as long as the process.
class Supervisor {
 public:
  // `end` ends the present run and wait(), and every further one; `tandem testbed down` cancels it.
  // It outlives the supervisor. Throws Error: one is up already, or as Testbed.
  Supervisor(const model::Cluster& cluster, const SupervisorOptions& options, Cancellation& end);

  // Runs a plan, each device a process in its namespace and its memory cgroup. Returns the exit
  // code of the master's `tandem run`, which has said what was wrong. Throws Error if a device
  // cannot be started or has used all its memory, the master was killed, or the end has come.
  int run(const planner::Plan& plan, const PlanRun& run);
  // Whether the devices of the last run had no more memory than the platform says: there are memory
  // cgroups of version 1.
  [[nodiscard]] bool limits_memory() const { return limits_memory_; }
  // Returns when the end has come.
  void wait() const;

  [[nodiscard]] Testbed& testbed() { return testbed_; }
  // For other processes of root: the namespace of a device, and what `--testbed` takes.
  [[nodiscard]] std::string namespace_path(model::DeviceIndex device) const;
  [[nodiscard]] std::string facts_path() const;

 private:
  Cancellation& end_;
  SupervisorOptions options_;
  Door door_;  // left last
  std::string punctuality_;
  Testbed testbed_;
  SharedTurn turn_;
  model::Descriptor facts_;
  bool limits_memory_ = false;
};

}  // namespace tandem::exec
