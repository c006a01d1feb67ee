#pragma once

// The context that a model's file states, which may be longer than what tandem supports.

#include <cstdint>
#include <string_view>

namespace tandem::model {

// Returns the context that the contents of a config.json state, in tokens. max_context of
// parse_config_json is shorter where attention beyond the first chunk or sliding window is not
// supported. Throws Error as parse_config_json does for fields that it reads.
[[nodiscard]] std::int64_t stated_context(std::string_view text, std::string_view source);

}  // namespace tandem::model
