#include "exec/tokenizer/chat/value.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::exec::chat {
namespace {

constexpr int kDeepestValue = 100;
constexpr std::size_t kElementBytes = 64;  // of a list, about
constexpr std::size_t kPairBytes = 192;    // of a mapping
constexpr std::uint64_t kKeyBytes = 64;    // of a mapping's key that is no text
constexpr std::uint64_t kMostKeyBytes = std::uint64_t{1} << 40U;

int nested(int depth) {
  if (depth >= kDeepestValue)
    fail("more than 100 lists in one another, expected fewer; use another template");
  return depth + 1;
}

// Keys of different classes are different.
int key_class(const Value& key) {
  if (key.is_undefined()) return 0;
  if (key.is_none()) return 1;
  if (key.is_number()) return 2;
  return key.is_text() ? 3 : 4;
}

std::partial_ordering order_of(std::int64_t whole, double real) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (std::isnan(real)) return std::partial_ordering::unordered;
  if (real >= kTwo63) return std::partial_ordering::less;
  if (real < -kTwo63) return std::partial_ordering::greater;
  const double floor = std::floor(real);
  const auto below = static_cast<std::int64_t>(floor);
  if (whole != below) return whole <=> below;
  return floor < real ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

}  // namespace

const Sequence* Value::sequence() const {
  const auto* const shared = get<std::shared_ptr<const Sequence>>();
  return shared == nullptr ? nullptr : shared->get();
}

const Mapping* Value::mapping() const {
  const auto* const shared = get<std::shared_ptr<const Mapping>>();
  return shared == nullptr ? nullptr : shared->get();
}

std::optional<std::int64_t> Value::whole() const {
  if (const bool* const truth = get<bool>()) return *truth ? 1 : 0;
  if (const auto* const number = get<std::int64_t>()) return *number;
  return std::nullopt;
}

bool KeyOrder::operator()(const Value& a, const Value& b) const {
  if (key_class(a) != key_class(b)) return key_class(a) < key_class(b);
  if (a.is_number()) {
    const auto order = order_of_numbers(a, b);
    if (order != std::partial_ordering::unordered) return order < 0;
    // Not-a-number comes last.
    const auto is_nan = [](const Value& v) {
      return v.get<double>() != nullptr && std::isnan(*v.get<double>());
    };
    return !is_nan(a) && is_nan(b);
  }
  if (a.is_text()) return a.text() < b.text();
  if (a.sequence() == nullptr) return false;
  return std::ranges::lexicographical_compare(a.sequence()->items, b.sequence()->items, KeyOrder{});
}

const Value* Mapping::find(Budget& budget, const Value& key) const {
  budget.read(key_bytes(key) * (places.size() < 2 ? 1 : std::bit_width(places.size())));
  const auto found = places.find(key);
  return found == places.end() ? nullptr : &items[found->second].second;
}

Value* Namespace::find(std::string_view name) {
  const auto found = std::ranges::find(
      members, name, [](const auto& member) -> const std::string& { return member.first; });
  return found == members.end() ? nullptr : &found->second;
}

Value text_value(Budget& budget, std::string text) {
  Budget::expect_text(text.size());
  budget.make(text.size() + kElementBytes);
  return Value(Text{std::make_shared<const std::string>(std::move(text))});
}

Value sequence_value(Budget& budget, Values items, Sequence::Form form) {
  budget.make((items.size() + 1) * kElementBytes);
  auto made = std::make_shared<Sequence>();
  made->form = form;
  int deepest = 0;
  made->is_hashable = form == Sequence::Form::tuple;
  for (const Value& item : items) {
    deepest = std::max(deepest, depth_of(item));
    made->is_hashable = made->is_hashable && is_hashable(item);
    made->key_bytes = std::min(kMostKeyBytes, made->key_bytes + key_bytes(item));
  }
  made->depth = nested(deepest);
  made->items = std::move(items);
  return Value(std::shared_ptr<const Sequence>(std::move(made)));
}

Value mapping_value(Budget& budget, std::vector<std::pair<Value, Value>>&& items) {
  budget.make((items.size() + 1) * kPairBytes);
  auto made = std::make_shared<Mapping>();
  int deepest = 0;
  for (auto& [key, value] : items) {
    expect_hashable(key);
    deepest = std::max({deepest, depth_of(key), depth_of(value)});
    budget.read(key_bytes(key) * std::bit_width(items.size()));
    const auto [place, is_new] = made->places.try_emplace(key, made->items.size());
    if (is_new) {
      made->items.emplace_back(std::move(key), std::move(value));
    } else {
      made->items[place->second].second = std::move(value);
    }
  }
  made->depth = nested(deepest);
  return Value(std::shared_ptr<const Mapping>(std::move(made)));
}

Value generator_value(Budget& budget, std::string filter, const Value& source, Next next) {
  budget.make(4 * kElementBytes);
  auto made = std::make_shared<Generator>();
  made->depth = nested(depth_of(source));
  made->next = std::move(next);
  made->filter = std::move(filter);
  return Value(std::move(made));
}

Value function_value(std::string name, std::function<Value(Budget&, const Arguments&)> call,
                     int depth) {
  auto made = std::make_shared<Function>();
  made->name = std::move(name);
  made->call = std::move(call);
  made->depth = depth;
  return Value(std::shared_ptr<const Function>(std::move(made)));
}

Value undefined_value(std::string reason) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

std::partial_ordering order_of_numbers(const Value& a, const Value& b) {
  const double* const real_a = a.get<double>();
  const double* const real_b = b.get<double>();
  if (real_a != nullptr && real_b != nullptr) return *real_a <=> *real_b;
  if (real_a != nullptr) return 0 <=> order_of(*b.whole(), *real_a);
  if (real_b != nullptr) return order_of(*a.whole(), *real_b);
  return *a.whole() <=> *b.whole();
}

bool is_hashable(const Value& key) {
  const Sequence* const tuple = key.sequence();
  return key_class(key) < 4 || (tuple != nullptr && tuple->is_hashable);
}

void expect_hashable(const Value& key) {
  if (is_hashable(key)) return;
  const Sequence* const tuple = key.sequence();
  if (tuple == nullptr || tuple->form != Sequence::Form::tuple)
    fail(kind_of(key) + " as a key of a mapping, expected a text or a number");
  for (const Value& part : tuple->items) expect_hashable(part);
}

std::uint64_t key_bytes(const Value& key) {
  if (key.is_text()) return key.text().size() + 1;
  const Sequence* const tuple = key.sequence();
  return std::min(kMostKeyBytes, kKeyBytes + (tuple == nullptr ? 0 : tuple->key_bytes));
}

int depth_of(const Value& value) {
  if (const Sequence* const list = value.sequence()) return list->depth;
  if (const Mapping* const mapping = value.mapping()) return mapping->depth;
  if (const auto* const generator = value.get<std::shared_ptr<Generator>>())
    return (*generator)->depth;
  if (const auto* const function = value.get<std::shared_ptr<const Function>>())
    return (*function)->depth;
  if (const auto* const loop = value.get<std::shared_ptr<Loop>>()) return (*loop)->depth;
  return 0;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* const truth = value.get<bool>()) return *truth;
  if (const auto* const whole = value.get<std::int64_t>()) return *whole != 0;
  if (const double* const real = value.get<double>()) return *real != 0.0;
  if (value.is_text()) return !value.text().empty();
  if (const Sequence* const list = value.sequence()) return !list->items.empty();
  if (const Mapping* const mapping = value.mapping()) return !mapping->items.empty();
  return true;
}

std::string kind_of(const Value& value) {
  if (const Undefined* const undefined = value.get<Undefined>())
    return undefined->reason ? "what is undefined (" + *undefined->reason + ")"
                             : "what is undefined";
  if (value.is_none()) return "none";
  if (value.is<bool>()) return "a truth value";
  if (value.is<std::int64_t>()) return "a whole number";
  if (value.is<double>()) return "a floating-point number";
  if (value.is_text()) return "a text";
  if (value.mapping() != nullptr) return "a mapping";
  if (const Sequence* const list = value.sequence()) {
    constexpr std::array<const char*, 6> kForms{"a list",
                                                "a tuple",
                                                "a range",
                                                "the keys of a mapping",
                                                "the values of a mapping",
                                                "the items of a mapping"};
    return kForms.at(static_cast<std::size_t>(list->form));
  }
  if (value.is<std::shared_ptr<Namespace>>()) return "a namespace";
  if (const auto* const generator = value.get<std::shared_ptr<Generator>>())
    return "what the filter '" + (*generator)->filter + "' generates";
  if (value.is<std::shared_ptr<Loop>>()) return "a loop";
  return "the function '" + (*value.get<std::shared_ptr<const Function>>())->name + "'";
}

void TextBuilder::append(std::string_view part) {
  Budget::expect_text(text_.size() + part.size());
  budget_->make(part.size());
  text_ += part;
}

void TextBuilder::append(std::size_t times, char c) {
  Budget::expect_text(times);
  Budget::expect_text(text_.size() + times);
  budget_->make(times);
  text_.append(times, c);
}

bool Loop::advance() {
  std::optional<Value> one = looked ? std::move(ahead) : next();
  looked = false;
  ahead.reset();
  if (!one) return false;
  if (index0 >= 0) before = std::move(current);
  current = std::move(*one);
  ++index0;
  return true;
}

const std::optional<Value>& Loop::peek() {
  if (!looked) {
    ahead = next();
    looked = true;
  }
  return ahead;
}

}  // namespace tandem::exec::chat
