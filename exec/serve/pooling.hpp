#pragma once

// How the hidden states of a text's tokens become one vector, its embedding.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// One of the modes of sentence-transformers' module Pooling, whose definitions these are.
struct Pooling {
  std::string_view name;  // as of `tandem serve --pooling`
  std::string_view key;   // in 1_Pooling/config.json
  std::string_view summary;
  // Returns the vector of `states`, [tokens, width] with a token at least.
  std::vector<float> (*pool)(std::span<const float> states, std::size_t width);
};

// Returns all, the usual one first.
[[nodiscard]] std::span<const Pooling> poolings();
// Null: no such name.
[[nodiscard]] const Pooling* find_pooling(std::string_view name);

// Returns `vector` at length 1, as clients of embeddings expect; one of zeros as it is.
[[nodiscard]] std::vector<float> unit_vector(std::vector<float> vector);

// What the files of sentence-transformers beside an encoder's weights state.
struct SentenceSettings {
  const Pooling* pooling = nullptr;           // null: they state none
  std::optional<std::int64_t> most_tokens{};  // of a text
};

// Reads modules.json, 1_Pooling/config.json and sentence_bert_config.json in `folder`, as far as
// they are there. Throws Error (file, field, remedy) for what would change the vectors and is not
// computed here: another module than Transformer, Pooling and Normalize, several modes of pooling
// at once or an unknown one, and lower case.
[[nodiscard]] SentenceSettings read_sentence_settings(const std::filesystem::path& folder);

}  // namespace tandem::exec
