#include "exec/tokenizer/chat/filters.hpp"

#include <algorithm>
#include <array>

#include "exec/tokenizer/chat/arithmetic.hpp"

namespace tandem::exec::chat {
namespace {

// Jinja's filters that chat templates do not need.
constexpr std::array<std::string_view, 11> kOtherFilters{
    "attr",      "filesizeformat", "groupby",  "pprint",  "random",  "striptags",
    "urlencode", "urlize",         "wordwrap", "xmlattr", "truncate"};
// Those that do not care whether a text was marked safe.
constexpr std::array<std::string_view, 15> kAnyMark{
    "string", "length",  "count",       "default", "d",   "tojson", "safe",     "list",
    "escape", "replace", "forceescape", "e",       "int", "float",  "wordcount"};

const std::array<const Filters*, 3>& tables() {
  static const std::array<const Filters*, 3> all{&value_filters(), &list_filters(),
                                                 &generating_filters()};
  return all;
}

Filter find_filter(const std::string& name) {
  for (const Filters* const table : tables()) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

Value filtered(Budget& budget, const std::string& name, const Value& value,
               const Arguments& given) {
  budget.step();
  const Filter filter = find_filter(name);
  if (filter == nullptr) {
    std::string names;
    for (const Filters* const table : tables()) {
      for (const auto& [known, unused] : *table) names += (names.empty() ? "" : ", ") + known;
    }
    fail("filter '" + name +
         "': " + (is_filter(name) ? "not supported in chat templates here" : "not known") +
         ", expected one of " + names);
  }
  if (std::ranges::find(kAnyMark, name) == kAnyMark.end())
    expect_unmarked(value, "the filter '" + name + "'");
  return filter(budget, value, given);
}

bool is_filter(const std::string& name) {
  return find_filter(name) != nullptr ||
         std::ranges::find(kOtherFilters, name) != kOtherFilters.end();
}

}  // namespace tandem::exec::chat
