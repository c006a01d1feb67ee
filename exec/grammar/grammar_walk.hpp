#pragma once

// Where a text may be in its grammar.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "exec/grammar/byte_grammar.hpp"

namespace tandem::exec {

// Stacks of states to return to, as a tree whose nodes are shared and equal only to themselves.
class GrammarStacks {
 public:
  static constexpr std::int32_t kBottom = -1;
  struct Frame {
    GrammarState back = 0;
    std::int32_t below = kBottom;
  };
  // Returns the stack with `back` on top of `below`.
  std::int32_t push(GrammarState back, std::int32_t below);
  [[nodiscard]] const Frame& frame(std::int32_t stack) const {
    return frames_[static_cast<std::size_t>(stack)];
  }
  [[nodiscard]] std::size_t size() const { return frames_.size(); }

 private:
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, std::int32_t> known_;
};

// One of the places in which a text may be: a state that has edges, and its stack.
struct GrammarPlace {
  GrammarState state = 0;
  std::int32_t stack = GrammarStacks::kBottom;
  auto operator<=>(const GrammarPlace&) const = default;
};

struct GrammarPlaces {
  std::vector<GrammarPlace> places{};  // sorted
  bool ends = false;                   // what was begun with an empty stack may end here
  bool cut = false;                    // there are more than is kept
  [[nodiscard]] bool dead() const { return places.empty() && !ends; }
  bool operator==(const GrammarPlaces&) const = default;
};

inline constexpr std::size_t kMostPlaces = 1U << 12U;

// Returns where a text that is in `from` is before its next byte; of more than `most` places, some.
[[nodiscard]] GrammarPlaces places_from(const ByteGrammar& grammar, GrammarStacks& stacks,
                                        const std::vector<GrammarPlace>& from,
                                        std::size_t most = kMostPlaces);
// Returns where it is behind that byte.
[[nodiscard]] GrammarPlaces places_after(const ByteGrammar& grammar, GrammarStacks& stacks,
                                         const GrammarPlaces& at, unsigned char byte,
                                         std::size_t most = kMostPlaces);

}  // namespace tandem::exec
