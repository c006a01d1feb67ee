#pragma once

// Worker processes on this machine, one for every device of a plan but the master.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exec/emulation/device_place.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "model/base/child_process.hpp"

namespace tandem::exec {

struct LocalClusterOptions {
  std::filesystem::path program = "/proc/self/exe";  // a tandem
  Key key{};
  std::filesystem::path cache_dir;
  std::optional<std::uint64_t> cache_bytes;      // at most
  bool verify = false;                           // WorkerOptions::verify
  KernelSet kernels = default_kernel_set();      // of all workers
  int ledger_fd = -1;                            // open; inherited by the workers
  int turn_fd = -1;                              // the same
  std::vector<bool> wanted;                      // by DeviceIndex: start a worker
  std::vector<DevicePlace> places{};             // by DeviceIndex; empty: all beside this process
  std::chrono::milliseconds start_time{10'000};  // until all listen
};

// Asks the kernel to wake the calling thread, and all that it will start, exactly when due and
// before others. Returns what it got, for the result; without privileges the priority stays what it
// is.
[[nodiscard]] std::string ask_for_punctuality();

// Owns the processes: none outlives it, nor this process, however it ends. Not thread-safe; to be
// made by a thread that lives as long as the process (the workers die with that thread).
class LocalCluster {
 public:
  // Returns when all workers listen. Throws Error (device, what happened) if one does not.
  explicit LocalCluster(const LocalClusterOptions& options);
  ~LocalCluster();  // kills what is left
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  [[nodiscard]] const std::vector<Endpoint>& endpoints() const { return endpoints_; }  // by device
  // A worker that a signal has ended, and which; absent: none within `patience`. Peers see that its
  // connections are closed before its parent can see that it has ended. For use after a failure,
  // once.
  struct Crash {
    std::size_t device = 0;
    int signal = 0;
  };
  [[nodiscard]] std::optional<Crash> crash(std::chrono::milliseconds patience) noexcept;
  // Waits for the workers to leave by themselves.
  void wait(std::chrono::milliseconds patience) noexcept;

 private:
  struct Process {
    model::ChildProcess child;
    model::Descriptor port;  // where it writes the number of its port
  };
  void start(const LocalClusterOptions& options, const DevicePlace& place, int key_fd,
             Process& process);
  void stop() noexcept;
  std::vector<Process> processes_;  // by device
  std::vector<Endpoint> endpoints_;
};

}  // namespace tandem::exec
