#include "model/transformer/architecture.hpp"

#include <stdexcept>
#include <utility>

namespace tandem::model {
namespace {

constexpr Architecture kLlamaArchitecture{};

// Radford et al. 2019; Hugging Face's modeling_gpt2.
constexpr Architecture kGpt2Architecture{.norm = Norm::layer,
                                         .gated = false,
                                         .qkv_bias = true,
                                         .out_bias = true,
                                         .ffn_bias = true,
                                         .positions = Positions::learned};

// Zhang et al. 2022: GPT-2's, but positions begin at 2.
constexpr Architecture kOptArchitecture{.norm = Norm::layer,
                                        .gated = false,
                                        .qkv_bias = true,
                                        .out_bias = true,
                                        .ffn_bias = true,
                                        .positions = Positions::learned,
                                        .position_offset = 2};

// Devlin et al. 2019. DistilBERT (Sanh et al. 2019) is the same without token types, which are a
// matter of config.json.
constexpr Architecture kBertArchitecture{.norm = Norm::layer,
                                         .norm_place = NormPlace::after,
                                         .gated = false,
                                         .qkv_bias = true,
                                         .out_bias = true,
                                         .ffn_bias = true,
                                         .positions = Positions::learned,
                                         .mask = Mask::full,
                                         .outcome = Outcome::hidden};

constexpr Architecture kGlmArchitecture{.qkv_bias = true};
constexpr Architecture kQwen2Architecture{.qkv_bias = true};
constexpr Architecture kQwen3Architecture{.head_norms = true};
// Gemma Team 2024 and 2025.
constexpr Architecture kGemma2Architecture{.sum_norms = true, .scaled_embedding = true};
constexpr Architecture kGemma3Architecture{
    .head_norms = true, .sum_norms = true, .scaled_embedding = true};

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

const Architecture& architecture_of(Family family) {
  switch (family) {
    case Family::llama:  // what else these are is in their config.json
    case Family::phi3:
    case Family::granite:
    case Family::smollm3:
      return kLlamaArchitecture;
    case Family::qwen2:
      return kQwen2Architecture;
    case Family::qwen3:
      return kQwen3Architecture;
    case Family::gemma2:
      return kGemma2Architecture;
    case Family::gemma3:
      return kGemma3Architecture;
    case Family::gpt2:
      return kGpt2Architecture;
    case Family::opt:
      return kOptArchitecture;
    case Family::bert:
    case Family::distilbert:
      return kBertArchitecture;
    case Family::glm:
      return kGlmArchitecture;
  }
  throw std::logic_error("family out of range");
}

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

std::string_view to_string(Family family) {
  switch (family) {
    case Family::llama:
      return "llama";
    case Family::gpt2:
      return "gpt2";
    case Family::opt:
      return "opt";
    case Family::bert:
      return "bert";
    case Family::distilbert:
      return "distilbert";
    case Family::glm:
      return "glm";
    case Family::qwen2:
      return "qwen2";
    case Family::qwen3:
      return "qwen3";
    case Family::gemma2:
      return "gemma2";
    case Family::gemma3:
      return "gemma3";
    case Family::phi3:
      return "phi3";
    case Family::granite:
      return "granite";
    case Family::smollm3:
      return "smollm3";
  }
  throw std::logic_error("family out of range");
}

}  // namespace tandem::model
