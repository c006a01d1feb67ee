#pragma once

#include <string>

namespace tandem::exec {

// Returns the random name of this start of the machine; empty if unknown.
[[nodiscard]] std::string boot_id();

}  // namespace tandem::exec
