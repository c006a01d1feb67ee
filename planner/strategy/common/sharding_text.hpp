#pragma once

// What a strategy shards, in words: the table of strategies.

#include <string_view>

#include "planner/strategy/common/sharding.hpp"

namespace tandem::planner {

// "heads and columns"
[[nodiscard]] std::string_view weights_text(const Sharding& sharding);
// "split between halves"
[[nodiscard]] std::string_view prefill_text(const Sharding& sharding);
// "by heads"
[[nodiscard]] std::string_view cache_text(const Sharding& sharding);
// "tensor"
[[nodiscard]] std::string_view decode_text(const Sharding& sharding);
// What devices exchange in a layer of a prompt: "2 all-reduces".
[[nodiscard]] std::string_view exchange_text(const Sharding& sharding);

}  // namespace tandem::planner
