#include "cli/flags/sampling_flags.hpp"

#include <cstdint>
#include <limits>

#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

constexpr Flag kTopK{"top-k", "N", "with --temperature: from the N likeliest [all]"};

double number_of(const Options& options, const planner::SamplingNumber& number) {
  const double x = options.number_or(number.flag, exec::SamplingOptions().*number.value,
                                     number.least, number.most);
  if (number.allows(x)) return x;
  throw Error("flag '--" + std::string(number.flag) + "': '" + options.required(number.flag) +
              "', expected " + std::string(number.expected));
}

}  // namespace

std::vector<Flag> sampling_flags() {
  std::vector<Flag> flags;
  for (const planner::SamplingNumber& number : planner::sampling_numbers()) {
    if (number.name == "top_p") flags.push_back(kTopK);  // in the order of their effect
    flags.push_back({number.flag, "X", number.help});
  }
  return flags;
}

exec::SamplingOptions sampling_of(const Options& options) {
  constexpr const char* kGreedy =
      "at temperature 0, which takes the likeliest token; give '--temperature'";
  exec::SamplingOptions sampling;
  for (const planner::SamplingNumber& number : planner::sampling_numbers())
    sampling.*number.value = number_of(options, number);
  sampling.seed = static_cast<std::uint64_t>(
      options.integer_or("seed", 0, 0, std::numeric_limits<std::int64_t>::max()));
  sampling.top_k = options.integer_or("top-k", 0, 1, std::numeric_limits<std::int32_t>::max());
  if (sampling.temperature > 0.0) return sampling;
  for (const planner::SamplingNumber& number : planner::sampling_numbers()) {
    if (number.needs_temperature) options.refuse({number.flag}, kGreedy);
  }
  options.refuse({kTopK.name, "seed"}, kGreedy);
  return sampling;
}

void refuse_sampling(const Options& options, const std::string& when) {
  for (const Flag& flag : sampling_flags()) options.refuse({flag.name}, when);
  options.refuse({"seed"}, when);
}

}  // namespace tandem::cli
