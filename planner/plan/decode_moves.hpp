#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::planner {

// How a new token attends to keys and values of its prompt that other devices hold.
enum class DecodeMoves : std::uint8_t {
  queries,         // its queries travel to them and the results come back; in every layer
  keys_each_step,  // they travel to it, in every layer of every new token, and are not kept
  keys_once,       // they travel to the master once, after the prompt, and stay there
};

struct NamedMoves {
  DecodeMoves moves;
  std::string_view name;
};
// As in `tandem plan --decode-moves` and in plan files.
inline constexpr std::array<NamedMoves, 3> kDecodeMoves{{{DecodeMoves::queries, "q"},
                                                         {DecodeMoves::keys_each_step, "kv"},
                                                         {DecodeMoves::keys_once, "migrate"}}};

[[nodiscard]] constexpr std::string_view to_string(DecodeMoves moves) {
  for (const NamedMoves& one : kDecodeMoves) {
    if (one.moves == moves) return one.name;
  }
  return "";
}
[[nodiscard]] constexpr std::optional<DecodeMoves> find_decode_moves(std::string_view name) {
  for (const NamedMoves& one : kDecodeMoves) {
    if (one.name == name) return one.moves;
  }
  return std::nullopt;
}

}  // namespace tandem::planner
