#pragma once

// A grammar of texts, byte by byte: a recursive transition network (Woods, CACM 13(10), 1970),
// which is a pushdown automaton whose stack has the states behind the calls under way.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::exec {

using GrammarState = std::int32_t;
using GrammarRule = std::int32_t;

class ByteGrammar {
 public:
  struct Edge {  // consumes a byte from `first` to `last`
    unsigned char first = 0;
    unsigned char last = 0;
    GrammarState to = 0;
  };
  struct Call {  // consumes a text of `rule`
    GrammarRule rule = 0;
    GrammarState back = 0;
  };
  struct State {
    std::vector<Edge> edges{};
    std::vector<Call> calls{};
    std::vector<GrammarState> jumps{};  // consume nothing
    bool ends = false;                  // the rule's text may end here
  };

  // A new rule, whose text begins in start(rule). Rule 0 is the whole text.
  GrammarRule add_rule();
  // A new state. Throws Error beyond kMostStates.
  GrammarState add_state();
  void add_edge(GrammarState from, unsigned char first, unsigned char last, GrammarState to);
  void add_call(GrammarState from, GrammarRule rule, GrammarState back);
  void add_jump(GrammarState from, GrammarState to);
  void set_end(GrammarState state);
  // Returns the state behind `text`, or behind a text of `rule`.
  GrammarState literal(GrammarState from, std::string_view text);
  GrammarState call(GrammarState from, GrammarRule rule);

  // Throws Error unless every rule has a text, and none begins with itself or is empty: then a walk
  // ends, and every prefix that it accepts is the beginning of a text.
  void check() const;

  [[nodiscard]] GrammarState start(GrammarRule rule) const {
    return starts_[static_cast<std::size_t>(rule)];
  }
  [[nodiscard]] const State& state(GrammarState state) const {
    return states_[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] std::size_t states() const { return states_.size(); }

  static constexpr std::size_t kMostStates = 1U << 17U;

 private:
  [[nodiscard]] State& at(GrammarState state) { return states_[static_cast<std::size_t>(state)]; }
  [[nodiscard]] std::vector<bool> finite_states() const;

  std::vector<State> states_;
  std::vector<GrammarState> starts_;
};

}  // namespace tandem::exec
