#pragma once

// Expressions of templates, with the grammar of Jinja's parser.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/syntax.hpp"
#include "exec/tokenizer/chat/token_stream.hpp"

namespace tandem::exec::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(&tokens) {}

  // Each throws Error as parse().
  Expression expression() { return conditional(); }
  Expression without_condition() { return binary(Level::disjunction); }
  // Parses one expression, or a tuple of several between commas, up to the end of a tag.
  Expression tuple(bool with_conditions = true);
  // Parses an assignment's target: a name, a tuple of names or, with `member`, a namespace's
  // attribute.
  Expression target(bool member);
  // Parses | name(arguments) | ... applied to `of`.
  Expression filters(Expression of);
  // Parses the filter whose name comes next, applied to `of`, and those behind it.
  Expression filter_of(Expression of);
  // (name, name = default, ...)
  std::vector<Parameter> parameters();

  // A name that is read (true) or set.
  using OnName = std::function<void(const std::string& name, bool is_read)>;
  void on_name(OnName call) { on_name_ = std::move(call); }

  // Throws Error for filters and tests parsed since forget_unknown() that Jinja does not have.
  void expect_known() const;
  void forget_unknown() { unknown_.clear(); }

 private:
  class Deeper;

  Expression conditional();
  // Operations of two operands, those that bind least first.
  enum class Level { disjunction, conjunction, sum, product, power };
  Expression binary(Level level);
  Expression operand(Level level);
  Expression negation();
  Expression comparison();
  Expression joining();
  Expression signed_one(bool with_filters);
  Expression primary();
  Expression number();
  Expression bracketed();
  Expression list();
  Expression mapping();
  Expression followed(Expression of);
  Expression attribute(Expression of);
  Expression item(Expression of);
  Expression index(Expression of);
  Expression with_filters(Expression of);
  Expression one_filter(Expression of);
  Expression test(Expression of);
  Expression call(Expression of);
  // Parses (...) as the arguments of `of`.
  void arguments(Expression& of);
  std::string dotted_name();
  // Records the depth of the tree. Throws Error if it is too deep.
  Expression made(Expression of);
  // Adds `children` to it first.
  template <class... Children>
  Expression made_of(Expression of, Children... children) {
    (of.children.push_back(std::move(children)), ...);
    return made(std::move(of));
  }
  void set_names(const Expression& target);
  void note_unknown(const std::string& what);

  TokenStream* tokens_;
  OnName on_name_{};
  std::vector<Token> unknown_{};  // filters and tests
  int depth_ = 0;
};

}  // namespace tandem::exec::chat
