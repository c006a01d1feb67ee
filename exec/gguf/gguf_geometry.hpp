#pragma once

// The model geometry of a GGUF file.

#include <string>
#include <string_view>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Divisors of a head's frequencies, for Llama 3.1 and later: [head_dim / 2].
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";
// LongRoPE's: [rotated / 2].
inline constexpr std::string_view kLongFactorsTensor = "rope_factors_long.weight";
inline constexpr std::string_view kShortFactorsTensor = "rope_factors_short.weight";

// tandem's own key: the factor of YaRN's cosines and sines.
inline constexpr std::string_view kRopeAttentionFactor = "tandem.rope.attention_factor";

// Properties of families that files do not contain, as in llama.cpp: whether the rows of each head
// of Q and K are in pairs, for rotations of neighbours; the scale of Gemma's scores (0: 1 /
// sqrt(head_dim)); the period of Gemma's layers without a window, if no key has it; SmolLM3's
// layers without positions.
[[nodiscard]] bool gguf_in_pairs(model::Family family);
// Returns whether the family's files may have rope_freqs.weight: llama.cpp loads no others with it.
[[nodiscard]] bool gguf_has_rope_factors(model::Family family);
[[nodiscard]] double gguf_attention_scale(const model::Transformer& transformer);
[[nodiscard]] std::int64_t gguf_window_period(model::Family family);
[[nodiscard]] std::vector<bool> gguf_windowed(std::int64_t layers, std::int64_t every);
[[nodiscard]] std::vector<bool> gguf_unrotated(std::int64_t layers);
// Returns YaRN's factor of cosines and sines in addition to a file's own factor.
[[nodiscard]] double gguf_yarn_growth(double factor);

// Llama with YaRN, whose cosines do not grow and whose queries do.
inline constexpr std::string_view kMistral3 = "mistral3";

// Returns GGUF's name of a family; empty if its files cannot be read.
[[nodiscard]] std::string_view gguf_name(model::Family family);

// Returns the geometry, without formats; without a general.name the name is the file's. Reads the
// architectures of gguf_name. Throws Error (file, key or tensor, value, expected, remedy) for any
// other, and for a key of the architecture that is neither read nor known to change nothing, as it
// may change what the model computes. The factors of rope_freqs.weight must be those of Llama 3.1's
// rule (config.json's "llama3") and are recognised as such, so that folder and file are one model.
[[nodiscard]] model::Transformer gguf_geometry(const GgufFile& file);

// Returns the factors of a model's rotation in the form of rope_freqs.weight; empty if it has none.
[[nodiscard]] std::vector<float> rope_factors(const model::Transformer& transformer);

}  // namespace tandem::exec
