#pragma once

#include <map>
#include <string>

namespace tandem::sim {

// Returns the settings of SimGrid's network model that every replay uses, name to value, for the
// result's `environment`. SimGrid's defaults are never used.
[[nodiscard]] std::map<std::string, std::string> network_settings();

}  // namespace tandem::sim
