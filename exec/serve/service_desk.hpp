#pragma once

// What a live session serves: where other threads hand in work until it closes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "exec/session/execute.hpp"
#include "model/base/error.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// The desk is full: try again later.
class DeskFull : public Error {
 public:
  using Error::Error;
};
// Serving has ended.
class DeskClosed : public Error {
 public:
  using Error::Error;
};

// Thread-safe.
class ServiceDesk {
 public:
  virtual ~ServiceDesk() = default;
  // Ends serving: all that is under way fails with `reason`, as do later submits.
  virtual void close(const std::string& reason) = 0;
  [[nodiscard]] virtual bool is_closed() const = 0;

  struct Counts {
    std::size_t under_way = 0;
    std::size_t waiting = 0;  // of these, without a token yet; of an encoder, whose turn is to come
    std::uint64_t submitted = 0;
    std::uint64_t refused = 0;   // as the desk was full
    std::uint64_t finished = 0;  // stopped or at their length
    std::uint64_t cancelled = 0;
    std::uint64_t prompt_tokens = 0;  // of all that were submitted
    std::uint64_t tokens = 0;         // that were generated
    std::uint64_t begun_tokens = 0;   // of the prompts of requests that have begun
    std::uint64_t cached_tokens = 0;  // of these, not read again
  };
  [[nodiscard]] virtual Counts counts() const = 0;

  // Executes `plan` for what is handed in until the desk is closed, as serve_requests() does.
  virtual void serve(const planner::Plan& plan, const ExecuteOptions& options,
                     const std::function<void()>& on_ready) = 0;
};

}  // namespace tandem::exec
