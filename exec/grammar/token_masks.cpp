#include "exec/grammar/token_masks.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kBits = 64;

void set_bit(TokenBits& bits, std::int32_t token) {
  const auto at = static_cast<std::size_t>(token);
  bits[at / kBits] |= std::uint64_t{1} << (at % kBits);
}

}  // namespace

void TokenMasks::check() {
  limited_ = true;
  for (std::size_t i = 0; i < grammar_->states(); ++i) {
    const auto state = static_cast<GrammarState>(i);
    if (grammar_->state(state).edges.empty()) continue;
    if (bytes_ > kMostBytes) forget();
    const Part& found = parts_[static_cast<std::size_t>(part(-1, state))];
    if (!found.tokens.empty() || !found.bits.empty()) continue;
    throw Error(
        "grammar: the tokenizer lacks tokens for some bytes of JSON, expected tokens of all bytes, "
        "as byte-level and byte-fallback vocabularies have; use such a model, or no form");
  }
  limited_ = false;
}

// Counts what check() has visited. Of a usual schema it visits a few hundred thousand places.
void TokenMasks::count(const GrammarPlaces& places) {
  constexpr std::size_t kMostVisited = 5'000'000;
  visited_ += places.places.size() + 1;
  if (limited_ && (places.cut || visited_ > kMostVisited))
    throw Error(
        "a schema with too many alternatives with the same beginning, expected at most 4096 at "
        "once; let "
        "them differ in the name of their first property");
}

void TokenMasks::add(const GrammarStacks& stacks, const GrammarPlace& place, TokenBits& bits) {
  if (bytes_ > kMostBytes) forget();
  std::int32_t at = part(-1, place.state);
  std::int32_t stack = place.stack;
  while (true) {
    const Part& found = parts_[static_cast<std::size_t>(at)];
    for (const std::int32_t token : found.tokens) set_bit(bits, token);
    for (std::size_t i = 0; i < found.bits.size(); ++i) bits[i] |= found.bits[i];
    if (found.nodes.empty() || stack == GrammarStacks::kBottom) return;
    const GrammarStacks::Frame& frame = stacks.frame(stack);
    stack = frame.below;
    at = part(at, frame.back);
  }
}

std::int32_t TokenMasks::part(std::int32_t from, GrammarState state) {
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32U) |
                            static_cast<std::uint32_t>(state);
  const auto known = known_parts_.find(key);
  if (known != known_parts_.end()) return known->second;
  ++searches_;
  Part found;
  GrammarPlaces begin = places_from(*grammar_, stacks_, {{state}});
  count(begin);
  const std::int32_t start = situation(std::move(begin));
  if (from < 0) {
    search(0, start, found);
  } else {
    const std::vector<std::int32_t> nodes = parts_[static_cast<std::size_t>(from)].nodes;
    const bool ends = situations_[static_cast<std::size_t>(start)].places.ends;
    for (const std::int32_t node : nodes) {
      if (ends) found.nodes.push_back(node);
      search(static_cast<std::size_t>(node), start, found);
    }
  }
  // Ambiguous grammars find some twice.
  for (std::vector<std::int32_t>* const list : {&found.tokens, &found.nodes}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  if (found.tokens.size() * 32 > trie_->vocab()) {
    found.bits.resize((trie_->vocab() + kBits - 1) / kBits);
    for (const std::int32_t token : found.tokens) set_bit(found.bits, token);
    found.tokens = {};
  }
  // Nodes whose subtree is only themselves lead nowhere.
  std::erase_if(found.nodes, [this](std::int32_t node) {
    const auto n = static_cast<std::size_t>(node);
    return trie_->end(n) == n + 1;
  });
  bytes_ += found.bits.size() * sizeof(std::uint64_t) + sizeof(Part) +
            (found.tokens.size() + found.nodes.size()) * sizeof(std::int32_t);
  parts_.push_back(std::move(found));
  return known_parts_[key] = static_cast<std::int32_t>(parts_.size() - 1);
}

// Adds what is below `node`, at which the text is in `start`.
void TokenMasks::search(std::size_t node, std::int32_t start, Part& found) {
  const std::size_t base = trie_->depth(node);
  path_.resize(std::max(path_.size(), trie_->deepest() + 1));
  path_[0] = start;
  const std::size_t end = trie_->end(node);
  for (std::size_t n = node + 1; n < end;) {
    const std::size_t depth = trie_->depth(n) - base;
    const std::int32_t at = next(path_[depth - 1], trie_->byte(n));
    if (at == kDead) {
      n = trie_->end(n);
      continue;
    }
    path_[depth] = at;
    const auto tokens = trie_->tokens(n);
    found.tokens.insert(found.tokens.end(), tokens.begin(), tokens.end());
    if (situations_[static_cast<std::size_t>(at)].places.ends)
      found.nodes.push_back(static_cast<std::int32_t>(n));
    ++n;
  }
}

std::int32_t TokenMasks::next(std::int32_t at, unsigned char byte) {
  const auto index = static_cast<std::size_t>(at);
  const std::int32_t known = situations_[index].next[byte];
  if (known != kUnknown) return known;
  GrammarPlaces places = places_after(*grammar_, stacks_, situations_[index].places, byte);
  count(places);
  const std::int32_t found = places.dead() ? kDead : situation(std::move(places));
  situations_[index].next[byte] = found;
  return found;
}

std::int32_t TokenMasks::situation(GrammarPlaces places) {
  constexpr std::array<std::int32_t, 2> kNone{kUnknown, kUnknown};
  std::int32_t& number =
      known_.try_emplace(places.places, kNone).first->second[places.ends ? 1 : 0];
  if (number != kUnknown) return number;
  number = static_cast<std::int32_t>(situations_.size());
  bytes_ += sizeof(Situation) + 2 * places.places.size() * sizeof(GrammarPlace);
  situations_.push_back({.places = std::move(places)});
  situations_.back().next.fill(kUnknown);
  return number;
}

void TokenMasks::forget() {
  bytes_ = 0;
  parts_.clear();
  known_parts_.clear();
  stacks_ = {};
  situations_.clear();
  known_.clear();
}

}  // namespace tandem::exec
