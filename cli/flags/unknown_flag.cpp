#include "cli/flags/unknown_flag.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "model/base/plain_text.hpp"

namespace tandem::cli {
namespace {

// A flag of other commands or programs, and what may stand for it here.
struct OtherName {
  std::string_view word;
  std::array<std::string_view, 2> here;  // the first that the command has
};

constexpr std::array kOtherNames{
    OtherName{"model", {"weights", ""}},        OtherName{"weights", {"model", ""}},
    OtherName{"port", {"listen", ""}},          OtherName{"host", {"listen", "hosts"}},
    OtherName{"address", {"listen", "hosts"}},  OtherName{"bind", {"listen", ""}},
    OtherName{"nodes", {"hosts", ""}},          OtherName{"workers", {"hosts", ""}},
    OtherName{"output", {"out", ""}},           OtherName{"quantization", {"dtype", ""}},
    OtherName{"quant", {"dtype", ""}},          OtherName{"max-tokens", {"new-tokens", ""}},
    OtherName{"n-predict", {"new-tokens", ""}}, OtherName{"temp", {"temperature", ""}},
};

// What 'tandem plan' is given, and a plan file keeps.
constexpr std::array<std::string_view, 20> kPlanned{
    "allreduce", "cache-type", "devices",      "dtype",    "groups",    "head",   "master",
    "model",     "objective",  "partition",    "platform", "profile",   "rounds", "prompt-tokens",
    "strategy",  "tiles",      "memory-limit", "window",   "wire-type", "levels"};

std::string spelled(const Flag& flag) {
  return "--" + std::string(flag.name) + (flag.value.empty() ? "" : " " + std::string(flag.value));
}

const Flag* find_flag(const Syntax& syntax, std::string_view name) {
  const auto at = std::ranges::find(syntax.flags, name, &Flag::name);
  return at == syntax.flags.end() ? nullptr : &*at;
}

bool takes_plan(const Syntax& syntax) {
  return std::ranges::any_of(syntax.positionals, [](std::string_view positional) {
    return positional.find("plan.json") != std::string_view::npos;
  });
}

}  // namespace

std::string unknown_flag(const std::string& token, const Syntax& syntax) {
  const std::size_t begin = std::min(token.size(), token.find_first_not_of('-'));
  const std::string word = token.substr(begin, std::min(token.find('='), token.size()) - begin);
  std::string message = "unknown flag '" + token + "'";
  const std::string help =
      "; see '" + std::string(program().name) + " help " + std::string(syntax.command) + "'";
  const auto other = std::ranges::find(kOtherNames, word, &OtherName::word);
  if (other != kOtherNames.end()) {
    for (const std::string_view name : other->here) {
      const Flag* const flag = find_flag(syntax, name);
      if (flag == nullptr) continue;
      message.append(", did you mean '").append(spelled(*flag)).append("'?").append(help);
      return message;
    }
  }
  if (takes_plan(syntax) && word == "plan")
    return message + ", as the plan is the argument plan.json" + help;
  if (takes_plan(syntax) && std::ranges::find(kPlanned, word) != kPlanned.end())
    return message + ", as the argument plan.json fixes it; 'tandem plan --" + word +
           "' makes another plan" + help;
  std::vector<std::string_view> names;
  names.reserve(syntax.flags.size() + 1);
  for (const Flag& flag : syntax.flags) names.push_back(flag.name);
  names.push_back("help");
  const std::string_view guess = model::nearest(word, names);
  return message + (guess.empty() ? "" : ", did you mean '--" + std::string(guess) + "'?") + help;
}

}  // namespace tandem::cli
