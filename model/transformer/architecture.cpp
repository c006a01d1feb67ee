#include "model/transformer/architecture.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace tandem::model {
namespace {

struct FamilyRow {
  Family family;
  std::string_view name;
  Architecture architecture{};
};

// Radford et al. 2019; Hugging Face's modeling_gpt2.
constexpr Architecture kGpt2Architecture{.norm = Norm::layer,
                                         .gated = false,
                                         .qkv_bias = true,
                                         .out_bias = true,
                                         .ffn_bias = true,
                                         .positions = Positions::learned};

// Zhang et al. 2022: GPT-2's, but positions begin at 2.
constexpr Architecture kOptArchitecture = [] {
  Architecture opt = kGpt2Architecture;
  opt.position_offset = 2;
  return opt;
}();

// Devlin et al. 2019. DistilBERT (Sanh et al. 2019) has no token types, which config.json says.
constexpr Architecture kBertArchitecture = [] {
  Architecture bert = kGpt2Architecture;
  bert.norm_place = NormPlace::after;
  bert.mask = Mask::full;
  bert.outcome = Outcome::hidden;
  return bert;
}();

// In the order of the enumerators. What else families differ in is in their config.json.
constexpr std::array kFamilies{
    FamilyRow{Family::llama, "llama"}, FamilyRow{Family::gpt2, "gpt2", kGpt2Architecture},
    FamilyRow{Family::opt, "opt", kOptArchitecture},
    FamilyRow{Family::bert, "bert", kBertArchitecture},
    FamilyRow{Family::distilbert, "distilbert", kBertArchitecture},
    FamilyRow{Family::glm, "glm", {.qkv_bias = true}},
    FamilyRow{Family::qwen2, "qwen2", {.qkv_bias = true}},
    FamilyRow{Family::qwen3, "qwen3", {.head_norms = true}},
    // Gemma Team 2024 and 2025.
    FamilyRow{Family::gemma2, "gemma2", {.sum_norms = true, .scaled_embedding = true}},
    FamilyRow{Family::gemma3,
              "gemma3",
              {.head_norms = true, .sum_norms = true, .scaled_embedding = true}},
    FamilyRow{Family::phi3, "phi3"}, FamilyRow{Family::granite, "granite"},
    FamilyRow{Family::smollm3, "smollm3"}, FamilyRow{Family::mixtral, "mixtral"},
    FamilyRow{Family::qwen2_moe, "qwen2_moe", {.qkv_bias = true}},
    FamilyRow{Family::qwen3_moe, "qwen3_moe", {.head_norms = true}},
    FamilyRow{Family::gpt_oss,
              "gpt_oss",
              {.qkv_bias = true, .out_bias = true, .ffn_bias = true, .sinks = true}},
    FamilyRow{Family::deepseek, "deepseek"},
    FamilyRow{Family::glm4_moe, "glm4_moe", {.qkv_bias = true, .head_norms = true}},
    FamilyRow{Family::llama4, "llama4"},
    // Its norms are of all heads' queries and of all keys: a millionth more.
    FamilyRow{Family::minimax_m2, "minimax_m2", {.head_norms = true}}};
static_assert(
    [] {
      for (std::size_t i = 0; i < kFamilies.size(); ++i) {
        if (static_cast<std::size_t>(kFamilies.at(i).family) != i) return false;
      }
      return true;
    }(),
    "rows are in the order of the enumerators");

// Throws out_of_range for a number that is no family.
const FamilyRow& row_of(Family family) { return kFamilies.at(static_cast<std::size_t>(family)); }

// The first name of an activation is the one that is written.
constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"relu", Activation::relu},
};

}  // namespace

const Architecture& architecture_of(Family family) { return row_of(family).architecture; }

std::string_view to_string(Family family) { return row_of(family).name; }

std::string_view to_string(Activation activation) {
  for (const auto& [name, value] : kActivations) {
    if (value == activation) return name;
  }
  throw std::logic_error("activation out of range");
}

std::optional<Activation> activation_of(std::string_view name) {
  for (const auto& [known, value] : kActivations) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace tandem::model
