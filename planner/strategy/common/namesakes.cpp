#include "planner/strategy/common/namesakes.hpp"

#include <string>

#include "model/base/word_list.hpp"

namespace tandem::planner {
namespace {

// "tpillm" of "TPI-LLM".
std::string letters_of(std::string_view name) {
  std::string text = model::lower_case(name);
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; });
  return text;
}

}  // namespace

std::string namesakes_of(const Strategy& strategy) {
  std::string names;
  for (const Namesake& one : strategy.namesakes)
    names.append(names.empty() ? "" : ", ").append(one.name);
  return names;
}

std::string namesake_remedy(std::string_view name) {
  const std::string wanted = letters_of(name);
  for (const Strategy& strategy : strategies()) {
    for (const Namesake& one : strategy.namesakes) {
      if (letters_of(one.name) != wanted) continue;
      std::string flags = "--strategy " + strategy.name;
      if (!one.flags.empty()) flags.append(" ").append(one.flags);
      return "; '" + flags + "' corresponds to it";
    }
  }
  return {};
}

}  // namespace tandem::planner
