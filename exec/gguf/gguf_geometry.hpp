#pragma once

// What a GGUF file says of its model.

#include <string>
#include <string_view>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Frequencies of a head divided by these numbers, of Llama 3.1 and later: [head_dim / 2].
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";
// LongRoPE's: [rotated / 2].
inline constexpr std::string_view kLongFactorsTensor = "rope_factors_long.weight";
inline constexpr std::string_view kShortFactorsTensor = "rope_factors_short.weight";

// tandem's own: by what YaRN multiplies cosines and sines in all.
inline constexpr std::string_view kRopeAttentionFactor = "tandem.rope.attention_factor";

// What files of a family do not say, as llama.cpp knows it. Whether the rows of each head of Q and
// K are in pairs, for rotations of neighbours; the scale of Gemma's scores (0: 1 / sqrt(head_dim));
// every which of Gemma's layers has no window, where no key says it; SmolLM3's layers without
// positions.
[[nodiscard]] bool gguf_in_pairs(model::Family family);
// Whether rope_freqs.weight belongs to the family's files: llama.cpp loads no other file with it.
[[nodiscard]] bool gguf_has_rope_factors(model::Family family);
[[nodiscard]] double gguf_attention_scale(const model::Transformer& transformer);
[[nodiscard]] std::int64_t gguf_window_period(model::Family family);
[[nodiscard]] std::vector<bool> gguf_windowed(std::int64_t layers, std::int64_t every);
[[nodiscard]] std::vector<bool> gguf_unrotated(std::int64_t layers);
// By what YaRN multiplies cosines and sines beside a file's own factor.
[[nodiscard]] double gguf_yarn_growth(double factor);

// Llama with YaRN of which cosines do not grow, and queries that do.
inline constexpr std::string_view kMistral3 = "mistral3";

// What GGUF calls a family; nothing for one whose files are not read.
[[nodiscard]] std::string_view gguf_name(model::Family family);

// The geometry, formats apart; without a general.name the name is the file's. Files of the
// architectures that gguf_name names are read. Throws Error (file, key or
// tensor, value, expected, remedy) for any other, and for a key of the architecture that is neither
// read nor known to change nothing, as it may change what the model computes. The factors of
// rope_freqs.weight have to be those that Llama 3.1's rule gives (config.json's "llama3"): found
// again as such, so that folder and file are one model.
[[nodiscard]] model::Transformer gguf_geometry(const GgufFile& file);

// The factors of a model's rotation as rope_freqs.weight has them; empty if it has none.
[[nodiscard]] std::vector<float> rope_factors(const model::Transformer& transformer);

}  // namespace tandem::exec
