#include "study/experiment/csps_two_modes.hpp"

#include <cmath>

#include "model/base/error.hpp"
#include "planner/serving/drawn_requests.hpp"

namespace tandem::study {
namespace {

CspsTwoModes two_modes(const planner::DrawnLengths& prompt, double least, std::size_t count) {
  CspsTwoModes modes{.least = std::llround(least)};
  const std::size_t lower = count / 2;
  modes.tokens.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double quantile = (static_cast<double>(i) + 0.5) / static_cast<double>(lower);
    modes.tokens.push_back(
        std::llround(i < lower ? least * std::pow(prompt.median / least, quantile) : prompt.p99));
  }
  return modes;
}

}  // namespace

double CspsTwoModes::deviation() const {
  const auto count = static_cast<double>(tokens.size());
  double mean = 0.0;
  double square = 0.0;
  for (const std::int64_t length : tokens) {
    const auto x = static_cast<double>(length);
    mean += x / count;
    square += x * x / count;
  }
  return std::sqrt(square - mean * mean);
}

CspsTwoModes csps_two_modes(const CspsLengths& lengths, std::size_t count) {
  require(count >= 2, "csps: two modes of two prompts or more");
  // The shorter the lower half, the larger the deviation.
  double low = static_cast<double>(kCspsShortest);
  double high = lengths.prompt.median;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (two_modes(lengths.prompt, middle, count).deviation() < lengths.prompt_deviation ? high : low) =
        middle;
  }
  return two_modes(lengths.prompt, low, count);
}

std::vector<planner::InferenceRequest> csps_two_mode_requests(const CspsLengths& lengths,
                                                              std::size_t count) {
  std::vector<planner::InferenceRequest> requests =
      planner::drawn_requests({.count = static_cast<std::int64_t>(count),
                               .prompt = lengths.prompt,
                               .output = lengths.output});
  const CspsTwoModes modes = csps_two_modes(lengths, count);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].prompt_tokens = modes.tokens[i];
  return requests;
}

}  // namespace tandem::study
