#pragma once

// What the model types of Hugging Face's `config.json` call their fields. Not installed.

#include <cstdint>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// What one `model_type` calls its fields. Empty: it has no such field.
struct Dialect {
  std::string_view model_type;
  std::string_view layers;
  std::string_view hidden;
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view head_dim;
  std::string_view intermediate;
  std::string_view vocab;
  std::string_view context;
  std::string_view epsilon;
  double default_epsilon;
  Family family;
  bool tied_by_default;
  Activation default_activation;
  std::string_view architectures;  // with a head for the next token, or of an encoder; by spaces
  std::string_view activation;     // the field
  std::string_view token_types;
  std::int64_t default_token_types;
  // What Hugging Face's class has for fields that are absent; 0: what others imply.
  double default_theta = 10000.0;
  std::int64_t default_head_dim = 0;
  std::int64_t default_kv_heads = 0;
  std::int64_t default_heads = 0;
  std::int64_t default_vocab = 0;
  std::int64_t default_context = 0;
};

// Throws Error at `field` for a model type that has none.
[[nodiscard]] const Dialect& find_dialect(std::string_view model_type, const JsonValue& field);

// The one whose names of fields to_config_json writes.
[[nodiscard]] const Dialect& written_dialect(Family family);
// Of that type. Throws logic_error for a model type that has none.
[[nodiscard]] const Dialect& dialect_of(std::string_view model_type);

}  // namespace tandem::model
