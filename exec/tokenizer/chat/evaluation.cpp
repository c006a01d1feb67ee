#include "exec/tokenizer/chat/access.hpp"
#include "exec/tokenizer/chat/arithmetic.hpp"
#include "exec/tokenizer/chat/compare.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/interpreter.hpp"
#include "exec/tokenizer/chat/predicates.hpp"
#include "exec/tokenizer/chat/python_text.hpp"

namespace tandem::exec::chat {
namespace {

constexpr int kDeepestEvaluation = 1000;

}  // namespace

Value Interpreter::named(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    budget_.read(32);
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  if (const auto found = given_.find(name); found != given_.end()) return found->second;
  if (const auto found = functions_.find(name); found != functions_.end()) return found->second;
  return undefined_value("'" + name + "' is undefined");
}

Values Interpreter::children(const Expression& of) {
  Values all;
  for (const Expression& child : of.children) all.push_back(evaluated(child));
  return all;
}

Value Interpreter::mapping(const Expression& of) {
  std::vector<std::pair<Value, Value>> all;
  for (std::size_t i = 0; i < of.children.size(); i += 2) {
    Value key = evaluated(of.children[i]);
    all.emplace_back(std::move(key), evaluated(of.children[i + 1]));
  }
  return mapping_value(budget_, std::move(all));
}

Arguments Interpreter::arguments(const Expression& of) {
  Arguments all;
  for (std::size_t i = 0; i < of.arguments.size(); ++i) {
    const Argument& one = of.arguments[i];
    Value value = evaluated(of.argument_values[i]);
    switch (one.kind) {
      case Argument::Kind::place:
        all.places.push_back(std::move(value));
        break;
      case Argument::Kind::name:
        all.names.emplace_back(one.name, std::move(value));
        break;
      case Argument::Kind::places:
        for (Value& element : elements_of(budget_, value, "a list of arguments"))
          all.places.push_back(std::move(element));
        break;
      case Argument::Kind::names:
        if (value.mapping() == nullptr)
          fail("** of " + kind_of(value) + ", expected a mapping of arguments");
        for (const auto& [key, element] : value.mapping()->items) {
          if (!key.is_text()) fail("** with " + kind_of(key) + " as a key, expected texts");
          for (const auto& [name, unused] : all.names) {
            budget_.read(name.size() + 16);
            if (name == key.text())
              fail("argument '" + name + "' is given twice, expected it once");
          }
          all.names.emplace_back(key.text(), element);
        }
    }
  }
  return all;
}

Value Interpreter::binary(const Expression& of) {
  Value left = evaluated(of.children[0]);
  if (of.text == "and") return is_true(left) ? evaluated(of.children[1]) : left;
  if (of.text == "or") return is_true(left) ? left : evaluated(of.children[1]);
  return calculated(budget_, of.text, left, evaluated(of.children[1]));
}

// a < b < c means a < b and b < c.
Value Interpreter::compared(const Expression& of) {
  Value left = evaluated(of.children[0]);
  for (std::size_t i = 0; i < of.signs.size(); ++i) {
    Value right = evaluated(of.children[i + 1]);
    if (!holds(budget_, of.signs[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluated(const Expression& of) {
  using Kind = Expression::Kind;
  budget_.step();
  const Depth level(depth_, kDeepestEvaluation);
  switch (of.kind) {
    case Kind::literal:
      return of.value;
    case Kind::unsupported:
      fail(of.text);
    case Kind::body:
      return bodies_.back();
    case Kind::name:
      return named(of.text);
    case Kind::list:
      return sequence_value(budget_, children(of));
    case Kind::tuple:
      return sequence_value(budget_, children(of), Sequence::Form::tuple);
    case Kind::mapping:
      return mapping(of);
    case Kind::attribute:
      return attribute_of(budget_, evaluated(of.children[0]), of.text);
    case Kind::item: {
      const Value whole = evaluated(of.children[0]);
      return item_of(budget_, whole, evaluated(of.children[1]));
    }
    case Kind::slice: {
      const Values parts = children(of);
      for (std::size_t i = 1; i < parts.size(); ++i) {
        const bool is_left_out = of.children[i].kind == Kind::literal;
        if (parts[i].is_undefined() && !is_left_out)
          fail("a slice by " + kind_of(parts[i]) + ", expected whole numbers");
      }
      return slice_of(budget_, parts[0], parts[1], parts[2], parts[3]);
    }
    case Kind::call: {
      const Value callee = evaluated(of.children[0]);
      return call_value(budget_, callee, arguments(of));
    }
    case Kind::filter: {
      const Value subject = evaluated(of.children[0]);
      return filtered(budget_, of.text, subject, arguments(of));
    }
    case Kind::test: {
      const Value subject = evaluated(of.children[0]);
      return Value(tested(budget_, of.text, subject, arguments(of)));
    }
    case Kind::negation:
      return Value(!is_true(evaluated(of.children[0])));
    case Kind::sign:
      return with_sign(of.text, evaluated(of.children[0]));
    case Kind::binary:
      return binary(of);
    case Kind::joining: {
      TextBuilder all(budget_);
      for (const Value& part : children(of)) all.append(to_text(budget_, part));
      return all.take();
    }
    case Kind::comparison:
      return compared(of);
    case Kind::conditional:
      if (is_true(evaluated(of.children[1]))) return evaluated(of.children[0]);
      return of.children.size() > 2 ? evaluated(of.children[2])
                                    : undefined_value("a condition without 'else' is false");
  }
  return {};
}

}  // namespace tandem::exec::chat
