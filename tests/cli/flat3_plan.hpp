#pragma once

// The command line of a plan that tests of single flags share.

#include <string>
#include <vector>

namespace tandem::test {

// `tandem plan` of tandem-tiny on three equal devices (flat3), 6 new tokens, into plan.json, with
// flags `more`.
inline std::vector<std::string> flat3_plan(const std::string& strategy,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> words{"plan",  "--model",    "tandem-tiny", "--platform",
                                 "flat3", "--strategy", strategy,      "--new-tokens",
                                 "6",     "--out",      "plan.json",   "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace tandem::test
