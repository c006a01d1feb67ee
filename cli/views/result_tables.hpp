#pragma once

// What prediction and run print alike of a result.

#include <iosfwd>

#include "model/report/result.hpp"

namespace tandem::cli {

// Prints time to first token, token latency and total, in predictions with their intervals.
void print_times(const model::Result& result, std::ostream& out);
// Prints what the intervals of a prediction are made of; nothing of a run.
void print_interval_basis(const model::Result& result, std::ostream& out);
// Prints a line a request, and the throughput.
void print_requests(const model::Result& result, std::ostream& out);
// Prints memory, bytes, busy and stalled time by device.
void print_devices(const model::Result& result, std::ostream& out);
// Prints the network model's settings.
void print_network(const model::Result& result, std::ostream& out);

}  // namespace tandem::cli
