#pragma once

// Field names of Hugging Face's `config.json` by model type. Internal.

#include <cstdint>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// The field names of one `model_type`. Empty: it has no such field.
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
  std::string_view architectures;  // for next tokens or encoders; separated by spaces
  std::string_view activation;     // the field's name
  std::string_view token_types;
  std::int64_t default_token_types;
  // Defaults of Hugging Face's class for absent fields; 0: implied by other fields.
  double default_theta = 10000.0;
  std::int64_t default_head_dim = 0;
  std::int64_t default_kv_heads = 0;
  std::int64_t default_heads = 0;
  std::int64_t default_vocab = 0;
  std::int64_t default_context = 0;
};

// Returns a model type's dialect. Throws Error at `field` for an unknown one.
[[nodiscard]] const Dialect& find_dialect(std::string_view model_type, const JsonValue& field);

// Returns the dialect whose field names to_config_json writes.
[[nodiscard]] const Dialect& written_dialect(Family family);
// Returns the dialect of that type. Throws logic_error for an unknown one.
[[nodiscard]] const Dialect& dialect_of(std::string_view model_type);

}  // namespace tandem::model
