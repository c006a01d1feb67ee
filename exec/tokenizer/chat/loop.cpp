#include "exec/tokenizer/chat/loop.hpp"

#include <algorithm>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/compare.hpp"

namespace tandem::exec::chat {
namespace {

// A value that a loop remembers must not refer to the loop, as neither would ever be freed.
void expect_plain(Budget& budget, const Value& value) {
  budget.read(16);
  if (const Sequence* const list = value.sequence()) {
    for (const Value& one : list->items) expect_plain(budget, one);
  } else if (const Mapping* const mapping = value.mapping()) {
    for (const auto& [key, one] : mapping->items) expect_plain(budget, one);
  } else if (depth_of(value) > 0) {
    fail("loop.changed of " + kind_of(value) + ", expected texts, numbers, lists or mappings");
  }
}

}  // namespace

std::optional<Value> loop_attribute(Budget& budget, const Value& of, const std::string& name) {
  const std::shared_ptr<Loop>& loop = *of.get<std::shared_ptr<Loop>>();
  const auto number = [](std::int64_t n) { return Value(n); };
  const auto length = [&] {
    if (!loop->length) {
      // Counting a generator's elements makes all of them.
      auto rest = std::make_shared<Values>();
      if (loop->looked && loop->ahead) rest->push_back(*loop->ahead);
      const bool ended = loop->looked && !loop->ahead;
      while (!ended) {
        std::optional<Value> one = loop->next();
        if (!one) break;
        budget.make(sizeof(Value));
        rest->push_back(*std::move(one));
      }
      loop->looked = false;
      loop->ahead.reset();
      loop->length = rest->size() + static_cast<std::size_t>(loop->index0 + 1);
      loop->next = [rest, at = std::size_t{0}]() mutable -> std::optional<Value> {
        return at < rest->size() ? std::optional((*rest)[at++]) : std::nullopt;
      };
    }
    return static_cast<std::int64_t>(*loop->length);
  };
  if (name == "index") return number(loop->index0 + 1);
  if (name == "index0") return number(loop->index0);
  if (name == "first") return Value(loop->index0 == 0);
  if (name == "last") return Value(!loop->peek());
  if (name == "length") return number(length());
  if (name == "revindex") return number(length() - loop->index0);
  if (name == "revindex0") return number(length() - loop->index0 - 1);
  if (name == "depth") return number(loop->level0 + 1);
  if (name == "depth0") return number(loop->level0);
  if (name == "previtem")
    return loop->before ? *loop->before : undefined_value("there is no previous item");
  if (name == "nextitem") return loop->peek().value_or(undefined_value("there is no next item"));
  if (name == "cycle") {
    return function_value(name, [loop](Budget&, const Arguments& given) {
      if (given.places.empty() || !given.names.empty()) fail("loop.cycle: expected some values");
      return given.places[static_cast<std::size_t>(loop->index0) % given.places.size()];
    });
  }
  if (name == "changed") {
    return function_value(name, [loop](Budget& b, const Arguments& given) {
      if (!given.names.empty()) fail("loop.changed: expected values by place");
      const bool same =
          loop->asked_changed &&
          std::ranges::equal(loop->changed, given.places,
                             [&](const Value& x, const Value& y) { return equal(b, x, y); });
      for (const Value& one : given.places) expect_plain(b, one);
      loop->asked_changed = true;
      loop->changed = given.places;
      return Value(!same);
    });
  }
  return std::nullopt;
}

}  // namespace tandem::exec::chat
