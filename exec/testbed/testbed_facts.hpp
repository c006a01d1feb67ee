#pragma once

// What `tandem run` and `tandem worker` know of the testbed in which they run.

#include <map>
#include <string>
#include <string_view>

#include "model/cluster/cluster.hpp"

namespace tandem::exec {

struct TestbedFacts {
  std::string turn;       // path of the file by which devices compute in turns (SharedTurn)
  std::string network;    // network_digest() of its platform
  std::string platform;   // its name
  double dilation = 1.0;  // its links are so many times slower than the platform's
  std::map<std::string, std::string> environment;  // of a result: how the network is made
  bool operator==(const TestbedFacts&) const = default;
};

[[nodiscard]] std::string to_json(const TestbedFacts& facts);
// Throws Error naming `source`, the field, its value, what was expected and the remedy.
[[nodiscard]] TestbedFacts parse_testbed_facts(std::string_view text, std::string_view source);

// Equal for clusters with the same devices' names and the same routes between them over the same
// links; devices' speeds and memory do not matter.
[[nodiscard]] std::string network_digest(const model::Cluster& cluster);

}  // namespace tandem::exec
