#pragma once

// What `tandem plan` says of a plan's times.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>

#include "advice/prediction.hpp"
#include "cli/flags/workload_flags.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// The times of `plan`, for one request or what it serves, with intervals (study::predict_fairly).
[[nodiscard]] model::Result predicted_times(const planner::Plan& plan,
                                            const std::optional<Served>& served);

// One line of the times of the only request, or of tokens and the rate of many, with their
// intervals, and one of what these are made of.
void print_predicted(const model::Result& result, std::ostream& out);

// {"ttft_s", "token_latency_s", "request_s", "throughput_tokens_per_s", "interval_90"}: what does
// not apply is null, as times of one request where there are many.
[[nodiscard]] nlohmann::ordered_json predicted_json(const model::Result& result);

}  // namespace tandem::cli
