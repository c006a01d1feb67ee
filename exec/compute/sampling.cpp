#include "exec/compute/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "exec/compute/min_p.hpp"
#include "exec/compute/nucleus.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::exec {
namespace {

void check_logits(std::span<const float> logits) {
  require(!logits.empty(), "sampler: no logits");
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) continue;
    throw Error("sampling: the logit of token " + std::to_string(i) +
                " is NaN, expected a number; the weights or a message are corrupt, make the "
                "weights again");
  }
}

// Uniform in [0, 1): the generator's upper 53 bits. (std::uniform_real_distribution differs between
// libraries.)
double uniform(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11U) * 0x1p-53; }

}  // namespace

std::string undecided_by(const SamplingOptions& options, std::int64_t candidates) {
  for (const planner::SamplingNumber& number : planner::sampling_numbers()) {
    const double x = options.*number.value;
    if (!number.name.ends_with("_penalty") || x == SamplingOptions().*number.value) continue;
    return "with a " + std::string(number.name) + " of " + model::shortest_text(x) +
           " reads all logits, expected none";
  }
  if (options.temperature == 0.0 || (0 < options.top_k && options.top_k <= candidates)) return {};
  return "at temperature " + model::shortest_text(options.temperature) +
         (options.top_k > 0 ? ", top-k " + std::to_string(options.top_k) + ","
                            : " without a top-k") +
         " draws from more, expected temperature 0 or a top-k of at most " +
         std::to_string(candidates);
}

Sampler::Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt,
                 std::shared_ptr<const TokenGrammar> grammar)
    : options_(options), engine_(options.seed) {
  planner::check_sampling(options);
  if (grammar) mask_.emplace(std::move(grammar));
  if (options.penalizes()) penalties_.emplace(options, prompt);
}

std::int32_t Sampler::sample(const Scores& scores) {
  require(scores.whole() || (!penalties_ && !mask_), "sampler: penalties and masks of all logits");
  const std::int32_t token = scores.whole() ? choose(scores.logits()) : choose_best(scores.best());
  if (penalties_) penalties_->add(token);
  if (mask_) mask_->add(token);
  return token;
}

std::int32_t Sampler::choose(std::span<const float> logits) {
  check_logits(logits);
  if (penalties_) logits = penalties_->apply(logits);
  if (mask_) logits = mask_->apply(logits);
  const auto largest = std::ranges::max_element(logits);  // the first among equals
  const auto greedy = static_cast<std::int32_t>(largest - logits.begin());
  // An infinite logit is certain; differences from it are not numbers.
  if (options_.temperature == 0.0 || std::isinf(*largest)) return greedy;
  if (options_.top_k > 0) {
    find_best(logits, 0, static_cast<std::size_t>(options_.top_k), best_);
    return choose_best(best_);
  }

  weighted_.clear();
  weighted_.reserve(logits.size());
  double total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = static_cast<double>(logits[i]) - static_cast<double>(*largest);
    weighted_.push_back(
        {static_cast<std::int32_t>(i), std::exp(difference / options_.temperature)});
    total += weighted_.back().weight;
  }
  if (options_.min_p > 0.0) total = keep_probable(weighted_, options_.min_p);
  std::span<WeightedToken> nucleus = weighted_;
  if (options_.top_p < 1.0) {
    const auto [size, kept] = select_nucleus(weighted_, options_.top_p * total, total);
    nucleus = nucleus.first(size);
    total = kept;
  }
  return draw(nucleus, total);
}

std::int32_t Sampler::choose_best(std::span<const Candidate> best) {
  require(!best.empty() && (options_.temperature == 0.0 || options_.top_k > 0),
          "sampler: candidates that decide");
  const float largest = best.front().logit;
  if (options_.temperature == 0.0 || std::isinf(largest)) return best.front().id;
  weighted_.clear();
  double total = 0.0;
  for (const Candidate& candidate :
       best.first(std::min(best.size(), static_cast<std::size_t>(options_.top_k)))) {
    const double difference = static_cast<double>(candidate.logit) - static_cast<double>(largest);
    weighted_.push_back({candidate.id, std::exp(difference / options_.temperature)});
    total += weighted_.back().weight;
  }
  if (options_.min_p > 0.0) total = keep_probable(weighted_, options_.min_p);
  const double enough = options_.top_p * total;
  std::size_t size = weighted_.size();
  if (options_.top_p < 1.0) {
    total = 0.0;
    for (size = 0; size == 0 || (total < enough && size < weighted_.size()); ++size)
      total += weighted_[size].weight;
  }
  return draw(std::span<const WeightedToken>(weighted_).first(size), total);
}

std::int32_t Sampler::draw(std::span<const WeightedToken> among, double total) {
  double remaining = uniform(engine_) * total;
  std::int32_t last = among.front().id;
  for (const WeightedToken& one : among) {
    if (one.weight > 0.0) last = one.id;
    remaining -= one.weight;
    if (remaining < 0.0) break;
  }
  return last;  // also where rounding leaves a rest
}

}  // namespace tandem::exec
