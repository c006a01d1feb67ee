#pragma once

#include <optional>

#include "cli/flags/options.hpp"
#include "exec/testbed/testbed_facts.hpp"

namespace tandem::cli {

inline constexpr Flag kTestbedFlag{"testbed", "FILE",
                                   "be in this testbed: what `tandem testbed up` prints"};

// What the file of the flag says; absent without the flag. Throws Error as read_file() and
// exec::parse_testbed_facts() do.
[[nodiscard]] std::optional<exec::TestbedFacts> testbed_of(const Options& options);

}  // namespace tandem::cli
