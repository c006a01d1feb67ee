#pragma once

// JSON Schema (draft 2020-12), a subset of it, as a grammar of the texts that conform.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "exec/grammar/byte_grammar.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

// A schema that is not valid or not supported.
class SchemaError : public Error {
 public:
  SchemaError(std::string its_place, std::string its_problem);
  std::string place;    // "schema.properties.a.pattern"
  std::string problem;  // "not supported, expected ..."
};

// Returns a grammar of JSON texts that conform to `schema`: not all of them, as properties have the
// order of the schema, only listed properties are written where some are listed, and white space
// and numbers are bounded (JsonRules). Supported: type, properties, required, additionalProperties,
// items, minItems, maxItems, enum, const, anyOf, $ref within the schema, also recursive, and $defs
// or definitions; annotations (title, description, ...) are without effect. Throws SchemaError for
// any other keyword, at `place` and below. `schema` {"type": "object"} is any object.
[[nodiscard]] ByteGrammar json_schema_grammar(const nlohmann::ordered_json& schema,
                                              const std::string& place);

// The same for a text. Throws Error if it is not JSON.
[[nodiscard]] ByteGrammar json_schema_grammar(std::string_view schema, const std::string& place);

}  // namespace tandem::exec
