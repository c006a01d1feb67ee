#include "exec/grammar/json_rules.hpp"

#include <algorithm>
#include <initializer_list>

namespace tandem::exec {

GrammarState JsonRules::range(GrammarState from, unsigned char first, unsigned char last) {
  const GrammarState to = grammar_->add_state();
  grammar_->add_edge(from, first, last, to);
  return to;
}

GrammarRule JsonRules::white_space() {
  constexpr int kMostIndent = 20;
  if (space_) return *space_;
  space_ = grammar_->add_rule();
  const GrammarState start = grammar_->start(*space_);
  grammar_->set_end(range(start, ' ', ' '));
  GrammarState at = range(start, '\n', '\n');
  grammar_->set_end(at);
  for (int i = 0; i < kMostIndent; ++i) {
    const GrammarState next = range(at, ' ', ' ');
    grammar_->add_edge(at, '\t', '\t', next);
    grammar_->set_end(next);
    at = next;
  }
  return *space_;
}

GrammarState JsonRules::space(GrammarState from) {
  const GrammarRule rule = white_space();
  const GrammarState to = grammar_->add_state();
  grammar_->add_jump(from, to);
  grammar_->add_call(from, rule, to);
  return to;
}

// UTF-8 (RFC 3629, section 4) without what is a control character or part of a string's syntax.
void JsonRules::characters(GrammarState from, GrammarState to) {
  grammar_->add_edge(from, 0x20, '"' - 1, to);
  grammar_->add_edge(from, '"' + 1, '\\' - 1, to);
  grammar_->add_edge(from, '\\' + 1, 0x7E, to);
  const GrammarState last = grammar_->add_state();
  grammar_->add_edge(last, 0x80, 0xBF, to);
  const auto behind = [&](std::initializer_list<std::pair<int, int>> bytes, GrammarState end) {
    GrammarState at = from;
    std::size_t left = bytes.size();
    for (const auto& [first, most] : bytes) {
      const GrammarState next = --left == 0 ? end : grammar_->add_state();
      grammar_->add_edge(at, static_cast<unsigned char>(first), static_cast<unsigned char>(most),
                         next);
      at = next;
    }
  };
  behind({{0xC2, 0xC2}, {0xA0, 0xBF}}, to);  // from U+00A0
  behind({{0xC3, 0xDF}}, last);
  behind({{0xE0, 0xE0}, {0xA0, 0xBF}}, last);
  behind({{0xE1, 0xEC}, {0x80, 0xBF}}, last);
  behind({{0xED, 0xED}, {0x80, 0x9F}}, last);  // no surrogates
  behind({{0xEE, 0xEF}, {0x80, 0xBF}}, last);
  behind({{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}}, last);
  behind({{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}}, last);
  behind({{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}}, last);
}

void JsonRules::escapes(GrammarState from, GrammarState to) {
  const GrammarState behind = range(from, '\\', '\\');
  for (const char letter : std::string_view("\"\\/bfnrt")) {
    const auto byte = static_cast<unsigned char>(letter);
    grammar_->add_edge(behind, byte, byte, to);
  }
  const auto hex = [&](GrammarState at, std::string_view ranges, GrammarState end) {
    for (std::size_t i = 0; i < ranges.size(); i += 2)
      grammar_->add_edge(at, static_cast<unsigned char>(ranges[i]),
                         static_cast<unsigned char>(ranges[i + 1]), end);
    return end;
  };
  constexpr std::string_view kAny = "09afAF";
  const auto three = [&](GrammarState at, GrammarState end) {
    at = hex(at, kAny, grammar_->add_state());
    at = hex(at, kAny, grammar_->add_state());
    hex(at, kAny, end);
  };
  const GrammarState code = range(behind, 'u', 'u');
  three(hex(code, "09aceeffACEEFF", grammar_->add_state()), to);
  // A surrogate (D8 to DB), and its second half (DC to DF).
  const GrammarState d = range(code, 'd', 'd');
  grammar_->add_edge(code, 'D', 'D', d);
  const GrammarState plain = hex(d, "07", grammar_->add_state());
  hex(hex(plain, kAny, grammar_->add_state()), kAny, to);
  GrammarState at = hex(d, "89abAB", grammar_->add_state());
  at = hex(at, kAny, grammar_->add_state());
  at = hex(at, kAny, grammar_->add_state());
  at = range(range(at, '\\', '\\'), 'u', 'u');
  const GrammarState second = range(at, 'd', 'd');
  grammar_->add_edge(at, 'D', 'D', second);
  at = hex(second, "cfCF", grammar_->add_state());
  hex(hex(at, kAny, grammar_->add_state()), kAny, to);
}

GrammarRule JsonRules::string() {
  if (string_) return *string_;
  string_ = grammar_->add_rule();
  const GrammarState body = range(grammar_->start(*string_), '"', '"');
  characters(body, body);
  escapes(body, body);
  grammar_->set_end(range(body, '"', '"'));
  return *string_;
}

std::vector<GrammarState> JsonRules::up_to(GrammarState from, int most) {
  std::vector<GrammarState> ends;
  ends.reserve(static_cast<std::size_t>(most));
  for (int i = 0; i < most; ++i) ends.push_back(from = digit(from));
  return ends;
}

GrammarRule JsonRules::digits(bool integer) {
  constexpr int kMostDigits = 15;
  constexpr int kMostExponent = 2;
  const GrammarRule rule = grammar_->add_rule();
  const GrammarState start = grammar_->start(rule);
  const GrammarState first = grammar_->add_state();  // behind a sign, or none
  grammar_->add_edge(start, '-', '-', first);
  grammar_->add_jump(start, first);
  std::vector<GrammarState> ends{range(first, '0', '0')};
  ends.push_back(range(first, '1', '9'));
  for (const GrammarState end : up_to(ends.back(), kMostDigits - 1)) ends.push_back(end);
  if (!integer) {
    const GrammarState point = grammar_->add_state();
    for (const GrammarState end : ends) grammar_->add_edge(end, '.', '.', point);
    for (const GrammarState end : up_to(point, kMostDigits)) ends.push_back(end);
    const GrammarState exponent = grammar_->add_state();
    for (const GrammarState end : ends) {
      grammar_->add_edge(end, 'e', 'e', exponent);
      grammar_->add_edge(end, 'E', 'E', exponent);
    }
    const GrammarState sign = range(exponent, '+', '+');
    grammar_->add_edge(exponent, '-', '-', sign);
    grammar_->add_jump(exponent, sign);
    for (const GrammarState end : up_to(sign, kMostExponent)) ends.push_back(end);
  }
  for (const GrammarState end : ends) grammar_->set_end(end);
  return rule;
}

GrammarRule JsonRules::number() {
  if (!number_) number_ = digits(false);
  return *number_;
}

GrammarRule JsonRules::integer() {
  if (!integer_) integer_ = digits(true);
  return *integer_;
}

GrammarRule JsonRules::boolean() {
  if (boolean_) return *boolean_;
  boolean_ = grammar_->add_rule();
  for (const GrammarState end : literals(grammar_->start(*boolean_), {"true", "false"}))
    grammar_->set_end(end);
  return *boolean_;
}

GrammarRule JsonRules::null() {
  if (null_) return *null_;
  null_ = grammar_->add_rule();
  grammar_->set_end(grammar_->literal(grammar_->start(*null_), "null"));
  return *null_;
}

std::vector<GrammarState> JsonRules::literals(GrammarState from,
                                              const std::vector<std::string>& texts) {
  std::map<std::pair<GrammarState, char>, GrammarState> tree;
  std::vector<GrammarState> ends;
  for (const std::string& text : texts) {
    GrammarState at = from;
    for (const char letter : text) {
      const auto [next, is_new] = tree.try_emplace({at, letter}, 0);
      if (is_new) {
        const auto byte = static_cast<unsigned char>(letter);
        next->second = range(at, byte, byte);
      }
      at = next->second;
    }
    ends.push_back(at);
  }
  return ends;
}

GrammarRule JsonRules::list(GrammarRule item, std::size_t least, std::optional<std::size_t> most) {
  const GrammarRule rule = grammar_->add_rule();
  GrammarState at = range(grammar_->start(rule), '[', '[');
  const GrammarState close = grammar_->add_state();  // behind white space
  const GrammarState end = range(close, ']', ']');
  grammar_->set_end(end);
  GrammarState before = space(at);  // where an item begins
  if (least == 0) grammar_->add_jump(before, close);
  const std::size_t counted = most.value_or(std::max<std::size_t>(1, least));
  for (std::size_t i = 1; i <= counted; ++i) {
    at = grammar_->call(before, item);
    if (i >= least) grammar_->add_jump(space(at), close);
    if (i < counted) {
      before = space(range(at, ',', ','));
    } else if (!most) {
      grammar_->add_call(space(range(at, ',', ',')), item, at);
    }
  }
  return rule;
}

GrammarRule JsonRules::map(GrammarRule value) {
  const GrammarRule rule = grammar_->add_rule();
  const GrammarState open = space(range(grammar_->start(rule), '{', '{'));
  const GrammarState end = range(open, '}', '}');
  grammar_->set_end(end);
  GrammarState key = grammar_->call(open, string());
  const GrammarState behind = grammar_->call(space(range(key, ':', ':')), value);
  grammar_->add_edge(space(behind), '}', '}', end);
  key = grammar_->call(space(range(behind, ',', ',')), string());
  grammar_->add_call(space(range(key, ':', ':')), value, behind);
  return rule;
}

GrammarRule JsonRules::value(int depth) {
  const auto found = free_.find({depth, 'v'});
  if (found != free_.end()) return found->second;
  const GrammarRule rule = grammar_->add_rule();
  free_[{depth, 'v'}] = rule;
  std::vector<GrammarRule> kinds{string(), number(), boolean(), null()};
  if (depth > 0) {
    kinds.push_back(object(depth));
    kinds.push_back(array(depth));
  }
  const GrammarState end = grammar_->add_state();
  grammar_->set_end(end);
  for (const GrammarRule kind : kinds) grammar_->add_call(grammar_->start(rule), kind, end);
  return rule;
}

GrammarRule JsonRules::object(int depth) {
  const auto found = free_.find({depth, 'o'});
  if (found != free_.end()) return found->second;
  const GrammarRule rule = map(value(depth - 1));
  free_[{depth, 'o'}] = rule;
  return rule;
}

GrammarRule JsonRules::array(int depth) {
  const auto found = free_.find({depth, 'a'});
  if (found != free_.end()) return found->second;
  const GrammarRule rule = list(value(depth - 1), 0, std::nullopt);
  free_[{depth, 'a'}] = rule;
  return rule;
}

}  // namespace tandem::exec
