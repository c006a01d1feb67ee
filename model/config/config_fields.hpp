#pragma once

// Fields of a `config.json` that several of its readers know of. Not installed.

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Throws Error (field, value, expected) unless it is in (0, max].
inline double positive(const JsonValue& field, double max = kMaxNumber) {
  const double value = field.number(0.0, max);
  if (value <= 0.0) field.fail("a positive number");
  return value;
}

// `absent` where `object` has no `key`, or null. Throws as `positive`.
inline double positive_or(const JsonValue& object, std::string_view key, double absent) {
  const auto field = object.find(key);
  return field ? positive(*field) : absent;
}

// Nothing where `object` has no `key`, or null. Throws Error unless it is in [1, kMaxSize].
inline std::optional<std::int64_t> size_of_field(const JsonValue& object, std::string_view key) {
  const auto field = object.find(key);
  return field ? std::optional(field->integer(1, kMaxSize)) : std::nullopt;
}

}  // namespace tandem::model
