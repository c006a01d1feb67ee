#include "exec/tokenizer/chat/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "exec/tokenizer/chat/numbers.hpp"

namespace tandem::exec::chat {
namespace {

using Kind = Expression::Kind;

constexpr int kDeepestExpression = 200;
constexpr int kDeepestTree = 500;  // 1 + 1 + 1 + ... are levels, too

bool is_any(const Token& token, std::span<const std::string_view> names) {
  return std::ranges::find(names, token.text) != names.end();
}

Expression literal(Value value) { return {.kind = Kind::literal, .value = std::move(value)}; }

Expression text_literal(std::string text) {
  return literal(Value(Text{std::make_shared<const std::string>(std::move(text))}));
}

void expect_target(const TokenStream& tokens, const Expression& target) {
  constexpr std::array<std::string_view, 6> kConstants{"true", "false", "none",
                                                       "True", "False", "None"};
  if (target.kind == Kind::tuple) {
    for (const Expression& part : target.children) expect_target(tokens, part);
  } else if (target.kind != Kind::name ||
             std::ranges::find(kConstants, target.text) != kConstants.end()) {
    tokens.fail("a name to set before it");
  }
}

}  // namespace

// Counts how deep the parser is.
class ExpressionParser::Deeper {
 public:
  explicit Deeper(ExpressionParser& parser) : parser_(&parser) {
    if (++parser.depth_ > kDeepestExpression)
      parser.tokens_->fail("less deeply nested expressions");
  }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { --parser_->depth_; }

 private:
  ExpressionParser* parser_;
};

Expression ExpressionParser::made(Expression of) {
  int deepest = 0;
  for (const Expression& child : of.children) deepest = std::max(deepest, child.depth);
  for (const Expression& value : of.argument_values) deepest = std::max(deepest, value.depth);
  if (deepest >= kDeepestTree) tokens_->fail("a shorter expression");
  of.depth = deepest + 1;
  return of;
}

void ExpressionParser::note_unknown(const std::string& what) {
  unknown_.push_back({Token::Kind::name, what, tokens_->current().line});
}

void ExpressionParser::expect_known() const {
  if (!unknown_.empty())
    fail_at(unknown_.front().line, unknown_.front().text + ": not known, expected one of Jinja's");
}

Expression ExpressionParser::tuple(bool with_conditions) {
  const auto at_end = [&] {
    return tokens_->is(Token::Kind::output_end) || tokens_->is(Token::Kind::block_end) ||
           tokens_->is_sign(")");
  };
  const auto part = [&] { return with_conditions ? expression() : without_condition(); };
  if (at_end()) tokens_->fail("an expression");
  Expression first = part();
  if (!tokens_->is_sign(",")) return first;
  Expression all{.kind = Kind::tuple};
  all.children.push_back(std::move(first));
  while (tokens_->take_sign(",") && !at_end()) all.children.push_back(part());
  return made(std::move(all));
}

void ExpressionParser::set_names(const Expression& target) {
  if (target.kind == Kind::name && on_name_) on_name_(target.text, false);
  for (const Expression& part : target.children) set_names(part);
}

Expression ExpressionParser::target(bool member) {
  if (member && tokens_->following().kind == Token::Kind::sign &&
      tokens_->following().text == ".") {
    Expression space{.kind = Kind::name, .text = tokens_->expect_name()};
    if (on_name_) on_name_(space.text, true);
    tokens_->expect_sign(".");
    return made_of({.kind = Kind::attribute, .text = tokens_->expect_name()}, std::move(space));
  }
  // Names are set, not read.
  OnName kept;
  std::swap(kept, on_name_);
  Expression all = primary();
  if (tokens_->is_sign(",")) {
    Expression first = std::move(all);
    all = {.kind = Kind::tuple};
    all.children.push_back(std::move(first));
    while (tokens_->take_sign(",") && !tokens_->is(Token::Kind::block_end))
      all.children.push_back(primary());
  }
  std::swap(kept, on_name_);
  expect_target(*tokens_, all);
  set_names(all);
  return all;
}

Expression ExpressionParser::conditional() {
  const Deeper deeper(*this);
  const std::size_t unknown = unknown_.size();
  Expression all = without_condition();
  // Jinja resolves names in a condition's branches only when it evaluates them.
  const bool is_conditional = tokens_->is_name("if");
  while (tokens_->take_name("if")) {
    Expression one{.kind = Kind::conditional};
    one.children.push_back(std::move(all));
    one.children.push_back(without_condition());
    if (tokens_->take_name("else")) one.children.push_back(conditional());
    all = made(std::move(one));
  }
  if (is_conditional) unknown_.resize(unknown);
  return all;
}

Expression ExpressionParser::binary(Level level) {
  static const std::map<Level, std::vector<std::string_view>> signs{
      {Level::disjunction, {"or"}},
      {Level::conjunction, {"and"}},
      {Level::sum, {"+", "-"}},
      {Level::product, {"*", "/", "//", "%"}},
      {Level::power, {"**"}}};
  const auto is_here = [&] {
    return (tokens_->is(Token::Kind::name) || tokens_->is(Token::Kind::sign)) &&
           is_any(tokens_->current(), signs.at(level));
  };
  Expression left = operand(level);
  while (is_here()) {
    Expression one{.kind = Kind::binary, .text = tokens_->take().text};
    left = made_of(std::move(one), std::move(left), operand(level));
  }
  return left;
}

Expression ExpressionParser::operand(Level level) {
  switch (level) {
    case Level::disjunction:
      return binary(Level::conjunction);
    case Level::conjunction:
      return negation();
    case Level::sum:
      return joining();
    case Level::product:
      return binary(Level::power);
    case Level::power:
      return signed_one(true);
  }
  return {};
}

Expression ExpressionParser::negation() {
  const Deeper deeper(*this);
  if (!tokens_->take_name("not")) return comparison();
  return made_of({.kind = Kind::negation}, negation());
}

Expression ExpressionParser::comparison() {
  constexpr std::array<std::string_view, 6> kSigns{"==", "!=", "<", "<=", ">", ">="};
  Expression all{.kind = Kind::comparison};
  all.children.push_back(binary(Level::sum));
  while (true) {
    if (tokens_->is(Token::Kind::sign) && is_any(tokens_->current(), kSigns)) {
      all.signs.push_back(tokens_->take().text);
    } else if (tokens_->take_name("in")) {
      all.signs.emplace_back("in");
    } else if (tokens_->is_name("not") && tokens_->following().kind == Token::Kind::name &&
               tokens_->following().text == "in") {
      tokens_->take();
      tokens_->take();
      all.signs.emplace_back("notin");
    } else {
      break;
    }
    all.children.push_back(binary(Level::sum));
  }
  if (all.signs.empty()) {
    Expression alone = std::move(all.children.front());
    return alone;
  }
  return made(std::move(all));
}

Expression ExpressionParser::joining() {
  Expression first = binary(Level::product);
  if (!tokens_->is_sign("~")) return first;
  Expression all{.kind = Kind::joining};
  all.children.push_back(std::move(first));
  while (tokens_->take_sign("~")) all.children.push_back(binary(Level::product));
  return made(std::move(all));
}

Expression ExpressionParser::signed_one(bool with) {
  const Deeper deeper(*this);
  Expression one;
  if (tokens_->is_sign("-") || tokens_->is_sign("+")) {
    one = {.kind = Kind::sign, .text = tokens_->take().text};
    one = made_of(std::move(one), signed_one(false));
  } else {
    one = primary();
  }
  one = followed(std::move(one));
  return with ? with_filters(std::move(one)) : one;
}

Expression ExpressionParser::primary() {
  const Token& first = tokens_->current();
  switch (first.kind) {
    case Token::Kind::name: {
      const std::string name = tokens_->take().text;
      if (name == "true" || name == "True") return literal(Value(true));
      if (name == "false" || name == "False") return literal(Value(false));
      if (name == "none" || name == "None") return literal(Value(None{}));
      if (on_name_) on_name_(name, true);
      return {.kind = Kind::name, .text = name};
    }
    case Token::Kind::text:
    case Token::Kind::unsupported: {
      std::string text;
      std::string fault;
      while (tokens_->is(Token::Kind::text) || tokens_->is(Token::Kind::unsupported)) {
        const Token& part = tokens_->take();
        (part.kind == Token::Kind::text ? text : fault) += part.text;
      }
      if (fault.empty()) return text_literal(std::move(text));
      return {.kind = Kind::unsupported, .text = fault};
    }
    case Token::Kind::whole:
    case Token::Kind::real:
      return number();
    case Token::Kind::sign:
      if (first.text == "(") return bracketed();
      if (first.text == "[") return list();
      if (first.text == "{") return mapping();
      break;
    default:
      break;
  }
  tokens_->fail("an expression");
}

Expression ExpressionParser::number() {
  const Token token = tokens_->take();
  if (token.kind == Token::Kind::real) return literal(Value(read_real(token.text).value_or(0.0)));
  constexpr std::size_t kMostDigits = 18;
  if (std::isdigit(static_cast<unsigned char>(token.text.back())) != 0 &&
      token.text.size() <= kMostDigits)
    return literal(Value(read_whole(token.text, 0).value_or(0)));
  try {
    return literal(Value(read_whole(token.text, 0).value_or(0)));
  } catch (const std::exception&) {
    return {.kind = Kind::unsupported,
            .text = "the number " + token.text + " beyond 64 bits, expected a smaller one"};
  }
}

Expression ExpressionParser::bracketed() {
  tokens_->expect_sign("(");
  if (tokens_->take_sign(")")) return {.kind = Kind::tuple};
  Expression inner = tuple();
  tokens_->expect_sign(")");
  return inner;
}

Expression ExpressionParser::list() {
  tokens_->expect_sign("[");
  Expression all{.kind = Kind::list};
  while (!tokens_->take_sign("]")) {
    all.children.push_back(expression());
    if (!tokens_->is_sign("]")) tokens_->expect_sign(",");
  }
  return made(std::move(all));
}

Expression ExpressionParser::mapping() {
  tokens_->expect_sign("{");
  Expression all{.kind = Kind::mapping};
  while (!tokens_->take_sign("}")) {
    all.children.push_back(expression());
    tokens_->expect_sign(":");
    all.children.push_back(expression());
    if (!tokens_->is_sign("}")) tokens_->expect_sign(",");
  }
  return made(std::move(all));
}

}  // namespace tandem::exec::chat
