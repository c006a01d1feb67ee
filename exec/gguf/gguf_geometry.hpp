#pragma once

// What a GGUF file says of its model.

#include <string>
#include <string_view>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

// Frequencies of a head divided by these numbers, of Llama 3.1 and later: [head_dim / 2].
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";

// What GGUF calls a family; nothing for one whose files are not read.
[[nodiscard]] std::string_view gguf_name(model::Family family);

// The geometry, formats apart; without a general.name the name is the file's. Files of
// architectures llama (of Mistral's models too) and gpt2 are read. Throws Error (file, key or
// tensor, value, expected, remedy) for any other, and for a key of the architecture that is neither
// read nor known to change nothing, as it may change what the model computes. The factors of
// rope_freqs.weight have to be those that Llama 3.1's rule gives (config.json's "llama3"): found
// again as such, so that folder and file are one model.
[[nodiscard]] model::Transformer gguf_geometry(const GgufFile& file);

// The factors of a model's rotation as rope_freqs.weight has them; empty if it has none.
[[nodiscard]] std::vector<float> rope_factors(const model::Transformer& transformer);

}  // namespace tandem::exec
