#pragma once

// What the files of a model store, as 'model inspect' tells it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::cli {

struct StoredTensors {
  struct Sum {
    std::int64_t tensors = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Sum> by_format;  // "f32", "q4_k"; of a type that is not read "i32"
  Sum all;
  model::WeightFormats matrices;  // as they are, whether or not a plan can have them
};

// Of `weights`, a folder or a GGUF file of `transformer`. Throws Error if it cannot be read.
[[nodiscard]] StoredTensors stored_tensors(const std::filesystem::path& weights,
                                           const model::Transformer& transformer);

// Adds "stored_bytes", "stored_formats" (tensors and bytes of each) and "stored_weights", which
// says the matrices' formats as a plan's "model.weights" does; null without `stored`.
void add_stored(const StoredTensors* stored, nlohmann::ordered_json& json);

// "1.1 MiB in 39 tensors: f32 13 (12 KiB), q4_k 20 (...".
[[nodiscard]] std::string stored_text(const StoredTensors& stored);
// "q8_0", or the name of a mix and what differs, layers in the end: "q4_k_m: query_key_value q4_k,
// ...; value, down q6_k in layers 0-1, 4".
[[nodiscard]] std::string matrices_text(const StoredTensors& stored,
                                        const model::Transformer& transformer);

}  // namespace tandem::cli
