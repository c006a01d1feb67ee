#pragma once

#include <cstdint>
#include <string>

namespace tandem::cli {

// Returns the context that the file of model `name` (find_config) states, in tokens: more than
// Transformer::max_context where tandem supports less of it. Throws Error as load_model does.
[[nodiscard]] std::int64_t stated_context(const std::string& name);

}  // namespace tandem::cli
