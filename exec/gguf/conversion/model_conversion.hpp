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
  // Of the matrices; nothing: as stored, except that block formats, which a folder cannot hold, are
  // widened to f32. Matrices that are fused in a file have the format of the first.
  std::optional<model::WeightFormats> formats{};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};  // tensors
  int threads = 0;  // for converting, without effect on results; 0: the process's cores
};

// Writes the model of `weights`, with its tokenizer, as `out`, and removes what could be mistaken
// for a part of it. Norms, biases and positions are F32 in a GGUF file; in a folder they have the
// matrices' type if that represents them exactly, so that converting a folder to GGUF and back
// restores it. Returns one sentence on changed numbers and losses; empty: none. Throws Error (file,
// tensor or key, value, expected, remedy); leaves no partial file behind.
[[nodiscard]] std::string convert_model(const Conversion& conversion);

}  // namespace tandem::exec
