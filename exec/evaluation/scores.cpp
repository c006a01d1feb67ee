#include "exec/evaluation/scores.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/base/error.hpp"

namespace tandem::exec {

TokenScore score_token(std::span<const float> logits, std::int32_t token) {
  require(token >= 0 && static_cast<std::size_t>(token) < logits.size(),
          "score_token: the token is one of the logits'");
  const bool finite =
      std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
  if (!finite) {
    throw Error("model: a logit is not a finite number; are the weights damaged?");
  }
  const auto best = std::max_element(logits.begin(), logits.end());
  const double largest = *best;
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double own = logits[static_cast<std::size_t>(token)];
  return {.log2_probability = (own - largest) * std::numbers::log2e - std::log2(sum),
          .first_choice = best - logits.begin() == token};
}

double bits_of(const PassageScores& scores) {
  double bits = 0.0;
  for (const TokenScore& score : scores) bits -= score.log2_probability;
  return bits;
}

bool all_first_choices(const PassageScores& scores) {
  return std::all_of(scores.begin(), scores.end(),
                     [](const TokenScore& score) { return score.first_choice; });
}

Interval wilson_interval(std::int64_t right, std::int64_t count) {
  require(0 <= right && right <= count && count >= 1, "wilson_interval: right ones of a count");
  constexpr double z = 1.959963984540054;
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(right) / n;
  const double middle = p + z * z / (2.0 * n);
  const double reach = z * std::sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n));
  const double scale = 1.0 + z * z / n;
  return {.low = right == 0 ? 0.0 : (middle - reach) / scale,
          .high = right == count ? 1.0 : (middle + reach) / scale};
}

}  // namespace tandem::exec
