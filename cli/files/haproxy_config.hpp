#pragma once

#include <span>
#include <string>

#include "planner/serving/replicas.hpp"

namespace tandem::cli {

// Returns a configuration for HAProxy 2.6 and later in front of one `tandem serve` a replica, each
// on its plan's master. It has no secret: addresses and paths are variables of the environment with
// defaults, the token is the client's. Certificates of replicas are verified, with their names.
// A conversation stays with its replica by the cookie TANDEM_REPLICA (the page) or the header
// X-Tandem-Conversation (API clients); other requests go where the fewest are open.
[[nodiscard]] std::string haproxy_config(std::span<const planner::Replica> replicas);

}  // namespace tandem::cli
