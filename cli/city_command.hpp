#pragma once

#include <iosfwd>

#include "cli/flags/commands.hpp"

namespace tandem::cli {

// `tandem platform city ...`, without those two words.
int city_command(const Arguments& arguments, std::ostream& out);

}  // namespace tandem::cli
