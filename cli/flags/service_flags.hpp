#pragma once

// Flags of commands that serve requests as they come: with a plan, or on this machine alone.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/flags/options.hpp"
#include "exec/serve/request_desk.hpp"
#include "exec/session/execute.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/local_service.hpp"

namespace tandem::cli {

struct ServiceJob {
  planner::LiveService service;
  std::filesystem::path weights;
  std::unique_ptr<exec::Tokenizer> tokenizer;
  bool emulates = false;
  std::optional<std::string> hosts{};
  double dilation = 1.0;  // of emulated devices: their time passes so many times more slowly
};

[[nodiscard]] std::vector<Flag> service_flags();

// Returns what is served: the plan of the positional argument, or one for this machine; or the
// reason why there is none. Throws Usage for flags that contradict each other, Error for a plan
// that cannot serve requests as they come.
[[nodiscard]] std::variant<ServiceJob, planner::Infeasible> service_job(const Options& options);

// Returns the limits of a desk for `job`.
[[nodiscard]] exec::DeskLimits desk_limits(const ServiceJob& job);

// Returns the options of the session; `job` outlives them.
[[nodiscard]] exec::ExecuteOptions service_execution(const Options& options, const ServiceJob& job);

}  // namespace tandem::cli
