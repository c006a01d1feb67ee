#include "planner/strategy/common/namesakes.hpp"

#include <algorithm>
#include <array>

#include "model/base/word_list.hpp"

namespace tandem::planner {
namespace {

constexpr std::array kNamesakes{
    Namesake{"ollama", "local"},
    Namesake{"tpi-llm", "tensor"},
    Namesake{"megatron", "tensor"},
    Namesake{"megatron-lm", "tensor"},
    Namesake{"distributed-llama", "tensor", "--wire-type q8_0"},
    Namesake{"vllm", "tensor"},
    Namesake{"mdi-llm", "pipeline", "--samples M --policy recurrent"},
    Namesake{"prima.cpp", "pipeline", "--partition halda"},
    Namesake{"llama.cpp", "pipeline"},
    Namesake{"exo", "pipeline"},
    Namesake{"petals", "pipeline"},
    Namesake{"edgeshard", "pipeline"},
    Namesake{"mesh-llm", "pipeline"},
    Namesake{"cake", "pipeline"},
    Namesake{"megatron-sp", "galaxy"},
    Namesake{"deepspeed-ulysses", "csps"},
    Namesake{"ulysses", "csps"},
    Namesake{"sequence-parallel", "sp"},
    Namesake{"context-parallel", "spread"},
};

// "tpillm" of "TPI-LLM".
std::string letters_of(std::string_view name) {
  std::string text = model::lower_case(name);
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; });
  return text;
}

}  // namespace

std::span<const Namesake> namesakes() { return kNamesakes; }

std::string namesakes_of(std::string_view strategy) {
  std::string names;
  for (const Namesake& one : kNamesakes) {
    if (one.strategy == strategy) names.append(names.empty() ? "" : ", ").append(one.name);
  }
  return names;
}

std::string namesake_remedy(std::string_view name) {
  const std::string wanted = letters_of(name);
  const auto found = std::ranges::find_if(
      kNamesakes, [&](const Namesake& one) { return letters_of(one.name) == wanted; });
  if (found == kNamesakes.end()) return {};
  std::string flags = "--strategy " + std::string(found->strategy);
  if (!found->flags.empty()) flags.append(" ").append(found->flags);
  return "; '" + flags + "' corresponds to it";
}

}  // namespace tandem::planner
