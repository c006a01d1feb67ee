#include "planner/plan/workload.hpp"

#include <string>

#include "model/base/error.hpp"

namespace tandem::planner {

void Workload::validate(const model::Transformer& transformer) const {
  if (prompt_tokens < 1) {
    throw Error("prompt tokens: " + std::to_string(prompt_tokens) +
                ": expected at least 1; give --prompt-tokens or a longer prompt");
  }
  if (!transformer.architecture().generates() && new_tokens != 0) {
    throw Error("new tokens: " + std::to_string(new_tokens) + ": expected 0, as " +
                transformer.name + " is an encoder and generates none; leave them out");
  }
  if (transformer.architecture().generates() && new_tokens < 1) {
    throw Error("new tokens: " + std::to_string(new_tokens) +
                ": expected at least 1; give --new-tokens");
  }
  // Compared so that the sum cannot overflow.
  if (prompt_tokens > transformer.max_context ||
      new_tokens > transformer.max_context - prompt_tokens) {
    throw Error("prompt tokens " + std::to_string(prompt_tokens) + " and new tokens " +
                std::to_string(new_tokens) + ": expected at most " +
                std::to_string(transformer.max_context) + " together, the context of " +
                transformer.name + "; ask for fewer tokens");
  }
}

}  // namespace tandem::planner
