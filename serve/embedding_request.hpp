#pragma once

// Requests and answers of /v1/embeddings of OpenAI's API.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api_error.hpp"

namespace tandem::serve {

enum class VectorEncoding {
  numbers,  // a list of numbers
  base64    // of 32-bit floating-point numbers, little-endian
};

struct EmbeddingRequest {
  using Input = std::variant<std::string, std::vector<std::int32_t>>;  // a text or its tokens
  std::vector<Input> inputs{};
  bool is_list = false;  // of inputs, which errors then number
  std::string model{};   // empty: not named
  VectorEncoding encoding = VectorEncoding::numbers;
  std::optional<std::int64_t> dimensions{};
};

// Parses the body of /v1/embeddings. Throws ApiError 400 naming the parameter for any that is
// unknown, and for values out of range.
[[nodiscard]] EmbeddingRequest parse_embedding_request(std::string_view body);

// Returns one element of the answer's data, JSON: the embedding of input `index`.
[[nodiscard]] std::string embedding_json(std::size_t index, std::span<const float> vector,
                                         VectorEncoding encoding);
// Returns the answer to a request of so many tokens with `data`.
[[nodiscard]] std::string embeddings_json(const std::string& model,
                                          std::span<const std::string> data, std::int64_t tokens);

}  // namespace tandem::serve
