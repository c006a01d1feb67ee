#pragma once

// The meaning of a platform file, checked without SimGrid. Private to sim/.

#include <string>
#include <string_view>

#include "sim/platform/platform.hpp"

namespace tandem::sim {

// What the XML in `text` says; `source` names it in messages. Accepts one <zone> of hosts, routers,
// links and routes; refuses what SimGrid would crash or hang on, or silently take. Throws Error:
// source:line: subject, value, expected, remedy.
[[nodiscard]] Platform parse_platform_xml(std::string_view text, const std::string& source);

}  // namespace tandem::sim
