#pragma once

// The search for replicas: how many, and which devices are in each.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "advice/question.hpp"
#include "advice/replicas.hpp"

namespace tandem::study {

struct ReplicaQuestion {
  // For many requests (Question::served), whose effort, if any, is of the whole search.
  Question question;
  const planner::Dispatch* rule = nullptr;
  std::int64_t count = 0;                  // of replicas; 0: as is best
  std::int64_t least = 1;                  // of replicas, where the number is to be found
  planner::SearchEffort::Limits limits{};  // of the effort
  // Called before each division is evaluated, with how many are known by then.
  std::function<void(std::size_t division, std::size_t divisions)> progress{};
};

// One division of the devices.
struct Division {
  std::vector<std::vector<std::string>> groups{};  // names of devices
  std::vector<planner::Replica> replicas{};        // empty: `reason`
  double seconds = 0.0;                            // by the objective, over all requests
  std::string reason{};
};

struct ReplicaChoice {
  std::vector<Division> divisions{};  // in the order in which they were evaluated
  std::optional<std::size_t> best{};  // nothing: no division has plans
  std::int64_t evaluations = 0;
  bool to_the_end = true;
};

// Divides the devices into `count` groups, or into 1, 2, 3, ... up to one a device, finds the best
// plan of each group (choose()) for its part of the requests, dispatches all requests, and compares
// divisions by the objective over all of them; a difference below 0.1% counts as none, and fewer
// replicas are better then. Requests are parted for planning by the rates of the groups.
// Each number of groups is tried with groups of about equal rates, of single devices and of near
// devices together; on up to eight devices, single devices then change groups while that helps, so
// the division is a local optimum. A group whose devices have no plan joins the slowest other one.
// The rule is applied again to its own parts until nothing moves, at most four times. Replicas that
// would share a link, or have no request, are refused. Each division has an equal
// part of what is left of `limits`. Throws Error as choose() does.
[[nodiscard]] ReplicaChoice choose_replicas(const ReplicaQuestion& asked);

}  // namespace tandem::study
