#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

inline constexpr std::uint64_t kWeightsFileLimit = std::uint64_t{4} << 30U;  // bytes

// Writes a Hugging Face folder of deterministic random weights: `config.json` and
// `model.safetensors` (split with an index if one file would exceed `file_limit` bytes of tensors).
// Equal geometry, seed and dtype give equal bytes on every machine. Matrices are near-normal
// (random_values) with standard deviation 1 / sqrt(inputs) times a gain that keeps hidden states of
// order one, attention selective and logits well apart; norms are near one, biases near zero.
// Throws Error (path, system's reason, remedy); leaves no partial file behind.
void write_random_weights(const model::Transformer& transformer, std::uint64_t seed,
                          model::DType dtype, const std::filesystem::path& folder,
                          std::uint64_t file_limit = kWeightsFileLimit);

// Elements first, first + 1, ... of the tensor `name`: mean + deviation * n, where n is the
// standardised sum of four 16-bit uniforms (mean 0, variance 1, |n| < 3.47) of a 64-bit hash of
// seed, name and the element's index. Integer arithmetic but for one product and one sum, each
// rounded once: equal on every machine.
void random_values(std::uint64_t seed, std::string_view name, std::uint64_t first, float mean,
                   float deviation, std::span<float> out);

}  // namespace tandem::exec
