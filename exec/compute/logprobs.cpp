#include "exec/compute/logprobs.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// The denominator of softmax over the largest logit: the sum of exp(logit - largest), or the number
// of infinite logits, which share the probability.
double denominator_of(std::span<const float> logits, float largest) {
  double sum = 0.0;
  for (const float logit : logits)
    sum += logit == largest ? 1.0 : std::exp(double{logit} - double{largest});
  return sum;
}

double logprob_of(float logit, float largest, double denominator) {
  const double difference = logit == largest ? 0.0 : double{logit} - double{largest};
  return difference - std::log(denominator);
}

}  // namespace

TokenLogprobs logprobs_of(const Scores& scores, std::int32_t chosen, std::size_t count) {
  std::vector<Candidate> best(scores.best().begin(), scores.best().end());
  double denominator = scores.denominator();
  float logit = 0.0F;
  if (scores.whole()) {
    const std::span<const float> logits = scores.logits();
    find_best(logits, 0, std::max<std::size_t>(1, count), best);
    denominator = denominator_of(logits, best.front().logit);
    logit = logits[static_cast<std::size_t>(chosen)];
  } else {
    const auto found = std::ranges::find(best, chosen, &Candidate::id);
    require(found != best.end() && count <= best.size(), "logprobs: candidates that have them");
    logit = found->logit;
  }
  const float largest = best.front().logit;
  TokenLogprobs all{.chosen = {chosen, logprob_of(logit, largest, denominator)}};
  best.resize(std::min(count, best.size()));
  for (const Candidate& candidate : best)
    all.best.push_back({candidate.id, logprob_of(candidate.logit, largest, denominator)});
  return all;
}

}  // namespace tandem::exec
