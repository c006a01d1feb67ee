#pragma once

// The device that holds the prompt: starts a session with every other device of the plan, runs the
// generation, gathers what happened.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/runtime/run_result.hpp"
#include "exec/runtime/session.hpp"
#include "exec/sampling.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "planner/plan.hpp"

namespace tandem::exec {

struct GenerateOptions {
  std::filesystem::path weights;          // Hugging Face folder
  std::filesystem::path cache_dir;        // of shard files
  std::vector<std::int32_t> prompt;       // ids
  std::int64_t new_tokens = 0;            // at most
  std::vector<std::int64_t> stop_tokens;  // ends after one of these
  SamplingOptions sampling;
  Pace pace = Pace::real;
  int threads = 1;
  std::vector<Endpoint> workers;  // by DeviceIndex; the master's is not used
  std::optional<Key> key;
  std::shared_ptr<Ledger> ledger;  // emulated links; null: real ones
  bool keep_spans = false;
  SessionTimes times;
  // Each token as it is chosen; the callee may take its time only between tokens.
  std::function<void(std::int32_t token)> on_token;
  // What is being done before the first token ("slicing weights for phone"), for a progress line.
  std::function<void(const std::string& stage)> on_stage;
};

struct Generation {
  std::vector<std::int32_t> tokens;
  RunResult run;
  double drift = 0.0;  // of the reference kernel; measured pace only
};

// Ends a generation from outside: another thread, a signal.
class Interrupt {
 public:
  // Makes the present, or else the next, generation throw Error(reason). Any thread.
  void trip(const std::string& reason) noexcept;

 private:
  friend class MasterSession;
  void watch(std::function<void(const std::string&)> cancel);
  void leave() noexcept;
  std::mutex mutex_;
  std::string reason_;
  std::function<void(const std::string&)> cancel_;
};

// By DeviceIndex: whether it exchanges anything with others, so that it needs a process of its own.
// False for the master.
[[nodiscard]] std::vector<bool> workers_of(const planner::Plan& plan);

// Runs `plan`. Throws Error with one reason, which every reachable device has been told; no thread
// and no connection is left behind.
[[nodiscard]] Generation generate(const planner::Plan& plan, const GenerateOptions& options,
                                  Interrupt& interrupt);

}  // namespace tandem::exec
