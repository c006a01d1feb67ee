#include "exec/tokenizer/chat/predicates.hpp"

#include <map>

#include "exec/tokenizer/chat/arithmetic.hpp"
#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/compare.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/python_text.hpp"

namespace tandem::exec::chat {
namespace {

using Test = bool (*)(Budget& budget, const Value& value, const Arguments& given);
using KindTest = bool (*)(const Value& value);

Value argument(const std::string& test, const Arguments& given) {
  return *bind(test, given, {"other"}, 1, Naming::refused)[0];
}

bool remainder_is(Budget& budget, const Value& value, const Value& divisor, std::int64_t wanted) {
  return equal(budget, calculated(budget, "%", value, divisor), Value(wanted));
}

template <bool kUpper>
bool has_case(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("upper or lower", given, {});
  const std::string text = to_text(budget, value);
  budget.read(text.size() * 16);
  return passes(kUpper ? "isupper" : "islower", text);
}

bool is_same(Budget& budget, const Value& value, const Arguments& given) {
  const Value other = argument("sameas", given);
  const auto is_single = [](const Value& v) { return v.is_none() || v.is<bool>(); };
  if (value.data().index() != other.data().index()) return false;
  if (is_single(value)) return equal(budget, value, other);
  if (value.sequence() != nullptr) return value.sequence() == other.sequence();
  if (value.mapping() != nullptr) return value.mapping() == other.mapping();
  if (value.is<std::shared_ptr<Namespace>>()) return equal(budget, value, other);
  fail("the test 'sameas' of " + kind_of(value) +
       ", of which Python's answer depends on its memory, expected 'eq'");
}

bool can_be_iterated(const Value& value) {
  return value.is_undefined() || value.is_text() || value.sequence() != nullptr ||
         value.mapping() != nullptr || value.is<std::shared_ptr<Generator>>() ||
         value.is<std::shared_ptr<Loop>>();
}

bool has_items(const Value& value) {
  const Sequence* const list = value.sequence();
  return value.is_undefined() || value.is_text() || value.mapping() != nullptr ||
         (list != nullptr && list->form <= Sequence::Form::range);
}

bool can_be_called(const Value& value) {
  return value.is_undefined() || value.is<std::shared_ptr<const Function>>() ||
         value.is<std::shared_ptr<Loop>>();
}

bool is_named(const Value& value, bool (*is_known)(const std::string&)) {
  expect_hashable(value);
  return value.is_text() && is_known(value.text());
}

const std::map<std::string, KindTest>& kinds() {
  static const std::map<std::string, KindTest> all{
      {"defined", [](const Value& v) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v) { return v.is_undefined(); }},
      {"none", [](const Value& v) { return v.is_none(); }},
      {"boolean", [](const Value& v) { return v.is<bool>(); }},
      {"true", [](const Value& v) { return v.is<bool>() && is_true(v); }},
      {"false", [](const Value& v) { return v.is<bool>() && !is_true(v); }},
      {"integer", [](const Value& v) { return v.is<std::int64_t>(); }},
      {"float", [](const Value& v) { return v.is<double>(); }},
      {"number", [](const Value& v) { return v.is_number(); }},
      {"string", [](const Value& v) { return v.is_text(); }},
      {"mapping", [](const Value& v) { return v.mapping() != nullptr; }},
      {"sequence", has_items},
      {"iterable", can_be_iterated},
      {"callable", can_be_called},
      {"escaped", [](const Value& v) { return v.is_text() && v.get<Text>()->safe; }},
      {"filter", [](const Value& v) { return is_named(v, is_filter); }},
      {"test", [](const Value& v) { return is_named(v, is_test); }}};
  return all;
}

// Tests that compare with their argument, by the sign that means the same.
const std::map<std::string, std::string_view>& comparisons() {
  static const std::map<std::string, std::string_view> all{
      {"!=", "!="}, {"<", "<"},   {"<=", "<="},      {"==", "=="}, {">", ">"},
      {">=", ">="}, {"eq", "=="}, {"equalto", "=="}, {"ge", ">="}, {"greaterthan", ">"},
      {"gt", ">"},  {"le", "<="}, {"lessthan", "<"}, {"lt", "<"},  {"ne", "!="}};
  return all;
}

const std::map<std::string, Test>& tests() {
  static const std::map<std::string, Test> all{
      {"odd",
       [](Budget& b, const Value& v, const Arguments& g) {
         (void)bind("odd", g, {});
         return remainder_is(b, v, Value(std::int64_t{2}), 1);
       }},
      {"even",
       [](Budget& b, const Value& v, const Arguments& g) {
         (void)bind("even", g, {});
         return remainder_is(b, v, Value(std::int64_t{2}), 0);
       }},
      {"divisibleby",
       [](Budget& b, const Value& v, const Arguments& g) {
         return remainder_is(b, v, *bind("divisibleby", g, {"num"}, 1)[0], 0);
       }},
      {"upper", has_case<true>},
      {"lower", has_case<false>},
      {"sameas", is_same},
      {"in", [](Budget& b, const Value& v, const Arguments& g) {
         return contains(b, *bind("in", g, {"seq"}, 1)[0], v);
       }}};
  return all;
}

}  // namespace

bool tested(Budget& budget, const std::string& name, const Value& value, const Arguments& given) {
  budget.step();
  if (const auto kind = kinds().find(name); kind != kinds().end()) {
    (void)bind(name, given, {});
    return kind->second(value);
  }
  if (const auto sign = comparisons().find(name); sign != comparisons().end())
    return holds(budget, sign->second, value, argument(name, given));
  const auto test = tests().find(name);
  if (test != tests().end()) return test->second(budget, value, given);
  std::string names;
  for (const auto& [known, unused] : kinds()) names += (names.empty() ? "" : ", ") + known;
  for (const auto& [known, unused] : tests()) names += ", " + known;
  for (const auto& [known, unused] : comparisons()) names += ", " + known;
  fail("test '" + name + "': not known, expected one of " + names);
}

bool is_test(const std::string& name) {
  return kinds().contains(name) || tests().contains(name) || comparisons().contains(name);
}

}  // namespace tandem::exec::chat
