#pragma once

// The interpretation of a platform file, without SimGrid. Private to sim/.

#include <string>
#include <string_view>

#include "sim/platform/platform.hpp"

namespace tandem::sim {

// Parses the XML in `text`; `source` names it in messages. Accepts one <zone> of hosts, routers,
// links and routes; rejects what SimGrid would crash or hang on, or silently accept. Throws Error:
// source:line: subject, value, expected, remedy.
[[nodiscard]] Platform parse_platform_xml(std::string_view text, const std::string& source);

}  // namespace tandem::sim
