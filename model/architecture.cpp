#include "model/architecture.hpp"

#include <stdexcept>
#include <utility>

namespace tandem::model {
namespace {

constexpr Architecture kLlama{};

// Radford et al. 2019; Hugging Face's modeling_gpt2.
constexpr Architecture kGpt2{.norm = Norm::layer,
                             .gated = false,
                             .qkv_bias = true,
                             .out_bias = true,
                             .ffn_bias = true,
                             .positions = Positions::learned};

// Zhang et al. 2022: GPT-2's, but positions begin at 2.
constexpr Architecture kOpt{.norm = Norm::layer,
                            .gated = false,
                            .qkv_bias = true,
                            .out_bias = true,
                            .ffn_bias = true,
                            .positions = Positions::learned,
                            .position_offset = 2};

// Devlin et al. 2019. DistilBERT (Sanh et al. 2019) is the same without token types, which are a
// matter of config.json.
constexpr Architecture kBert{.norm = Norm::layer,
                             .norm_place = NormPlace::after,
                             .gated = false,
                             .qkv_bias = true,
                             .out_bias = true,
                             .ffn_bias = true,
                             .positions = Positions::learned,
                             .mask = Mask::full,
                             .outcome = Outcome::hidden};

constexpr Architecture kGlm{.qkv_bias = true};

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
    case Family::llama:
      return kLlama;
    case Family::gpt2:
      return kGpt2;
    case Family::opt:
      return kOpt;
    case Family::bert:
    case Family::distilbert:
      return kBert;
    case Family::glm:
      return kGlm;
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
  }
  throw std::logic_error("family out of range");
}

}  // namespace tandem::model
