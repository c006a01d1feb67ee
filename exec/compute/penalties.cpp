#include "exec/compute/penalties.hpp"

#include <cstddef>

#include "model/base/error.hpp"

namespace tandem::exec {

Penalties::Penalties(const planner::Sampling& sampling, std::span<const std::int32_t> prompt)
    : sampling_(sampling) {
  if (sampling.repetition_penalty == 1.0) return;
  for (const std::int32_t token : prompt) counts_.emplace(token, 0);
}

std::span<const float> Penalties::apply(std::span<const float> logits) {
  penalized_.assign(logits.begin(), logits.end());
  for (const auto& [token, count] : counts_) {
    const auto at = static_cast<std::size_t>(token);
    require(token >= 0 && at < logits.size(), "penalties: tokens of the vocabulary");
    double logit = logits[at];
    logit =
        logit > 0.0 ? logit / sampling_.repetition_penalty : logit * sampling_.repetition_penalty;
    if (count > 0)
      logit -=
          sampling_.frequency_penalty * static_cast<double>(count) + sampling_.presence_penalty;
    penalized_[at] = static_cast<float>(logit);
  }
  return penalized_;
}

}  // namespace tandem::exec
