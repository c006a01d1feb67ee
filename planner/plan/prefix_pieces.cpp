#include "planner/plan/prefix_pieces.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::planner {

std::vector<PrefixPiece> read_prefix(const model::JsonValue& value, std::int64_t most) {
  constexpr std::size_t kMostPieces = 1000;
  constexpr std::size_t kMostGroupBytes = 200;
  std::vector<PrefixPiece> prefix;
  const std::size_t count = value.size(kMostPieces);
  if (count == 0) value.fail("at least one {\"group\": NAME, \"tokens\": N}");
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const model::JsonValue piece = value.at(i);
    piece.expect_keys({"group", "tokens"});
    std::string group = piece.at("group").line(kMostGroupBytes);
    if (group.empty()) piece.at("group").fail("a name");
    if (std::ranges::find(prefix, group, &PrefixPiece::group) != prefix.end())
      piece.at("group").fail("a group that no piece before has, as each begins its own text");
    prefix.push_back({.group = std::move(group), .tokens = piece.at("tokens").integer(1, most)});
    tokens += prefix.back().tokens;
    if (tokens > most)
      piece.at("tokens").fail("at most " + std::to_string(most) +
                              " with those before, as the request has in all");
  }
  return prefix;
}

nlohmann::ordered_json prefix_json(const std::vector<PrefixPiece>& prefix) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PrefixPiece& piece : prefix)
    json.push_back({{"group", piece.group}, {"tokens", piece.tokens}});
  return json;
}

}  // namespace tandem::planner
