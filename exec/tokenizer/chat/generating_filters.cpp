#include <algorithm>
#include <set>

#include "exec/tokenizer/chat/access.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/predicates.hpp"
#include "exec/tokenizer/chat/text_functions.hpp"

namespace tandem::exec::chat {
namespace {

// Returns a generator whose elements `make` makes from those of `value`. Faults of `value`, and
// those that `start` detects, appear with the first element, as in Python.
template <class Start>
Value lazily(Budget& budget, const char* filter, const Value& value, Start start) {
  auto next = std::make_shared<Next>();
  return generator_value(budget, filter, value,
                         [next, start = std::move(start)]() mutable -> std::optional<Value> {
                           if (!*next) *next = start();
                           return (*next)();
                         });
}

Next nothing() {
  return [] { return std::optional<Value>(); };
}

Value map(Budget& budget, const Value& value, const Arguments& given) {
  return lazily(budget, "map", value, [&budget, value, given]() -> Next {
    if (!is_true(value)) return nothing();
    if (given.places.empty() &&
        std::ranges::find(given.names, "attribute", &std::pair<std::string, Value>::first) !=
            given.names.end()) {
      const Bound bound = bind("map", given, {"attribute", "default"});
      return [&budget, next = iterate(budget, value, "map"), path = *bound[0],
              otherwise = bound[1].value_or(Value(None{}))]() -> std::optional<Value> {
        const std::optional<Value> one = next();
        if (!one) return std::nullopt;
        budget.step();
        return path_of(budget, *one, path, otherwise);
      };
    }
    if (given.places.empty()) fail("map without a filter, expected its name or attribute=");
    if (!given.places[0].is_text())
      fail("map by " + kind_of(given.places[0]) + ", expected a filter's name");
    Arguments rest = given;
    rest.places.erase(rest.places.begin());
    return [&budget, next = iterate(budget, value, "map"), name = given.places[0].text(),
            rest]() -> std::optional<Value> {
      const std::optional<Value> one = next();
      return one ? std::optional(filtered(budget, name, *one, rest)) : std::nullopt;
    };
  });
}

struct Selection {
  const char* name;
  bool by_attribute;
  bool wanted;
};

// Those that a test, or their truth, picks.
Value picked(Budget& budget, const Value& value, const Arguments& given, Selection how) {
  return lazily(budget, how.name, value, [&budget, value, given, how]() -> Next {
    if (!is_true(value)) return nothing();
    Arguments rest = given;
    const auto take = [&rest] {
      Value one = rest.places.front();
      rest.places.erase(rest.places.begin());
      return one;
    };
    if (how.by_attribute && rest.places.empty())
      fail(std::string(how.name) + " without an attribute, expected its name");
    const Value path = how.by_attribute ? take() : Value(None{});
    const std::optional<Value> test = rest.places.empty() ? std::nullopt : std::optional(take());
    if (test && !test->is_text())
      fail(std::string(how.name) + " by " + kind_of(*test) + ", expected a test's name");
    return [&budget, next = iterate(budget, value, how.name), path, test, rest,
            how]() -> std::optional<Value> {
      while (std::optional<Value> one = next()) {
        budget.step();
        const Value looked_at = path_of(budget, *one, path);
        const bool holds =
            test ? tested(budget, test->text(), looked_at, rest) : is_true(looked_at);
        if (holds == how.wanted) return one;
      }
      return std::nullopt;
    };
  });
}

template <bool kByAttribute, bool kWanted>
Value pick(Budget& budget, const Value& value, const Arguments& given) {
  constexpr const char* kName =
      kByAttribute ? (kWanted ? "selectattr" : "rejectattr") : (kWanted ? "select" : "reject");
  return picked(budget, value, given, {kName, kByAttribute, kWanted});
}

Value unique(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = given.truth(0, false);
  return lazily(
      budget, "unique", value,
      [&budget, value, case_sensitive, path = given[1].value_or(Value(None{}))]() -> Next {
        auto seen = std::make_shared<std::set<Value, KeyOrder>>();
        return [&budget, next = iterate(budget, value, "unique"), seen, case_sensitive,
                path]() -> std::optional<Value> {
          while (std::optional<Value> one = next()) {
            Value key = path_of(budget, *one, path);
            if (!case_sensitive && key.is_text())
              key = cased_value(budget, key.text(), Case::lower);
            expect_hashable(key);
            budget.make(128);
            budget.read(key_bytes(key) * std::bit_width(seen->size() + 1));
            if (seen->insert(std::move(key)).second) return one;
          }
          return std::nullopt;
        };
      });
}

Value items(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("items", given, {});
  return lazily(budget, "items", value, [&budget, value]() -> Next {
    if (value.is_undefined()) return nothing();
    const auto* const mapping = value.get<std::shared_ptr<const Mapping>>();
    if (mapping == nullptr)
      fail("the filter 'items' of " + kind_of(value) + ", expected a mapping");
    return [&budget, held = *mapping, at = std::size_t{0}]() mutable -> std::optional<Value> {
      if (at >= held->items.size()) return std::nullopt;
      const auto& [key, one] = held->items[at++];
      return sequence_value(budget, {key, one}, Sequence::Form::tuple);
    };
  });
}

Value batch(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = given.whole(0, 1);
  if (size < 1) fail("the filter 'batch' by " + std::to_string(size) + ", expected 1 or more");
  return lazily(budget, "batch", value,
                [&budget, value, size, fill = given[1].value_or(Value(None{}))]() -> Next {
                  return [&budget, next = iterate(budget, value, "batch"), size,
                          fill]() -> std::optional<Value> {
                    Values row;
                    while (std::ssize(row) < size) {
                      std::optional<Value> one = next();
                      if (!one) break;
                      row.push_back(*std::move(one));
                    }
                    if (row.empty()) return std::nullopt;
                    while (!fill.is_none() && std::ssize(row) < size) {
                      budget.make(sizeof(Value));
                      row.push_back(fill);
                    }
                    return sequence_value(budget, std::move(row));
                  };
                });
}

Value slices(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t count = given.whole(0, 1);
  if (count < 1) fail("the filter 'slice' by " + std::to_string(count) + ", expected 1 or more");
  return lazily(budget, "slice", value,
                [&budget, value, count, fill = given[1].value_or(Value(None{}))]() -> Next {
                  auto all = std::make_shared<Values>(elements_of(budget, value, "slice"));
                  return [&budget, all, count, fill, slice = std::int64_t{0},
                          begin = std::int64_t{0}]() mutable -> std::optional<Value> {
                    if (slice == count) return std::nullopt;
                    budget.step();
                    const std::int64_t longer = std::ssize(*all) % count;
                    const std::int64_t end =
                        begin + std::ssize(*all) / count + (slice < longer ? 1 : 0);
                    Values part(all->begin() + begin, all->begin() + end);
                    if (!fill.is_none() && slice >= longer) part.push_back(fill);
                    begin = end;
                    ++slice;
                    return sequence_value(budget, std::move(part));
                  };
                });
}

}  // namespace

const Filters& generating_filters() {
  static const Filters all{{"batch", batch},
                           {"items", items},
                           {"map", map},
                           {"reject", pick<false, false>},
                           {"rejectattr", pick<true, false>},
                           {"select", pick<false, true>},
                           {"selectattr", pick<true, true>},
                           {"slice", slices},
                           {"unique", unique}};
  return all;
}

}  // namespace tandem::exec::chat
