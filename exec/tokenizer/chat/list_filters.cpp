#include <algorithm>

#include "exec/tokenizer/chat/access.hpp"
#include "exec/tokenizer/chat/arithmetic.hpp"
#include "exec/tokenizer/chat/compare.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/loop.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/chat/text_functions.hpp"

namespace tandem::exec::chat {
namespace {

Value without_case(Budget& budget, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.is_text() ? value
                                            : cased_value(budget, value.text(), Case::lower);
}

struct Keyed {
  Value key{};
  Value value{};
};

Values sorted(Budget& budget, std::vector<Keyed> all, bool reverse) {
  budget.make(all.size() * sizeof(Keyed));
  std::ranges::stable_sort(all, [&](const Keyed& a, const Keyed& b) {
    budget.read(64);
    return ordered(budget, "<", reverse ? b.key : a.key, reverse ? a.key : b.key);
  });
  Values made;
  for (Keyed& one : all) made.push_back(std::move(one.value));
  return made;
}

Value sort(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Values paths{given[2].value_or(Value(None{}))};
  if (paths[0].is_text())
    paths =
        split(budget, paths[0].text(), text_value(budget, ","), kAllTimes, false).sequence()->items;
  std::vector<Keyed> all;
  for (const Value& one : elements_of(budget, value, "sort")) {
    Values keys;
    for (const Value& path : paths)
      keys.push_back(without_case(budget, path_of(budget, one, path), given.truth(1, false)));
    all.push_back({sequence_value(budget, std::move(keys)), one});
  }
  return sequence_value(budget, sorted(budget, std::move(all), given.truth(0, false)));
}

Value dictsort(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = given.has(1) ? given.text(1) : "key";
  if (by != "key" && by != "value")
    fail("the filter 'dictsort' by '" + by + "', expected key or value");
  const Mapping* const mapping = value.mapping();
  if (mapping == nullptr)
    fail("the filter 'dictsort' of " + kind_of(value) + ", expected a mapping");
  std::vector<Keyed> all;
  for (const auto& [key, one] : mapping->items) {
    all.push_back({without_case(budget, by == "key" ? key : one, given.truth(0, false)),
                   sequence_value(budget, {key, one}, Sequence::Form::tuple)});
  }
  return sequence_value(budget, sorted(budget, std::move(all), given.truth(2, false)));
}

Value extreme(Budget& budget, const Value& value, const Arguments& arguments, const char* name,
              const char* sign) {
  const Bound given = bind(name, arguments, {"case_sensitive", "attribute"});
  const Value path = given[1].value_or(Value(None{}));
  const Next next = iterate(budget, value, name);
  std::optional<Keyed> best;
  while (const std::optional<Value> one = next()) {
    budget.read(64);
    Keyed here{without_case(budget, path_of(budget, *one, path), given.truth(0, false)), *one};
    if (!best || ordered(budget, sign, here.key, best->key)) best = std::move(here);
  }
  return best ? best->value : undefined_value(std::string("the filter '") + name + "' of nothing");
}

Value sum(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("sum", arguments, {"attribute", "start"});
  const Value path = given[0].value_or(Value(None{}));
  Value all = given[1].value_or(Value(std::int64_t{0}));
  if (all.is_text()) fail("the filter 'sum' of texts, expected the filter 'join'");
  const Next next = iterate(budget, value, "sum");
  while (const std::optional<Value> one = next())
    all = calculated(budget, "+", all, path_of(budget, *one, path));
  return all;
}

Value join(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("join", arguments, {"d", "attribute"});
  const std::string between = given.has(0) ? to_text(budget, *given[0]) : "";
  if (!given.has(1) || given[1]->is_none()) return joined(budget, value, between, false);
  Values parts;
  const Next next = iterate(budget, value, "join");
  while (const std::optional<Value> one = next()) parts.push_back(path_of(budget, *one, *given[1]));
  return joined(budget, sequence_value(budget, std::move(parts)), between, false);
}

Value first(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("first", given, {});
  return iterate(budget, value, "first")().value_or(undefined_value("there is no first element"));
}

// Returns the elements in reverse order, for values with an order.
Values backwards(Budget& budget, const Value& value, const std::string& what) {
  if (value.is<std::shared_ptr<Generator>>())
    fail(what + " of " + kind_of(value) + ", expected a list: use '| list' before it");
  Values all = elements_of(budget, value, what);
  std::ranges::reverse(all);
  return all;
}

Value last(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("last", given, {});
  const Values all = backwards(budget, value, "last");
  return all.empty() ? undefined_value("there is no last element") : all.front();
}

Value reverse(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("reverse", given, {});
  if (value.is_text()) return slice_of(budget, value, Value(), Value(), Value(std::int64_t{-1}));
  if (value.is<std::shared_ptr<Generator>>()) {
    Values all = elements_of(budget, value, "reverse");
    std::ranges::reverse(all);
    return sequence_value(budget, std::move(all));
  }
  auto all = std::make_shared<Values>(backwards(budget, value, "reverse"));
  return generator_value(budget, "reverse", value,
                         [all, at = std::size_t{0}]() mutable -> std::optional<Value> {
                           return at < all->size() ? std::optional((*all)[at++]) : std::nullopt;
                         });
}

Value list(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("list", given, {});
  return sequence_value(budget, elements_of(budget, value, "list"));
}

}  // namespace

const Filters& list_filters() {
  static const Filters all{{"dictsort", dictsort},
                           {"first", first},
                           {"join", join},
                           {"last", last},
                           {"list", list},
                           {"max", [](Budget& b, const Value& v,
                                      const Arguments& g) { return extreme(b, v, g, "max", ">"); }},
                           {"min", [](Budget& b, const Value& v,
                                      const Arguments& g) { return extreme(b, v, g, "min", "<"); }},
                           {"reverse", reverse},
                           {"sort", sort},
                           {"sum", sum}};
  return all;
}

}  // namespace tandem::exec::chat
