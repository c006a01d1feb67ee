#pragma once

// What prediction and run print alike of a result.

#include <iosfwd>
#include <optional>
#include <string>

#include "model/result.hpp"

namespace tandem::cli {

// How a result file at `result` names its trace: relative to its own folder if that is possible.
[[nodiscard]] std::string trace_reference(const std::string& trace,
                                          const std::optional<std::string>& result);

// Prints time to first token, token latency and total.
void print_times(const model::Result& result, std::ostream& out);
// Prints memory, bytes, busy and stalled time by device.
void print_devices(const model::Result& result, std::ostream& out);
// Prints the network model's settings.
void print_network(const model::Result& result, std::ostream& out);

}  // namespace tandem::cli
