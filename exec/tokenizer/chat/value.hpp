#pragma once

// Values of chat templates: the subset of Python's that templates create. All except namespaces,
// generators and loops are immutable, so copies share their contents.

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exec/tokenizer/chat/template_budget.hpp"

namespace tandem::exec::chat {

class Value;
using Values = std::vector<Value>;
struct Arguments;
struct Sequence;
struct Mapping;
struct Namespace;
struct Generator;
struct Loop;
struct Function;

struct Undefined {
  std::shared_ptr<const std::string> reason{};  // "'x' is undefined", for messages
};
struct None {};
// Valid UTF-8.
struct Text {
  std::shared_ptr<const std::string> bytes{};
  bool safe = false;  // marked by the filter `safe`: Python would escape what is added to it
};

template <class T, class Variant>
inline constexpr bool kIsAlternative = false;
template <class T, class... Ts>
inline constexpr bool kIsAlternative<T, std::variant<Ts...>> = (std::is_same_v<T, Ts> || ...);

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, Text,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Mapping>,
                            std::shared_ptr<Namespace>, std::shared_ptr<Generator>,
                            std::shared_ptr<Loop>, std::shared_ptr<const Function>>;

  Value() = default;  // undefined
  template <class T>
  requires kIsAlternative<T, Data>
  explicit Value(T data) : data_(std::in_place_type<T>, std::move(data)) {}

  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] bool is_undefined() const { return is<Undefined>(); }
  [[nodiscard]] bool is_none() const { return is<None>(); }
  [[nodiscard]] bool is_text() const { return is<Text>(); }
  [[nodiscard]] bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }
  // Returns the characters; the value must be a text.
  [[nodiscard]] const std::string& text() const { return *std::get<Text>(data_).bytes; }
  // Return null unless the value is one.
  [[nodiscard]] const Sequence* sequence() const;
  [[nodiscard]] const Mapping* mapping() const;
  // Returns an integer, or a truth value as 0 or 1.
  [[nodiscard]] std::optional<std::int64_t> whole() const;
  [[nodiscard]] const Data& data() const { return data_; }

 private:
  Data data_{};
};

struct Sequence {
  enum class Form { list, tuple, range, keys, values, items };  // the last three: of a mapping
  Form form = Form::list;
  Values items{};
  std::array<std::int64_t, 3> bounds{};  // of a range: begin, end, step
  int depth = 1;
  bool is_hashable = false;     // a tuple of what Python can hash
  std::uint64_t key_bytes = 0;  // see key_bytes()
};

// A total order of possible keys of mappings: equal exactly where Python's == and hash() are.
struct KeyOrder {
  bool operator()(const Value& a, const Value& b) const;
};

// In the order of insertion.
struct Mapping {
  std::vector<std::pair<Value, Value>> items{};
  std::map<Value, std::size_t, KeyOrder> places{};  // in items, by key
  int depth = 1;
  // Returns null if there is none. The key must be hashable.
  [[nodiscard]] const Value* find(Budget& budget, const Value& key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> members{};
  // Returns null if there is none.
  [[nodiscard]] Value* find(std::string_view name);
};

// Returns the next element, or nothing at the end.
using Next = std::function<std::optional<Value>()>;

// The result of filters such as `map` and `select`: each element is made on demand, once.
struct Generator {
  Next next{};
  std::string filter{};
  int depth = 1;
};

// Iterates over elements, looking one ahead if a template asks for the next one.
struct Loop {
  Next next{};
  std::optional<std::size_t> length{};  // known in advance except for generators
  std::optional<Value> ahead{};         // the next element, if `looked`
  bool looked = false;
  std::optional<Value> before{};
  Value current{};
  std::int64_t index0 = -1;
  std::int64_t level0 = 0;  // depth of a recursive loop
  Values changed{};         // the arguments of the last loop.changed()
  bool asked_changed = false;
  std::function<Value(const Value&)> recurse{};  // empty: not recursive
  int depth = 1;

  // Moves to the next element; false at the end.
  bool advance();
  // Looks one ahead.
  const std::optional<Value>& peek();
};

struct Function {
  std::string name{};
  std::function<Value(Budget&, const Arguments&)> call{};  // empty: unsupported
  int depth = 1;
  std::string written{};  // as a text; empty: Python writes an address
};

// Each charges what it makes. Those for lists and mappings throw Error beyond 100 nested levels.
[[nodiscard]] Value text_value(Budget& budget, std::string text);
[[nodiscard]] Value sequence_value(Budget& budget, Values items,
                                   Sequence::Form form = Sequence::Form::list);
// A later value of the same key replaces the earlier one, in its place. Throws Error for unhashable
// keys.
[[nodiscard]] Value mapping_value(Budget& budget, std::vector<std::pair<Value, Value>>&& items);
[[nodiscard]] Value generator_value(Budget& budget, std::string filter, const Value& source,
                                    Next next);
[[nodiscard]] Value function_value(std::string name,
                                   std::function<Value(Budget&, const Arguments&)> call = {},
                                   int depth = 1);
[[nodiscard]] Value undefined_value(std::string reason);

// Compares integers, floating-point and truth values exactly; unordered with a NaN.
[[nodiscard]] std::partial_ordering order_of_numbers(const Value& a, const Value& b);
[[nodiscard]] bool is_hashable(const Value& key);
// Throws Error for an unhashable value.
void expect_hashable(const Value& key);
// Returns the bytes that comparing `key` with another key reads, at most 2^40. Tuples count each
// element as often as they refer to it, which may be far more often than it is in memory.
[[nodiscard]] std::uint64_t key_bytes(const Value& key);
// Returns the number of nested levels.
[[nodiscard]] int depth_of(const Value& value);
// Returns Python's bool().
[[nodiscard]] bool is_true(const Value& value);
// Returns "a text", "a list", ... for messages; an undefined value by its reason.
[[nodiscard]] std::string kind_of(const Value& value);

// Collects a text, charging what is appended. Throws Error beyond 16 MiB.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}
  void append(std::string_view part);
  void append(std::size_t times, char c);
  [[nodiscard]] Value take() { return Value(Text{std::make_shared<std::string>(take_text())}); }
  [[nodiscard]] std::string take_text() { return std::move(text_); }

 private:
  Budget* budget_;
  std::string text_;
};

}  // namespace tandem::exec::chat
