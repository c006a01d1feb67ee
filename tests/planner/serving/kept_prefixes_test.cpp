// The index of kept sequences against a list that is searched from end to end.

#include "planner/serving/kept_prefixes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tandem::test::kept_prefixes_test {
namespace {

using planner::KeptPrefixes;
using Tokens = std::vector<std::int32_t>;

struct Listed {
  std::int32_t sequence = 0;
  Tokens tokens;
};

std::int64_t common(const Tokens& a, const Tokens& b) {
  std::size_t count = 0;
  while (count < a.size() && count < b.size() && a[count] == b[count]) ++count;
  return static_cast<std::int64_t>(count);
}

TEST_CASE("planner/kept prefixes: the longest common prefix and the eviction of a plain list") {
  std::mt19937 random(5);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    // Two letters have long prefixes in common, and texts of one letter are prefixes of each other.
    const int letters = draw(1, 3);
    const auto text = [&](int least) {
      Tokens tokens(static_cast<std::size_t>(draw(least, 12)));
      for (std::int32_t& token : tokens) token = draw(-1, letters - 2);
      return tokens;
    };
    KeptPrefixes kept;
    std::vector<Listed> listed;  // the least recently used first
    const auto use = [&](std::int32_t sequence) {
      const auto found = std::ranges::find(listed, sequence, &Listed::sequence);
      if (found != listed.end()) std::rotate(found, found + 1, listed.end());
    };
    for (std::int32_t i = 0; i < 60; ++i) {
      const int what = draw(0, 9);
      if (what < 5) {
        const Tokens tokens = text(1);
        // Of several that begin with it the first one in order of tokens.
        auto longer = listed.end();
        for (auto one = listed.begin(); one != listed.end(); ++one) {
          if (common(tokens, one->tokens) == std::ssize(tokens) &&
              (longer == listed.end() || one->tokens < longer->tokens))
            longer = one;
        }
        const auto shorter = std::ranges::find_if(listed, [&](const Listed& other) {
          return common(tokens, other.tokens) == std::ssize(other.tokens);
        });
        const auto unneeded = kept.keep(i, tokens);
        if (longer != listed.end()) {
          CHECK(unneeded == i);
          use(longer->sequence);
        } else {
          CHECK(unneeded.has_value() == (shorter != listed.end()));
          if (shorter != listed.end()) {
            CHECK(unneeded == shorter->sequence);
            listed.erase(shorter);
          }
          listed.push_back({i, tokens});
        }
      } else if (what == 5) {
        const auto evicted = kept.evict();
        CHECK(evicted.has_value() == !listed.empty());
        if (!listed.empty()) {
          CHECK(evicted == listed.front().sequence);
          listed.erase(listed.begin());
        }
      } else if (what == 6) {
        const std::int32_t sequence = draw(0, i);
        kept.use(sequence);
        use(sequence);
      }
      const Tokens wanted = text(0);
      std::int64_t best = 0;
      std::int64_t tokens = 0;
      for (const Listed& one : listed) {
        best = std::max(best, common(wanted, one.tokens));
        tokens += std::ssize(one.tokens);
      }
      const KeptPrefixes::Match match = kept.find(wanted);
      CHECK(match.tokens == best);
      if (best > 0) {
        const auto found = std::ranges::find(listed, match.sequence, &Listed::sequence);
        REQUIRE(found != listed.end());
        CHECK(common(wanted, found->tokens) == best);
      }
      CHECK(kept.size() == listed.size());
      CHECK(kept.tokens() == tokens);
    }
  }
}

}  // namespace
}  // namespace tandem::test::kept_prefixes_test
