#include "exec/compute/grammar_mask.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "model/base/error.hpp"

namespace tandem::exec {

std::span<const float> GrammarMask::apply(std::span<const float> logits) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  constexpr std::size_t kBits = 64;
  walk_.allow(allowed_);
  require((logits.size() + kBits - 1) / kBits == allowed_.size(), "grammar: a logit a token");
  masked_.assign(logits.size(), kExcluded);
  for (std::size_t word = 0; word < allowed_.size(); ++word) {
    const std::size_t first = word * kBits;
    if (~allowed_[word] == 0 && first + kBits <= logits.size()) {  // within strings most are
      for (std::size_t i = first; i < first + kBits; ++i)
        masked_[i] = std::max(logits[i], std::numeric_limits<float>::lowest());
      continue;
    }
    for (std::uint64_t left = allowed_[word]; left != 0; left &= left - 1) {
      const std::size_t i = first + static_cast<std::size_t>(std::countr_zero(left));
      masked_[i] = std::max(logits[i], std::numeric_limits<float>::lowest());
    }
  }
  return masked_;
}

}  // namespace tandem::exec
