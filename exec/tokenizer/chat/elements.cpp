#include "exec/tokenizer/chat/elements.hpp"

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

Next characters_of(Budget& budget, const Value& of) {
  return [&budget, of, at = std::size_t{0}]() mutable -> std::optional<Value> {
    const std::string& text = of.text();
    if (at >= text.size()) return std::nullopt;
    const std::size_t bytes = character_at(text, at).bytes;
    Value one = text_value(budget, text.substr(at, bytes));
    at += bytes;
    return one;
  };
}

}  // namespace

Next iterate(Budget& budget, const Value& of, const std::string& what) {
  if (of.is_undefined()) return [] { return std::optional<Value>(); };
  if (of.is_text()) return characters_of(budget, of);
  if (const auto* const list = of.get<std::shared_ptr<const Sequence>>()) {
    return [&budget, held = *list, at = std::size_t{0}]() mutable -> std::optional<Value> {
      if (at >= held->items.size()) return std::nullopt;
      budget.read(16);
      return held->items[at++];
    };
  }
  if (const auto* const mapping = of.get<std::shared_ptr<const Mapping>>()) {
    return [&budget, held = *mapping, at = std::size_t{0}]() mutable -> std::optional<Value> {
      if (at >= held->items.size()) return std::nullopt;
      budget.read(16);
      return held->items[at++].first;
    };
  }
  if (const auto* const generator = of.get<std::shared_ptr<Generator>>())
    return [held = *generator] { return held->next(); };
  fail(what + " of " + kind_of(of) + ", expected a list");
}

Values elements_of(Budget& budget, const Value& of, const std::string& what) {
  Values all;
  const Next next = iterate(budget, of, what);
  while (std::optional<Value> one = next()) {
    budget.make(sizeof(Value));
    all.push_back(*std::move(one));
  }
  return all;
}

std::size_t size_of(Budget& budget, const Value& of, const std::string& what) {
  if (of.is_undefined()) return 0;
  if (of.is_text()) {
    budget.read(of.text().size());
    return length_of(of.text());
  }
  if (of.sequence() != nullptr) return of.sequence()->items.size();
  if (of.mapping() != nullptr) return of.mapping()->items.size();
  if (const auto* const loop = of.get<std::shared_ptr<Loop>>(); loop != nullptr && (*loop)->length)
    return *(*loop)->length;
  fail(what + " of " + kind_of(of) + ", expected a text, a list or a mapping");
}

}  // namespace tandem::exec::chat
