#pragma once

#include <map>
#include <string>

namespace tandem::sim {

// The settings of SimGrid's network model that every replay uses, name to value, for the result's
// `environment`. Never SimGrid's defaults.
[[nodiscard]] std::map<std::string, std::string> network_settings();

}  // namespace tandem::sim
