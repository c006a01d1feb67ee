#pragma once

// Chat templates (Jinja, as Hugging Face's transformers set it up) as trees.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

struct Expression;
using Expressions = std::vector<Expression>;

// NOLINTNEXTLINE(bugprone-exception-escape): what moving a json value asserts does not throw
struct Expression {
  enum class Kind {
    literal,     // value
    name,        // text
    list,        // children
    mapping,     // children: key, value, key, value, ...
    attribute,   // children[0].text
    item,        // children[0][children[1]]
    slice,       // children[0][children[1]:children[2]:children[3]]; a literal undefined: left out
    call,        // children[0](arguments)
    filter,      // children[0] | text(arguments)
    test,        // children[0] is text(arguments)
    negation,    // not children[0]
    unary,       // text: + or -
    binary,      // text: + - * / // % ** ~ == != < <= > >= in and or
    conditional  // children[0] if children[1] else children[2] (a literal undefined: nothing)
  };
  Kind kind = Kind::literal;
  std::string text{};
  Value value{};
  Expressions children{};
  Expressions arguments{};
  std::vector<std::string> names{};  // of the arguments; empty: not given by name
};

// Of a macro.
// NOLINTNEXTLINE(bugprone-exception-escape): as above
struct Parameter {
  std::string name{};
  Expression otherwise{};  // a literal undefined: none
};

struct Node;
using Nodes = std::vector<Node>;

struct Node {
  enum class Kind {
    text,         // text
    output,       // expression
    conditional,  // branches; the condition of `else` is a literal true
    loop,         // for names in expression [if condition]: body, otherwise
    assignment,   // set names = expression; set text.member = expression
    capture,      // set names[0]: body
    macro,        // text(parameters): body
    group,        // body: {% generation %}
    skip,         // continue
    leave         // break
  };
  Kind kind = Kind::text;
  std::string text{};
  std::string member{};
  std::vector<std::string> names{};
  Expression expression{};
  Expression condition{};
  std::vector<std::pair<Expression, Nodes>> branches{};
  std::vector<Parameter> parameters{};
  Nodes body{};
  Nodes otherwise{};
};

// Throws Error (line, what was found, what was expected) for what is no Jinja, or Jinja that
// templates of chats do not use.
[[nodiscard]] Nodes parse(std::string_view source);

}  // namespace tandem::exec::chat
