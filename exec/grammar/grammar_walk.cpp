#include "exec/grammar/grammar_walk.hpp"

#include <algorithm>
#include <set>

namespace tandem::exec {

std::int32_t GrammarStacks::push(GrammarState back, std::int32_t below) {
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(back)) << 32U) |
                            static_cast<std::uint32_t>(below);
  const auto [found, is_new] = known_.try_emplace(key, static_cast<std::int32_t>(frames_.size()));
  if (is_new) frames_.push_back({back, below});
  return found->second;
}

GrammarPlaces places_from(const ByteGrammar& grammar, GrammarStacks& stacks,
                          const std::vector<GrammarPlace>& from) {
  GrammarPlaces reached;
  std::set<GrammarPlace> seen;
  std::vector<GrammarPlace> open;
  const auto enter = [&](GrammarPlace place) {
    if (seen.insert(place).second) open.push_back(place);
  };
  for (const GrammarPlace& place : from) enter(place);
  while (!open.empty()) {
    const GrammarPlace place = open.back();
    open.pop_back();
    const ByteGrammar::State& state = grammar.state(place.state);
    if (!state.edges.empty()) reached.places.push_back(place);
    for (const GrammarState next : state.jumps) enter({next, place.stack});
    for (const ByteGrammar::Call& call : state.calls)
      enter({grammar.start(call.rule), stacks.push(call.back, place.stack)});
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
                           const GrammarPlaces& at, unsigned char byte) {
  std::vector<GrammarPlace> next;
  for (const GrammarPlace& place : at.places) {
    for (const ByteGrammar::Edge& edge : grammar.state(place.state).edges) {
      if (edge.first <= byte && byte <= edge.last) next.push_back({edge.to, place.stack});
    }
  }
  return places_from(grammar, stacks, next);
}

}  // namespace tandem::exec
