#include "advice/objective_time.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/error.hpp"

namespace tandem::study {

double objective_seconds(const model::Result& result, planner::Objective objective) {
  double sum = 0.0;
  double last = 0.0;
  std::size_t counted = 0;
  for (const model::RequestResult& request : result.requests) {
    last = std::max(last, request.end_s);
    double one = request.end_s - request.arrival_s;
    if (objective == planner::Objective::ttft) one = request.ttft_s;
    if (objective == planner::Objective::latency) one = request.token_latency.mean;
    if (!std::isfinite(one)) continue;  // a request of one token has no gaps
    sum += one;
    ++counted;
  }
  if (objective != planner::Objective::throughput) {
    if (counted == 0)
      throw Error(
          "objective latency: no request has two new tokens, which have a time between them; "
          "expected such requests, or objective ttft");
    return sum / static_cast<double>(counted);
  }
  // An encoder's passes sample nothing.
  const std::optional<double> rate = result.metrics.throughput_tokens_per_s;
  return rate ? 1.0 / *rate : last / static_cast<double>(result.requests.size());
}

}  // namespace tandem::study
