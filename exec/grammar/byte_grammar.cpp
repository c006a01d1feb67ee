#include "exec/grammar/byte_grammar.hpp"

#include <algorithm>
#include <string>

#include "model/base/error.hpp"

namespace tandem::exec {

GrammarRule ByteGrammar::add_rule() {
  starts_.push_back(add_state());
  return static_cast<GrammarRule>(starts_.size() - 1);
}

GrammarState ByteGrammar::add_state() {
  if (states_.size() == kMostStates)
    throw Error("an automaton of more than " + std::to_string(kMostStates) +
                " states, expected a smaller schema; make fewer properties optional, or lists "
                "shorter");
  states_.emplace_back();
  return static_cast<GrammarState>(states_.size() - 1);
}

void ByteGrammar::add_edge(GrammarState from, unsigned char first, unsigned char last,
                           GrammarState to) {
  at(from).edges.push_back({first, last, to});
}

void ByteGrammar::add_call(GrammarState from, GrammarRule rule, GrammarState back) {
  at(from).calls.push_back({rule, back});
}

void ByteGrammar::add_jump(GrammarState from, GrammarState to) { at(from).jumps.push_back(to); }

void ByteGrammar::set_end(GrammarState state) { at(state).ends = true; }

GrammarState ByteGrammar::literal(GrammarState from, std::string_view text) {
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const GrammarState next = add_state();
    add_edge(from, byte, byte, next);
    from = next;
  }
  return from;
}

GrammarState ByteGrammar::call(GrammarState from, GrammarRule rule) {
  const GrammarState back = add_state();
  add_call(from, rule, back);
  return back;
}

// Returns, by state, whether a finite text leads from it to the end of its rule: backwards from the
// ends, each arrow once.
std::vector<bool> ByteGrammar::finite_states() const {
  std::vector<std::vector<GrammarState>> steps_to(states_.size());  // by an edge or a jump
  std::vector<std::vector<GrammarState>> calls_to(states_.size());  // its rule's start, or back
  std::vector<bool> finite(states_.size());
  std::vector<GrammarState> open;
  const auto mark = [&](GrammarState s) {
    const auto i = static_cast<std::size_t>(s);
    if (finite[i]) return;
    finite[i] = true;
    open.push_back(s);
  };
  const auto is_finite = [&](GrammarState s) { return finite[static_cast<std::size_t>(s)]; };
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto from = static_cast<GrammarState>(i);
    const State& s = states_[i];
    for (const Edge& edge : s.edges) steps_to[static_cast<std::size_t>(edge.to)].push_back(from);
    for (const GrammarState to : s.jumps) steps_to[static_cast<std::size_t>(to)].push_back(from);
    for (const Call& call : s.calls) {
      calls_to[static_cast<std::size_t>(start(call.rule))].push_back(from);
      calls_to[static_cast<std::size_t>(call.back)].push_back(from);
    }
    if (s.ends) mark(from);
  }
  while (!open.empty()) {
    const auto to = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (const GrammarState from : steps_to[to]) mark(from);
    for (const GrammarState from : calls_to[to]) {
      const bool whole = std::ranges::any_of(state(from).calls, [&](const Call& call) {
        return is_finite(start(call.rule)) && is_finite(call.back);
      });
      if (whole) mark(from);
    }
  }
  return finite;
}

void ByteGrammar::check() const {
  const std::vector<bool> finite = finite_states();
  if (std::ranges::find(finite, false) != finite.end())
    throw Error(
        "a schema that contains itself without an alternative, so that no text of it ends, "
        "expected "
        "one that may end; let a property be optional, or a list be empty");
  // Depth first through the states that are reached without a byte.
  enum class Mark : unsigned char { fresh, open, done };
  std::vector<Mark> marks(states_.size(), Mark::fresh);
  struct Visit {
    GrammarState state;
    std::size_t next = 0;
  };
  std::vector<Visit> open;
  const auto enter = [&](GrammarState s) {
    Mark& mark = marks[static_cast<std::size_t>(s)];
    if (mark == Mark::open)
      throw Error(
          "a schema that is one of its own alternatives, expected to find its own name inside of a "
          "property or a list; take that alternative out");
    if (mark == Mark::done) return;
    mark = Mark::open;
    open.push_back({s});
  };
  for (const GrammarState first : starts_) {
    enter(first);
    while (!open.empty()) {
      Visit& visit = open.back();
      const State& s = state(visit.state);
      const std::size_t i = visit.next++;
      if (i < s.jumps.size()) {
        enter(s.jumps[i]);
      } else if (i - s.jumps.size() < s.calls.size()) {
        enter(start(s.calls[i - s.jumps.size()].rule));
      } else {
        marks[static_cast<std::size_t>(visit.state)] = Mark::done;
        open.pop_back();
      }
    }
  }
}

}  // namespace tandem::exec
