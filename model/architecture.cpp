#include "model/architecture.hpp"

#include <stdexcept>

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
