#pragma once

// Results for tests of what is compared.

#include <string>
#include <vector>

#include "model/report/result.hpp"

namespace tandem::test {

// A result of one request, its tokens at these times.
inline model::Result result_of(model::ResultOrigin origin, const std::vector<double>& token_times) {
  model::Result r;
  r.origin = origin;
  r.plan.sha256 = std::string(64, 'a');
  r.metrics.ttft_s = token_times.empty() ? 0.0 : token_times.front();
  r.metrics.token_times_s = token_times;
  return r;
}

}  // namespace tandem::test
