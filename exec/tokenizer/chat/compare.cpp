#include "exec/tokenizer/chat/compare.hpp"

#include <algorithm>
#include <cmath>

#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/find_text.hpp"

namespace tandem::exec::chat {
namespace {

bool fits(std::string_view sign, std::partial_ordering order) {
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  return sign == ">" ? order > 0 : order >= 0;
}

bool is_set(const Sequence& sequence) {
  return sequence.form == Sequence::Form::keys || sequence.form == Sequence::Form::items;
}

bool has(Budget& budget, const Values& items, const Value& one) {
  return std::ranges::any_of(items, [&](const Value& item) { return equal(budget, item, one); });
}

bool equal_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  if (a.items.size() != b.items.size()) return false;
  if (is_set(a) && is_set(b))
    return std::ranges::all_of(a.items,
                               [&](const Value& one) { return has(budget, b.items, one); });
  if (a.form != b.form || a.form == Sequence::Form::values) return &a == &b;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(budget, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_mappings(Budget& budget, const Mapping& a, const Mapping& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::ranges::all_of(a.items, [&](const auto& item) {
    const Value* const other = b.find(budget, item.first);
    return other != nullptr && equal(budget, item.second, *other);
  });
}

[[noreturn]] void fail_order(std::string_view sign, const Value& a, const Value& b) {
  fail(kind_of(a) + " " + std::string(sign) + " " + kind_of(b) +
       ", expected two numbers, two texts or two lists");
}

}  // namespace

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.read(16);
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) == 0;
  if (a.data().index() != b.data().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (a.is_text()) {
    if (a.text().size() != b.text().size()) return false;
    budget.read(a.text().size());
    return a.text() == b.text();
  }
  if (a.sequence() != nullptr) return equal_sequences(budget, *a.sequence(), *b.sequence());
  if (a.mapping() != nullptr) return equal_mappings(budget, *a.mapping(), *b.mapping());
  return std::visit(
      [&]<class T>(const T& mine) {
        if constexpr (std::is_same_v<T, std::shared_ptr<Namespace>> ||
                      std::is_same_v<T, std::shared_ptr<Generator>> ||
                      std::is_same_v<T, std::shared_ptr<Loop>> ||
                      std::is_same_v<T, std::shared_ptr<const Function>>)
          return mine == *b.get<T>();
        return false;
      },
      a.data());
}

bool ordered(Budget& budget, std::string_view sign, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return fits(sign, order_of_numbers(a, b));
  if (a.is_text() && b.is_text()) {
    budget.read(std::min(a.text().size(), b.text().size()));
    return fits(sign, a.text() <=> b.text());
  }
  const Sequence* const x = a.sequence();
  const Sequence* const y = b.sequence();
  const bool lists = x != nullptr && y != nullptr && x->form == y->form &&
                     (x->form == Sequence::Form::list || x->form == Sequence::Form::tuple);
  if (!lists) fail_order(sign, a, b);
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!equal(budget, x->items[i], y->items[i]))
      return ordered(budget, sign, x->items[i], y->items[i]);
  }
  return fits(sign, x->items.size() <=> y->items.size());
}

bool contains(Budget& budget, const Value& whole, const Value& part) {
  if (whole.is_text()) {
    if (!part.is_text()) fail(kind_of(part) + " in a text, expected a text");
    return find_first(budget, whole.text(), part.text()) != std::string::npos;
  }
  if (const Sequence* const list = whole.sequence()) return has(budget, list->items, part);
  if (const Mapping* const mapping = whole.mapping()) {
    expect_hashable(part);
    return mapping->find(budget, part) != nullptr;
  }
  const Next next = iterate(budget, whole, "in");
  while (const std::optional<Value> one = next()) {
    if (equal(budget, *one, part)) return true;
  }
  return false;
}

bool holds(Budget& budget, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(budget, a, b);
  if (sign == "!=") return !equal(budget, a, b);
  if (sign == "in") return contains(budget, b, a);
  if (sign == "notin") return !contains(budget, b, a);
  return ordered(budget, sign, a, b);
}

}  // namespace tandem::exec::chat
