#pragma once

// Chat templates as trees.

#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

struct Expression;
using Expressions = std::vector<Expression>;

struct Argument {
  enum class Kind { place, name, places, names };  // the last two: *list, **mapping
  Kind kind = Kind::place;
  std::string name{};
};

struct Expression {
  enum class Kind {
    literal,      // value
    unsupported,  // text: the fault; Python could evaluate it
    body,         // the text of a block that its filters are applied to
    name,         // text
    list,         // children
    tuple,        // children
    mapping,      // children: key, value, key, value, ...
    attribute,    // children[0].text
    item,         // children[0][children[1]]
    slice,        // children[0][children[1]:children[2]:children[3]]; an undefined literal: none
    call,         // children[0](arguments)
    filter,       // children[0] | text(arguments)
    test,         // children[0] is text(arguments)
    negation,     // not children[0]
    sign,         // text: + or -, of children[0]
    binary,       // text: + - * / // % ** and or
    joining,      // children ~ children ~ ...
    comparison,   // children[0] signs[0] children[1] signs[1] children[2] ...
    conditional   // children[0] if children[1] else children[2], which may be missing
  };
  Kind kind = Kind::literal;
  std::string text{};
  Value value{};
  Expressions children{};
  std::vector<Argument> arguments{};
  Expressions argument_values{};     // one for each of `arguments`
  std::vector<std::string> signs{};  // of a comparison: == != < <= > >= in notin
  int depth = 1;                     // of nested expressions
};

struct Parameter {
  std::string name{};
  Expression otherwise{};
  bool has_otherwise = false;
};

struct Node;
using Nodes = std::vector<Node>;

struct Branch {
  Expression condition{};
  Nodes body;  // without an initializer, as Node is incomplete here
};

struct Node {
  enum class Kind {
    text,         // text
    output,       // expressions
    conditional,  // branches and otherwise
    loop,         // for target in expressions[0] [if condition]: body, otherwise
    assignment,   // set target = expressions[0]
    capture,      // set target [| filters]: body; expressions[0]: the filters of the body
    filter,       // expressions[0] of the body
    scope,        // with targets = expressions: body
    macro,        // text(parameters): body
    call,         // call(parameters) expressions[0]: body
    generation,   // body
    skip,         // continue
    leave,        // break
    unsupported   // text: a statement that Jinja has
  };
  Kind kind = Kind::text;
  int line = 1;
  std::string text{};
  Expressions targets{};  // names, tuples of them, or an attribute of a namespace
  Expressions expressions{};
  std::vector<Branch> branches{};
  std::vector<Parameter> parameters{};
  Expression condition{};
  bool has_condition = false;
  bool is_recursive = false;
  // Macros and calls: whether the body reads these names without setting them first.
  bool reads_caller = false;
  bool reads_kwargs = false;
  bool reads_varargs = false;
  Nodes body{};
  Nodes otherwise{};
  // Names that hide outer ones, as the body or `otherwise` sets them (names.hpp).
  std::vector<std::string> hidden{};
  std::vector<std::string> hidden_otherwise{};
};

struct Template {
  Nodes body{};
  std::vector<std::string> hidden{};
};

}  // namespace tandem::exec::chat
