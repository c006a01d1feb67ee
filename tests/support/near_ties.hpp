#pragma once

// Texts that two ways of computing give.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::testing {

// Checks tokens and logits of `got` against what one device computes: logits within `limit` times
// the largest of their step, and the same tokens. Where one device's logits of two tokens are
// nearer to each other than that, either may be chosen, and what follows is another text, which is
// not compared.
template <class Got>
void check_text(const Got& got, const std::vector<std::int32_t>& tokens,
                const std::vector<std::vector<float>>& logits, float limit) {
  REQUIRE(got.tokens.size() == tokens.size());
  REQUIRE(got.logits.size() == logits.size());
  for (std::size_t step = 0; step < tokens.size(); ++step) {
    const std::vector<float>& wanted = logits[step];
    REQUIRE(got.logits[step].size() == wanted.size());
    float worst = 0.0F;
    float largest = 0.0F;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      worst = std::max(worst, std::abs(got.logits[step][i] - wanted[i]));
      largest = std::max(largest, std::abs(wanted[i]));
    }
    CAPTURE(step);
    CHECK(worst <= limit * largest);
    const std::int32_t token = got.tokens[step];
    if (token == tokens[step]) continue;
    CHECK(wanted[static_cast<std::size_t>(tokens[step])] -
              wanted[static_cast<std::size_t>(token)] <=
          2 * limit * largest);
    return;
  }
}

}  // namespace tandem::testing
