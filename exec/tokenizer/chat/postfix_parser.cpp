// Parses what follows a value: attributes, items, calls, filters and tests; and arguments.

#include <algorithm>

#include "exec/tokenizer/chat/expression_parser.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/predicates.hpp"

namespace tandem::exec::chat {
namespace {

using PostfixKind = Expression::Kind;

constexpr std::size_t kMostArguments = 1000;

Expression left_out() { return {}; }

}  // namespace

Expression ExpressionParser::followed(Expression of) {
  while (true) {
    if (tokens_->is_sign(".")) {
      of = attribute(std::move(of));
    } else if (tokens_->is_sign("[")) {
      of = item(std::move(of));
    } else if (tokens_->is_sign("(")) {
      of = call(std::move(of));
    } else {
      return of;
    }
  }
}

Expression ExpressionParser::attribute(Expression of) {
  tokens_->expect_sign(".");
  if (tokens_->is(Token::Kind::name))
    return made_of({.kind = PostfixKind::attribute, .text = tokens_->take().text}, std::move(of));
  if (!tokens_->is(Token::Kind::whole)) tokens_->fail("a name or a number");
  return made_of({.kind = PostfixKind::item}, std::move(of), number());
}

Expression ExpressionParser::item(Expression of) {
  tokens_->expect_sign("[");
  if (tokens_->is_sign("]")) tokens_->fail("an index");
  Expression one = index(std::move(of));
  if (tokens_->is_sign(",")) {
    // A tuple as the index.
    if (one.kind == PostfixKind::slice) tokens_->fail("']'");
    Expression all{.kind = PostfixKind::tuple};
    all.children.push_back(std::move(one.children[1]));
    while (tokens_->take_sign(",") && !tokens_->is_sign("]")) all.children.push_back(expression());
    one.children[1] = made(std::move(all));
  }
  tokens_->expect_sign("]");
  return made(std::move(one));
}

// An index or a slice.
Expression ExpressionParser::index(Expression of) {
  const auto part = [&] {
    const bool missing = tokens_->is_sign(":") || tokens_->is_sign("]") || tokens_->is_sign(",");
    return missing ? left_out() : expression();
  };
  Expression one{.kind = PostfixKind::item};
  one.children.push_back(std::move(of));
  one.children.push_back(part());
  if (!tokens_->take_sign(":")) {
    const Expression& given = one.children[1];
    if (given.kind == PostfixKind::literal && given.value.is_undefined()) tokens_->fail("an index");
    return one;
  }
  one.kind = PostfixKind::slice;
  one.children.push_back(part());
  one.children.push_back(tokens_->take_sign(":") ? part() : left_out());
  return one;
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_->expect_name();
  while (tokens_->take_sign(".")) name += "." + tokens_->expect_name();
  return name;
}

Expression ExpressionParser::with_filters(Expression of) {
  while (true) {
    if (tokens_->is_sign("|")) {
      tokens_->take();
      of = one_filter(std::move(of));
    } else if (tokens_->is_name("is")) {
      of = test(std::move(of));
    } else if (tokens_->is_sign("(")) {
      of = call(std::move(of));
    } else {
      return of;
    }
  }
}

Expression ExpressionParser::filters(Expression of) {
  while (tokens_->take_sign("|")) of = one_filter(std::move(of));
  return of;
}

Expression ExpressionParser::filter_of(Expression of) { return filters(one_filter(std::move(of))); }

Expression ExpressionParser::one_filter(Expression of) {
  Expression one{.kind = PostfixKind::filter, .text = dotted_name()};
  if (!is_filter(one.text)) note_unknown("filter '" + one.text + "'");
  one.children.push_back(std::move(of));
  if (tokens_->is_sign("(")) arguments(one);
  return made(std::move(one));
}

Expression ExpressionParser::test(Expression of) {
  constexpr std::array<std::string_view, 3> kWords{"else", "or", "and"};
  tokens_->take();
  const bool negated = tokens_->take_name("not");
  Expression one{.kind = PostfixKind::test, .text = dotted_name()};
  if (!is_test(one.text)) note_unknown("test '" + one.text + "'");
  one.children.push_back(std::move(of));
  const bool is_name = tokens_->is(Token::Kind::name);
  const bool begins_value = tokens_->is(Token::Kind::text) || tokens_->is(Token::Kind::whole) ||
                            tokens_->is(Token::Kind::real) ||
                            tokens_->is(Token::Kind::unsupported) || tokens_->is_sign("[") ||
                            tokens_->is_sign("{");
  if (tokens_->is_sign("(")) {
    arguments(one);
  } else if (begins_value ||
             (is_name && std::ranges::find(kWords, tokens_->current().text) == kWords.end())) {
    if (tokens_->is_name("is")) tokens_->fail("one test, as tests cannot be chained");
    one.arguments.emplace_back();
    one.argument_values.push_back(followed(primary()));
  }
  one = made(std::move(one));
  if (negated) one = made_of({.kind = PostfixKind::negation}, std::move(one));
  return one;
}

Expression ExpressionParser::call(Expression of) {
  Expression one{.kind = PostfixKind::call};
  one.children.push_back(std::move(of));
  arguments(one);
  return made(std::move(one));
}

void ExpressionParser::arguments(Expression& of) {
  using ArgumentKind = Argument::Kind;
  tokens_->expect_sign("(");
  std::vector<Argument>& all = of.arguments;
  const auto has = [&all](ArgumentKind kind) {
    return std::ranges::find(all, kind, &Argument::kind) != all.end();
  };
  while (!tokens_->take_sign(")")) {
    if (all.size() == kMostArguments) tokens_->fail("at most 1000 arguments");
    Argument& one = all.emplace_back();
    const bool closed = has(ArgumentKind::names);
    const bool named = tokens_->is(Token::Kind::name) &&
                       tokens_->following().kind == Token::Kind::sign &&
                       tokens_->following().text == "=";
    if (tokens_->take_sign("*")) {
      if (closed || has(ArgumentKind::places)) tokens_->fail("no second list of arguments");
      one.kind = ArgumentKind::places;
    } else if (tokens_->take_sign("**")) {
      if (closed) tokens_->fail("no second mapping of arguments");
      one.kind = ArgumentKind::names;
    } else if (named) {
      if (closed) tokens_->fail("no argument behind a mapping of them");
      one.kind = ArgumentKind::name;
      one.name = tokens_->take().text;
      tokens_->expect_sign("=");
      if (std::ranges::count(all, one.name, &Argument::name) > 1)
        tokens_->fail("argument '" + one.name + "' once");
    } else if (closed || has(ArgumentKind::places) || has(ArgumentKind::name)) {
      tokens_->fail("arguments by place before those by name");
    }
    of.argument_values.push_back(expression());
    if (!tokens_->is_sign(")")) tokens_->expect_sign(",");
  }
}

std::vector<Parameter> ExpressionParser::parameters() {
  tokens_->expect_sign("(");
  std::vector<Parameter> all;
  while (!tokens_->is_sign(")")) {
    if (!all.empty()) tokens_->expect_sign(",");
    if (all.size() == kMostArguments) tokens_->fail("at most 1000 parameters");
    Parameter& one = all.emplace_back();
    one.name = tokens_->expect_name();
    if (tokens_->take_sign("=")) {
      one.otherwise = expression();
      one.has_otherwise = true;
    } else if (all.size() > 1 && all[all.size() - 2].has_otherwise) {
      tokens_->fail("a default, as the parameter before has one");
    }
  }
  tokens_->expect_sign(")");
  return all;
}

}  // namespace tandem::exec::chat
