#include "cli/flags/sampling_flags.hpp"

#include <cstdint>
#include <limits>

namespace tandem::cli {

exec::SamplingOptions sampling_of(const Options& options) {
  const exec::SamplingOptions sampling{
      .temperature = options.number_or("temperature", 0.0, 0.0, 1e6),
      .top_p = options.number_or("top-p", 1.0, 0.0, 1.0),
      .seed = static_cast<std::uint64_t>(
          options.integer_or("seed", 0, 0, std::numeric_limits<std::int64_t>::max())),
      .top_k = options.integer_or("top-k", 0, 1, std::numeric_limits<std::int32_t>::max())};
  static_cast<void>(exec::Sampler(sampling));  // refuses bad values before anything is started
  if (sampling.temperature == 0.0)
    options.refuse({"top-k", "top-p", "seed"},
                   "at temperature 0, which takes the likeliest token; give '--temperature'");
  return sampling;
}

}  // namespace tandem::cli
