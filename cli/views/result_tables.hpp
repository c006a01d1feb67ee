#pragma once

// What prediction and run print alike of a result.

#include <iosfwd>
#include <optional>
#include <string>

#include "model/report/result.hpp"

namespace tandem::cli {

// The name by which a file at `from` (nothing: standard output) refers to `path`: relative to its
// own folder if it has one, else absolute.
[[nodiscard]] std::string path_from(const std::string& path,
                                    const std::optional<std::string>& from);

// Prints time to first token, token latency and total, in predictions with their intervals.
void print_times(const model::Result& result, std::ostream& out);
// Prints what the intervals of a prediction are made of; nothing of a run.
void print_interval_basis(const model::Result& result, std::ostream& out);
// Prints memory, bytes, busy and stalled time by device.
void print_devices(const model::Result& result, std::ostream& out);
// Prints the network model's settings.
void print_network(const model::Result& result, std::ostream& out);

}  // namespace tandem::cli
