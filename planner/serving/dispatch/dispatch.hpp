#pragma once

// Dispatch: which of several replicas a request is sent to when it arrives. Each rule is one file
// in dispatch/, named in its CMakeLists.txt.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::planner {

// A replica at the arrival of a request.
struct ReplicaLoad {
  double backlog_s = 0.0;  // predicted work left of the requests that it has
  double work_s = 0.0;     // predicted work of the request that arrives, there
  std::size_t open = 0;    // requests that it has not finished; 0 without `counts_open`
  std::size_t sent = 0;    // requests that it has got so far
};

struct Dispatch {
  std::string_view name;     // as in `--dispatch`
  std::string_view summary;  // a few words for --help
  bool counts_open = false;  // whether the rule reads ReplicaLoad::open
  // Returns the position of the replica for the request. `loads` are not empty.
  std::size_t (*pick)(std::span<const ReplicaLoad> loads);
};

[[nodiscard]] const std::vector<Dispatch>& dispatches();
// Returns the rule of that name. Throws Error naming it and the known ones if there is none.
[[nodiscard]] const Dispatch& find_dispatch(std::string_view name);

}  // namespace tandem::planner
