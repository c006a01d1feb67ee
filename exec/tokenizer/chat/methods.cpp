#include "exec/tokenizer/chat/methods.hpp"

#include <algorithm>
#include <array>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/arithmetic.hpp"
#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/compare.hpp"
#include "exec/tokenizer/chat/loop.hpp"
#include "exec/tokenizer/chat/text_methods.hpp"

namespace tandem::exec::chat {
namespace {

using Form = Sequence::Form;

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Further methods of Python's types.
constexpr std::array<std::string_view, 8> kOtherOfTexts{"casefold",   "encode",    "format",
                                                        "format_map", "maketrans", "translate",
                                                        "unescape",   "striptags"};
constexpr std::array<std::string_view, 10> kOtherOfNumbers{
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "imag",
    "numerator",        "real",      "is_integer", "to_bytes"};
constexpr std::array<std::string_view, 4> kOtherOfLists{"clear", "pop", "start", "stop"};
// Methods hidden by Jinja's sandbox, as they would change the value.
constexpr std::array<std::string_view, 6> kHiddenOfLists{"append", "reverse", "insert",
                                                         "sort",   "extend",  "remove"};
constexpr std::array<std::string_view, 5> kHiddenOfMappings{"clear", "pop", "popitem", "setdefault",
                                                            "update"};

template <class Call>
Value bound_method(const Value& of, const std::string& name, Call call) {
  return function_value(name, std::move(call), depth_of(of) + 1);
}

std::optional<Value> of_text(Budget& budget, const Value& of, const std::string& name) {
  expect_unmarked(of, "'" + name + "'");
  if (const TextMethod method = text_method(name)) {
    return bound_method(of, name, [of, name, method](Budget& b, const Arguments& given) {
      return method({b, name, of.text(), given});
    });
  }
  if (is_character_test(name)) {
    return bound_method(of, name, [of, name](Budget& b, const Arguments& given) {
      (void)bind(name, given, {});
      b.read(of.text().size() * 16);
      return Value(passes(name, of.text()));
    });
  }
  (void)budget;
  return is_one_of(kOtherOfTexts, name) ? std::optional(function_value(name)) : std::nullopt;
}

Value view_of(Budget& budget, const Mapping& mapping, Form form) {
  Values all;
  budget.make(mapping.items.size() * sizeof(Value));
  for (const auto& [key, value] : mapping.items) {
    all.push_back(form == Form::keys     ? key
                  : form == Form::values ? value
                                         : sequence_value(budget, {key, value}, Form::tuple));
  }
  return sequence_value(budget, std::move(all), form);
}

std::optional<Value> of_mapping(const Value& of, const std::string& name) {
  if (is_one_of(kHiddenOfMappings, name)) return undefined_value("'" + name + "' is hidden");
  if (name == "get") {
    return bound_method(of, name, [of](Budget& b, const Arguments& arguments) {
      const Bound given = bind("get", arguments, {"key", "default"}, 1, Naming::refused);
      expect_hashable(*given[0]);
      const Value* const found = of.mapping()->find(b, *given[0]);
      return found != nullptr ? *found : given[1].value_or(Value(None{}));
    });
  }
  if (name == "copy") {
    return bound_method(of, name, [of](Budget&, const Arguments& given) {
      (void)bind("copy", given, {});
      return of;
    });
  }
  if (name == "fromkeys") return function_value(name);
  const Form form = name == "keys"     ? Form::keys
                    : name == "values" ? Form::values
                    : name == "items"  ? Form::items
                                       : Form::list;
  if (form == Form::list) return std::nullopt;
  return bound_method(of, name, [of, name, form](Budget& b, const Arguments& given) {
    (void)bind(name, given, {});
    return view_of(b, *of.mapping(), form);
  });
}

Value place_in(Budget& budget, const Sequence& list, const Arguments& arguments) {
  const Value wanted = *bind("index", arguments, {"value"}, 1, Naming::refused)[0];
  for (std::size_t at = 0; at < list.items.size(); ++at) {
    if (equal(budget, list.items[at], wanted)) return Value(static_cast<std::int64_t>(at));
  }
  fail("'index': the value is not in the list, expected it");
}

Value count_in(Budget& budget, const Sequence& list, const Arguments& arguments) {
  const Value wanted = *bind("count", arguments, {"value"}, 1, Naming::refused)[0];
  return Value(std::int64_t{std::ranges::count_if(
      list.items, [&](const Value& one) { return equal(budget, one, wanted); })});
}

std::optional<Value> of_sequence(const Value& of, const std::string& name) {
  const Form form = of.sequence()->form;
  if (form > Form::range) return std::nullopt;
  if (name == "index" || name == "count") {
    return bound_method(of, name, [of, name](Budget& b, const Arguments& given) {
      return name == "index" ? place_in(b, *of.sequence(), given)
                             : count_in(b, *of.sequence(), given);
    });
  }
  if (form != Form::list) return std::nullopt;
  if (is_one_of(kHiddenOfLists, name)) return undefined_value("'" + name + "' is hidden");
  if (name == "copy") {
    return bound_method(of, name, [of](Budget&, const Arguments& given) {
      (void)bind("copy", given, {});
      return of;
    });
  }
  return is_one_of(kOtherOfLists, name) && name.size() != 5 ? std::optional(function_value(name))
                                                            : std::nullopt;
}

}  // namespace

std::optional<Value> method_of(Budget& budget, const Value& of, const std::string& name) {
  budget.make(64);
  if (auto* const space = of.get<std::shared_ptr<Namespace>>()) {
    budget.read((*space)->members.size() * 16);
    Value* const found = (*space)->find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  // Attributes of Python's own are hidden.
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__"))
    return undefined_value("'" + name + "' is hidden");
  if (of.is_text()) return of_text(budget, of, name);
  if (of.mapping() != nullptr) return of_mapping(of, name);
  if (of.sequence() != nullptr) return of_sequence(of, name);
  if (of.is<std::shared_ptr<Loop>>()) return loop_attribute(budget, of, name);
  if (of.is_number() && is_one_of(kOtherOfNumbers, name))
    fail("'" + name + "' of " + kind_of(of) + " is not supported in chat templates here");
  return std::nullopt;
}

}  // namespace tandem::exec::chat
