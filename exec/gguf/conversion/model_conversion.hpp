#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

struct Conversion {
  std::filesystem::path weights;  // a Hugging Face folder or a GGUF file
  std::filesystem::path out;      // a GGUF file if it ends in ".gguf", else a folder
  // Of the matrices; nothing: each stays as it is stored, but what a folder cannot hold, block
  // formats, is widened to f32. Matrices that a file fuses have that of the first.
  std::optional<model::WeightFormats> formats{};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};  // tensors
  int threads = 0;  // that convert, which changes no bit; 0: as many as this process has cores
};

// Writes the model of `weights`, its tokenizer included, as `out`, where nothing is left that could
// be taken for a part of it. Norms, biases and positions are F32 in a GGUF file; in a folder they
// have the matrices' type where that says them exactly, so that a folder that became a GGUF file
// becomes the same folder again. Returns what changed numbers, or was lost, one sentence; empty:
// nothing. Throws Error (file, tensor or key, value, expected, remedy); leaves no partial file
// behind.
[[nodiscard]] std::string convert_model(const Conversion& conversion);

}  // namespace tandem::exec
