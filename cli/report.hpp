#pragma once

// What prediction and run report alike: filling a result from a recorder, and its tables.

#include <iosfwd>
#include <optional>
#include <string>

#include "model/result.hpp"

namespace tandem::cli {

// Sets metrics, devices, links, task kinds and the steady verdict of `result`.
void fill_result(const model::RunRecorder& recorder, model::Result& result);

// How a result file at `result` names its trace: relative to its own folder if that is possible.
[[nodiscard]] std::string trace_reference(const std::string& trace,
                                          const std::optional<std::string>& result);

// Time to first token, token latency and total.
void print_times(const model::Result& result, std::ostream& out);
// Memory, bytes, busy and stalled time by device.
void print_devices(const model::Result& result, std::ostream& out);
// The network model's settings.
void print_network(const model::Result& result, std::ostream& out);

}  // namespace tandem::cli
