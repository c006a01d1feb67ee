#pragma once

// Readers of `config.json` fields in common use. Internal.

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Returns the field's number. Throws Error (field, value, expected) unless it is in (0, max].
inline double positive(const JsonValue& field, double max = kMaxNumber) {
  const double value = field.number(0.0, max);
  if (value <= 0.0) field.fail("a positive number");
  return value;
}

// Returns `absent` if `object` has no `key`, or null there. Throws as `positive`.
inline double positive_or(const JsonValue& object, std::string_view key, double absent) {
  const auto field = object.find(key);
  return field ? positive(*field) : absent;
}

// Returns nothing if `object` has no `key`, or null there. Throws Error unless it is in [1,
// kMaxSize].
inline std::optional<std::int64_t> size_of_field(const JsonValue& object, std::string_view key) {
  const auto field = object.find(key);
  return field ? std::optional(field->integer(1, kMaxSize)) : std::nullopt;
}

}  // namespace tandem::model
