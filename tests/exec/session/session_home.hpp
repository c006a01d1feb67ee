#pragma once

// A master with its model, and workers as processes, for tests of sessions.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_home {

inline const std::vector<std::int32_t> prompt_ids{79, 110, 99, 101, 32, 117, 112, 111, 110};

// Two seconds are promised; a loaded or instrumented machine may add to it.
inline constexpr double kPromptly = 20.0;

// A model, its weights, and workers that serve it.
struct Home {
  explicit Home(int workers, std::int32_t columns = 59)
      : key(random_key()), processes(start(workers, columns)) {}

  [[nodiscard]] planner::Plan plan(int devices, std::int64_t new_tokens,
                                   const char* partition = "equal") const {
    return testing::plan_for(model, devices == 1 ? "local" : "tensor", devices, partition,
                             static_cast<std::int64_t>(prompt_ids.size()), new_tokens);
  }
  [[nodiscard]] GenerateOptions options(const planner::Plan& plan) const {
    GenerateOptions options;
    options.weights = weights();
    options.cache_dir = folder.path() / "cache-0";
    options.prompt = prompt_ids;
    options.new_tokens = plan.workload.new_tokens;
    options.workers = processes->endpoints();
    options.key = key;
    return options;
  }
  [[nodiscard]] std::vector<std::int32_t> generate(const planner::Plan& plan) const {
    Interrupt interrupt;
    return exec::generate(plan, options(plan), interrupt).tokens;
  }
  // What generate() throws; "" if it does not.
  [[nodiscard]] static std::string error_of(const planner::Plan& plan,
                                            const GenerateOptions& options) {
    Interrupt interrupt;
    try {
      static_cast<void>(exec::generate(plan, options, interrupt));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  [[nodiscard]] std::vector<std::int32_t> expected(const planner::Plan& plan) const {
    testing::SerialExecutor serial(plan, weights());
    std::vector<std::vector<float>> logits;
    return serial.generate(prompt_ids, static_cast<int>(plan.workload.new_tokens), logits);
  }
  [[nodiscard]] std::filesystem::path weights() const { return folder.path() / "weights"; }
  // A master's end of a session with worker 1 that has just begun.
  [[nodiscard]] std::unique_ptr<Control> control() const {
    Hello hello;
    hello.role = Role::master;
    hello.session = random_session();
    hello.peer = 1;
    std::vector<ControlPeer> peers;
    peers.push_back({.device = 1,
                     .connection = connect_to(processes->endpoints()[1], key, hello,
                                              {.deadline = Clock::now() + std::chrono::seconds(5),
                                               .cancellation = nullptr})});
    return std::make_unique<Control>(std::move(peers), ControlOptions{});
  }
  [[nodiscard]] static PlanOffer offer(const planner::Plan& plan) {
    return {.sha256 = planner::plan_sha256(plan),
            .plan = planner::to_json(plan),
            .options = to_json(RunOptions{.workload = plan.workload})};
  }

  testing::TemporaryFolder folder;
  model::Transformer model = testing::eight_heads();
  Key key;
  std::unique_ptr<testing::Workers> processes;

 private:
  std::unique_ptr<testing::Workers> start(int workers, std::int32_t columns) {
    model.intermediate = columns;
    write_random_weights(model, 17, model::DType::f32, weights());
    return std::make_unique<testing::Workers>(folder.path(), workers, key);
  }
};

}  // namespace tandem::exec::session_home
