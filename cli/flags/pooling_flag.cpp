#include "cli/flags/pooling_flag.hpp"

#include <algorithm>

namespace tandem::cli {

exec::TextDeskLimits text_desk_limits(const Options& options, const ServiceJob& job) {
  const exec::SentenceSettings settings = exec::read_sentence_settings(job.weights);
  const std::string_view usual =
      settings.pooling != nullptr ? settings.pooling->name : exec::poolings().front().name;
  const std::string name = options.choice_or(kPoolingFlag.name, usual, {"mean", "cls", "max"});
  if (settings.pooling != nullptr && name != usual)
    throw Usage("flag '--pooling': '" + name + "', but the model's 1_Pooling/config.json has '" +
                std::string(usual) + "'; leave the flag out");
  exec::TextDeskLimits limits{.tokens = planner::longest_text(job.service),
                              .width = static_cast<std::size_t>(job.service.plan.model.hidden),
                              .pooling = exec::find_pooling(name)};
  if (settings.most_tokens) limits.tokens = std::min(limits.tokens, *settings.most_tokens);
  return limits;
}

}  // namespace tandem::cli
