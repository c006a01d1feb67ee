#pragma once

// Values with their unit, as flags and scenario files write them.

#include <string>
#include <string_view>

#include "model/base/units.hpp"

namespace tandem::model {

// Each parses a number followed by a unit ("5ms", "300Mbps", "8GiB", "1.5Gf"), and throws Error
// naming `subject`, the text, the accepted units and the remedy otherwise (a bare number is an
// error; so are negative, infinite and NaN values). SimGrid's units: s ms us ns m h d w; bps Kbps..
// Gbps (decimal bits), Kibps.. (binary), Bps kBps MBps.. (bytes); B kB MB GB TB KiB MiB GiB TiB; f
// kf Mf Gf Tf Pf.
[[nodiscard]] Seconds parse_seconds(std::string_view text, std::string_view subject);
[[nodiscard]] BytesPerSecond parse_rate(std::string_view text, std::string_view subject);
[[nodiscard]] Bytes parse_bytes(std::string_view text, std::string_view subject);
[[nodiscard]] FlopsPerSecond parse_flops(std::string_view text, std::string_view subject);

// Short human-readable text with a unit, three significant digits ("12.3 ms", "1.64 GiB").
[[nodiscard]] std::string to_text(Seconds value);
[[nodiscard]] std::string to_text(Bytes value);
[[nodiscard]] std::string to_text(BytesPerSecond value);
[[nodiscard]] std::string to_text(FlopsPerSecond value);

// The shortest text that reads back as the same double: "0.1", "3", "1e-09".
[[nodiscard]] std::string shortest_text(double value);

}  // namespace tandem::model
