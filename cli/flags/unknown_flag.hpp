#pragma once

#include <string>

#include "cli/flags/options.hpp"

namespace tandem::cli {

// Returns the message for `token`, which is none of the command's flags: with the flag that has
// another name here, with the argument that says it, or with the flag that is spelled nearly so.
[[nodiscard]] std::string unknown_flag(const std::string& token, const Syntax& syntax);

}  // namespace tandem::cli
