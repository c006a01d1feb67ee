#pragma once

// The texts of JSON (RFC 8259) as rules of a grammar: a subset in which each value has few forms.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/grammar/byte_grammar.hpp"

namespace tandem::exec {

// Makes each rule when it is first asked for.
class JsonRules {
 public:
  explicit JsonRules(ByteGrammar& grammar) : grammar_(&grammar) {}

  // Returns the state behind white space that is allowed at `from`: none, a space, or a line end
  // and up to 20 spaces and tabs.
  GrammarState space(GrammarState from);
  // A string of UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F), in which
  // escapes of surrogates are pairs.
  GrammarRule string();
  // At most 15 digits before the point and behind it, and 2 in the exponent: every such number is
  // finite. An integer has at most 15 digits, as doubles hold it exactly, no point and no exponent.
  GrammarRule number();
  GrammarRule integer();
  GrammarRule boolean();
  GrammarRule null();
  // Any value, object or array, nested up to kFreeDepth deep.
  GrammarRule value() { return value(kFreeDepth); }
  GrammarRule object() { return object(kFreeDepth); }
  GrammarRule array() { return array(kFreeDepth); }
  // A list of values of `item`, `least` to `most` of them (absent: any number).
  GrammarRule list(GrammarRule item, std::size_t least, std::optional<std::size_t> most);
  // An object of any keys, whose values are of `value`.
  GrammarRule map(GrammarRule value);
  // The states behind each of `texts`, from `from`; common beginnings are shared.
  std::vector<GrammarState> literals(GrammarState from, const std::vector<std::string>& texts);

  static constexpr int kFreeDepth = 32;

 private:
  GrammarRule value(int depth);
  GrammarRule object(int depth);
  GrammarRule array(int depth);
  GrammarRule white_space();
  GrammarRule digits(bool integer);
  void escapes(GrammarState from, GrammarState to);
  void characters(GrammarState from, GrammarState to);
  GrammarState range(GrammarState from, unsigned char first, unsigned char last);
  GrammarState digit(GrammarState from) { return range(from, '0', '9'); }
  // The states behind 1 to `most` digits: each may be the last.
  std::vector<GrammarState> up_to(GrammarState from, int most);

  ByteGrammar* grammar_;
  std::optional<GrammarRule> string_, number_, integer_, boolean_, null_, space_;
  std::map<std::pair<int, char>, GrammarRule> free_;  // by depth and kind
};

}  // namespace tandem::exec
