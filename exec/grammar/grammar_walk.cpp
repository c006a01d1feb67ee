#include "exec/grammar/grammar_walk.hpp"

#include <algorithm>
#include <set>

namespace tandem::exec {
namespace {

// Returns whether nothing is behind `state` but the end of its rule.
bool is_end(const ByteGrammar::State& state) {
  return state.ends && state.edges.empty() && state.calls.empty() && state.jumps.empty();
}

}  // namespace

std::int32_t GrammarStacks::push(GrammarState back, std::int32_t below) {
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(back)) << 32U) |
                            static_cast<std::uint32_t>(below);
  const auto [found, is_new] = known_.try_emplace(key, static_cast<std::int32_t>(frames_.size()));
  if (is_new) frames_.push_back({back, below});
  return found->second;
}

GrammarPlaces places_from(const ByteGrammar& grammar, GrammarStacks& stacks,
                          const std::vector<GrammarPlace>& from, std::size_t most) {
  GrammarPlaces reached;
  std::set<GrammarPlace> seen;
  std::vector<GrammarPlace> open;
  const auto enter = [&](GrammarPlace place) {
    if (seen.insert(place).second) open.push_back(place);
  };
  for (const GrammarPlace& place : from) enter(place);
  while (!open.empty()) {
    if (seen.size() > most) {
      reached.cut = true;
      break;
    }
    const GrammarPlace place = open.back();
    open.pop_back();
    const ByteGrammar::State& state = grammar.state(place.state);
    if (!state.edges.empty()) reached.places.push_back(place);
    for (const GrammarState next : state.jumps) enter({next, place.stack});
    for (const ByteGrammar::Call& call : state.calls) {
      // A call behind which the rule ends returns to where that rule does, so that alternatives of
      // alternatives have one stack.
      const bool is_last = is_end(grammar.state(call.back));
      enter(
          {grammar.start(call.rule), is_last ? place.stack : stacks.push(call.back, place.stack)});
    }
    if (!state.ends) continue;
    if (place.stack == GrammarStacks::kBottom) {
      reached.ends = true;
    } else {
      const GrammarStacks::Frame frame = stacks.frame(place.stack);
      enter({frame.back, frame.below});
    }
  }
  std::ranges::sort(reached.places);
  return reached;
}

GrammarPlaces places_after(const ByteGrammar& grammar, GrammarStacks& stacks,
                           const GrammarPlaces& at, unsigned char byte, std::size_t most) {
  std::vector<GrammarPlace> next;
  for (const GrammarPlace& place : at.places) {
    for (const ByteGrammar::Edge& edge : grammar.state(place.state).edges) {
      if (edge.first <= byte && byte <= edge.last) next.push_back({edge.to, place.stack});
    }
  }
  return places_from(grammar, stacks, next, most);
}

}  // namespace tandem::exec
