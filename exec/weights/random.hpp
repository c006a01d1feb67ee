#pragma once

#include <cstdint>
#include <filesystem>

#include "model/transformer.hpp"

namespace tandem::exec {

// Writes a Hugging Face folder of deterministic random weights: `config.json` and
// `model.safetensors` (split with an index above 4 GiB a file). Equal geometry, seed and dtype give
// equal bytes on every machine. Matrices are normal with standard deviation 0.02 scaled so that
// activations stay of order one, norms are near one. Throws Error (path, system's reason, remedy);
// leaves no partial file behind.
void write_random_weights(const model::Transformer& transformer, std::uint64_t seed,
                          model::DType dtype, const std::filesystem::path& folder);

}  // namespace tandem::exec
