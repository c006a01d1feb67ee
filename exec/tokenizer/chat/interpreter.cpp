#include "exec/tokenizer/chat/interpreter.hpp"

#include <algorithm>

#include "exec/tokenizer/chat/access.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/loop.hpp"
#include "exec/tokenizer/chat/python_text.hpp"

namespace tandem::exec::chat {
namespace {

constexpr int kDeepestRun = 1000;
constexpr std::size_t kScopeBytes = 64;  // a name of a scope, about

}  // namespace

Interpreter::Interpreter(const Template& of, const std::string& today)
    : template_(&of), functions_(functions(today, namespaces_)) {}

Interpreter::~Interpreter() {
  for (const ScopePointer& scope : kept_) scope->names.clear();
  for (const auto& space : namespaces_) space->members.clear();
}

std::string Interpreter::render() {
  std::string text;
  scope_ = scope_in(nullptr, template_->hidden);
  (void)run(template_->body, text);
  return text;
}

void Interpreter::write(std::string& out, std::string_view text) {
  Budget::expect_text(out.size() + text.size());
  budget_.make(text.size());
  out += text;
}

Interpreter::ScopePointer Interpreter::scope_in(const ScopePointer& around,
                                                const std::vector<std::string>& hidden) {
  budget_.make((hidden.size() + 1) * kScopeBytes);
  auto made = std::make_shared<Scope>();
  made->outer = around;
  for (const std::string& name : hidden)
    made->names.emplace(name, undefined_value("'" + name + "' is undefined"));
  return made;
}

// Scopes that a macro holds are emptied at the end.
void Interpreter::keep_scope() {
  for (ScopePointer scope = scope_; scope != nullptr && !scope->is_kept; scope = scope->outer) {
    scope->is_kept = true;
    kept_.push_back(scope);
  }
}

Interpreter::Flow Interpreter::run(const Nodes& nodes, std::string& out) {
  const Depth level(depth_, kDeepestRun);
  for (const Node& node : nodes) {
    budget_.step();
    const Flow flow = run(node, out);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_in(const Nodes& nodes, const std::vector<std::string>& hidden,
                                      std::string& out) {
  const ScopePointer around = scope_;
  scope_ = scope_in(around, hidden);
  const Flow flow = run(nodes, out);
  scope_ = around;
  return flow;
}

Interpreter::Flow Interpreter::run(const Node& node, std::string& out) {
  switch (node.kind) {
    case Node::Kind::text:
      write(out, node.text);
      break;
    case Node::Kind::output:
      for (const Expression& one : node.expressions) write(out, to_text(budget_, evaluated(one)));
      break;
    case Node::Kind::conditional:
      for (const Branch& branch : node.branches) {
        if (is_true(evaluated(branch.condition))) return run(branch.body, out);
      }
      return run(node.otherwise, out);
    case Node::Kind::loop: {
      const Value through = evaluated(node.expressions[0]);
      return run_loop(node, ScopePointer(scope_), through, 0, out);
    }
    case Node::Kind::assignment:
      set(node.targets[0], evaluated(node.expressions[0]));
      break;
    case Node::Kind::capture:
    case Node::Kind::filter:
      return run_capture(node, out);
    case Node::Kind::scope:
      return run_with(node, out);
    case Node::Kind::macro:
      scope_->names.insert_or_assign(node.text, macro_of(node));
      break;
    case Node::Kind::call:
      run_call(node, out);
      break;
    case Node::Kind::generation:
      return run_in(node.body, node.hidden, out);
    case Node::Kind::skip:
      return Flow::skip;
    case Node::Kind::leave:
      return Flow::leave;
    case Node::Kind::unsupported:
      fail("line " + std::to_string(node.line) + ": the statement '" + node.text +
           "' is not supported in chat templates here");
  }
  return Flow::on;
}

void Interpreter::set(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::name) {
    budget_.make(kScopeBytes);
    scope_->names.insert_or_assign(target.text, value);
    return;
  }
  if (target.kind == Expression::Kind::attribute) {
    const std::string& name = target.children[0].text;
    const Value of = named(name);
    const auto* const space = of.get<std::shared_ptr<Namespace>>();
    if (space == nullptr)
      fail("'" + name + "." + target.text + "' is set, expected a namespace() as '" + name + "'");
    budget_.make(kScopeBytes);
    budget_.read((*space)->members.size() * 16);
    if (Value* const member = (*space)->find(target.text)) {
      *member = value;
    } else {
      (*space)->members.emplace_back(target.text, value);
    }
    return;
  }
  const Values parts = elements_of(budget_, value, "several names");
  if (parts.size() != target.children.size())
    fail(std::to_string(parts.size()) + " values for " + std::to_string(target.children.size()) +
         " names, expected as many");
  for (std::size_t i = 0; i < parts.size(); ++i) set(target.children[i], parts[i]);
}

// The text of a block, through its filters: to be set, or written.
Interpreter::Flow Interpreter::run_capture(const Node& node, std::string& out) {
  const ScopePointer around = scope_;
  scope_ = scope_in(around, node.hidden);
  std::string text;
  const Flow flow = run(node.body, text);
  if (flow == Flow::on) {
    bodies_.push_back(text_value(budget_, std::move(text)));
    const Value made = evaluated(node.expressions[0]);
    bodies_.pop_back();
    scope_ = around;
    if (node.kind == Node::Kind::capture) {
      set(node.targets[0], made);
    } else {
      if (!made.is_text())
        fail("the filters of {% filter %} make " + kind_of(made) + ", expected a text");
      write(out, made.text());
    }
  }
  scope_ = around;
  return flow;
}

Interpreter::Flow Interpreter::run_with(const Node& node, std::string& out) {
  Values values;
  for (const Expression& one : node.expressions) values.push_back(evaluated(one));
  const ScopePointer around = scope_;
  scope_ = scope_in(around, node.hidden);
  for (std::size_t i = 0; i < values.size(); ++i) set(node.targets[i], values[i]);
  const Flow flow = run(node.body, out);
  scope_ = around;
  return flow;
}

// Those elements that the loop's condition holds for, each tried when it is its turn.
Next Interpreter::chosen(const Node& node, const ScopePointer& around, Next next) {
  if (!node.has_condition) return next;
  return [this, &node, within = scope_in(around, {}),
          next = std::move(next)]() -> std::optional<Value> {
    while (std::optional<Value> one = next()) {
      const ScopePointer outside = std::exchange(scope_, within);
      set(node.targets[0], *one);
      const bool holds = is_true(evaluated(node.condition));
      scope_ = outside;
      if (holds) return one;
    }
    return std::nullopt;
  };
}

Interpreter::Flow Interpreter::run_loop(const Node& node, const ScopePointer& around,
                                        const Value& through, std::int64_t level0,
                                        std::string& out) {
  const ScopePointer caller = scope_;
  const auto loop = std::make_shared<Loop>();
  loop->next = chosen(node, around, iterate(budget_, through, "a loop"));
  if (!node.has_condition && through.sequence() != nullptr)
    loop->length = through.sequence()->items.size();
  if (!node.has_condition && through.mapping() != nullptr)
    loop->length = through.mapping()->items.size();
  loop->level0 = level0;
  loop->depth = depth_of(sequence_value(budget_, {through}));
  if (node.is_recursive) {
    loop->recurse = [this, &node, around, level0](const Value& inner) {
      std::string text;
      (void)run_loop(node, around, inner, level0 + 1, text);
      return text_value(budget_, std::move(text));
    };
  }
  Flow flow = Flow::on;
  bool ended = false;  // a body was left by its end, as Jinja's `else` asks
  while (flow != Flow::leave && loop->advance()) {
    budget_.step();
    scope_ = scope_in(around, node.hidden);
    scope_->names.insert_or_assign("loop", Value(loop));
    set(node.targets[0], loop->current);
    flow = run(node.body, out);
    ended = ended || flow == Flow::on;
  }
  scope_ = around;
  flow = Flow::on;
  if (!ended && !node.otherwise.empty()) flow = run_in(node.otherwise, node.hidden_otherwise, out);
  scope_ = caller;
  return flow;
}

Value Interpreter::macro_of(const Node& node) {
  keep_scope();
  budget_.make(kScopeBytes);
  auto made = std::make_shared<Function>();
  made->name = node.text;
  made->written = node.kind == Node::Kind::macro ? "<Macro '" + node.text + "'>"
                                                 : std::string("<Macro anonymous>");
  made->call = [this, &node, around = scope_](Budget&, const Arguments& given) {
    return expanded(node, around, given);
  };
  return Value(std::shared_ptr<const Function>(std::move(made)));
}

Value Interpreter::expanded(const Node& macro, const ScopePointer& around, const Arguments& given) {
  const ScopePointer caller = scope_;
  const std::string subject = "macro '" + macro.text + "': ";
  const ScopePointer within = scope_in(around, macro.hidden);
  const std::size_t count = macro.parameters.size();
  std::vector<std::pair<Value, Value>> more;  // arguments by name without a parameter
  std::vector<std::optional<Value>> values(count);
  for (std::size_t i = 0; i < std::min(count, given.places.size()); ++i)
    values[i] = given.places[i];
  std::optional<Value> body;
  for (const auto& [name, value] : given.names) {
    const auto found = std::ranges::find(macro.parameters, name, &Parameter::name);
    const auto place = static_cast<std::size_t>(found - macro.parameters.begin());
    if (place < count && !values[place]) {
      values[place] = value;
    } else if (name == "caller" && macro.reads_caller && place == count) {
      body = value;
    } else {
      more.emplace_back(text_value(budget_, name), value);
    }
  }
  if (!more.empty() && !macro.reads_kwargs)
    fail(subject + "argument '" + more.front().first.text() +
         "' is not known or given twice, expected another one");
  if (given.places.size() > count && !macro.reads_varargs)
    fail(subject + std::to_string(given.places.size()) + " arguments, expected at most " +
         std::to_string(count));
  const auto name_value = [&](const std::string& name, Value value) {
    within->names.insert_or_assign(name, std::move(value));
  };
  if (macro.reads_caller &&
      std::ranges::find(macro.parameters, "caller", &Parameter::name) == macro.parameters.end())
    name_value("caller", body.value_or(undefined_value("the macro was not called by {% call %}")));
  if (macro.reads_kwargs) name_value("kwargs", mapping_value(budget_, std::move(more)));
  if (macro.reads_varargs) {
    const auto first =
        given.places.begin() + static_cast<std::ptrdiff_t>(std::min(count, given.places.size()));
    name_value("varargs",
               sequence_value(budget_, Values(first, given.places.end()), Sequence::Form::tuple));
  }
  for (std::size_t i = 0; i < count; ++i)
    name_value(macro.parameters[i].name,
               values[i].value_or(
                   undefined_value("parameter '" + macro.parameters[i].name + "' was not given")));
  scope_ = within;
  // Defaults may name the parameters before them.
  for (std::size_t i = 0; i < count; ++i) {
    if (!values[i] && macro.parameters[i].has_otherwise)
      name_value(macro.parameters[i].name, evaluated(macro.parameters[i].otherwise));
  }
  std::string text;
  (void)run(macro.body, text);
  scope_ = caller;
  return text_value(budget_, std::move(text));
}

// The macro that is called may call the block's body.
void Interpreter::run_call(const Node& node, std::string& out) {
  const Expression& call = node.expressions[0];
  const Value body = macro_of(node);
  const Value callee = evaluated(call.children[0]);
  Arguments given = arguments(call);
  given.names.emplace_back("caller", body);
  write(out, to_text(budget_, call_value(budget_, callee, given)));
}

}  // namespace tandem::exec::chat
