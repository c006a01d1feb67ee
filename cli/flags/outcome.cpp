#include "cli/flags/outcome.hpp"

#include "cli/flags/sampling_flags.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {

namespace {

constexpr const char* kEncoder = ", which is an encoder and generates no tokens";

}  // namespace

std::int64_t new_tokens(const Options& options, const model::Transformer& transformer,
                        std::int64_t absent) {
  if (transformer.architecture().generates())
    return options.integer_or("new-tokens", absent, 1, 1 << 30);
  options.refuse({"new-tokens"}, "with " + transformer.name + kEncoder);
  return 0;
}

void check_outcome(const Options& options, const model::Transformer& transformer) {
  if (transformer.architecture().generates()) {
    options.refuse({"hidden"}, "with " + transformer.name + ", which is not an encoder");
  } else {
    const std::string when = "with " + transformer.name + kEncoder;
    options.refuse({"new-tokens", "ignore-eos", "logits"}, when);
    refuse_sampling(options, when);
  }
}

std::string to_text(const planner::Workload& workload) {
  const std::string prompt = std::to_string(workload.prompt_tokens);
  if (workload.new_tokens == 0) return prompt + " tokens, one pass";
  return prompt + " prompt and " + std::to_string(workload.new_tokens) + " new tokens";
}

}  // namespace tandem::cli
