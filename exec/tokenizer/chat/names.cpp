#include "exec/tokenizer/chat/names.hpp"

#include <array>
#include <map>
#include <set>

#include "exec/tokenizer/chat/lexer.hpp"

namespace tandem::exec::chat {
namespace {

// State of a scope's name when the scope is entered.
enum class Load {
  parameter,
  given,     // what the template was given by that name
  outer,     // what it is in the scope around
  undefined  // nothing, until it is set
};

// Jinja's Symbols: the names of a scope, or those that a branch of a condition adds to `base`.
struct Names {
  const Names* outer = nullptr;  // of the scope around
  const Names* base = nullptr;   // of the same scope, before the branch
  std::map<std::string, Load> loads{};
  std::set<std::string> stores{};

  [[nodiscard]] Names branch() const { return {.outer = outer, .base = this}; }
  [[nodiscard]] bool has(const std::string& name) const {
    return loads.contains(name) || (base != nullptr && base->has(name));
  }
  [[nodiscard]] bool is_known_outside(const std::string& name) const {
    return outer != nullptr && (outer->has(name) || outer->is_known_outside(name));
  }
  [[nodiscard]] bool is_stored(const std::string& name) const {
    return stores.contains(name) || (base != nullptr && base->is_stored(name));
  }
  void load(const std::string& name) {
    if (!has(name) && !is_known_outside(name)) loads[name] = Load::given;
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (!has(name)) loads[name] = is_known_outside(name) ? Load::outer : Load::undefined;
  }
  void declare(const std::string& name) {
    stores.insert(name);
    loads[name] = Load::parameter;
  }
  // Joins the effects of the three branches of a condition: if, elif and else.
  void update(const std::array<Names, 3>& branches) {
    std::map<std::string, std::size_t> counts;
    for (const Names& branch : branches) {
      for (const std::string& name : branch.stores) {
        if (!is_stored(name)) ++counts[name];
      }
    }
    for (const Names& branch : branches) {
      for (const auto& [name, load] : branch.loads) loads[name] = load;
      stores.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const auto& [name, count] : counts) {
      if (count < branches.size()) loads[name] = is_known_outside(name) ? Load::outer : Load::given;
    }
  }
  [[nodiscard]] std::vector<std::string> hidden() const {
    std::vector<std::string> all;
    for (const auto& [name, load] : loads) {
      if (load == Load::undefined) all.push_back(name);
    }
    return all;
  }
};

void read(Names& names, const Expression& of) {
  if (of.kind == Expression::Kind::name) names.load(of.text);
  for (const Expression& child : of.children) read(names, child);
  for (const Expression& value : of.argument_values) read(names, value);
}

enum class As { set, parameter };

void set(Names& names, const Expression& target, As as) {
  if (target.kind == Expression::Kind::attribute) return names.load(target.children[0].text);
  if (target.kind == Expression::Kind::name)
    as == As::set ? names.store(target.text) : names.declare(target.text);
  for (const Expression& part : target.children) set(names, part, as);
}

void visit(Names& names, const Nodes& nodes);

void visit_condition(Names& names, const Node& node) {
  read(names, node.branches[0].condition);
  std::array<Names, 3> branches{names.branch(), names.branch(), names.branch()};
  visit(branches[0], node.branches[0].body);
  for (std::size_t at = 1; at < node.branches.size(); ++at) {
    read(branches[1], node.branches[at].condition);
    std::array<Names, 3> inner{branches[1].branch(), branches[1].branch(), branches[1].branch()};
    visit(inner[0], node.branches[at].body);
    branches[1].update(inner);
  }
  visit(branches[2], node.otherwise);
  names.update(branches);
}

// Applies a statement to the names of its scope.
void visit(Names& names, const Node& node) {
  switch (node.kind) {
    case Node::Kind::conditional:
      return visit_condition(names, node);
    case Node::Kind::assignment:
      read(names, node.expressions[0]);
      return set(names, node.targets[0], As::set);
    case Node::Kind::capture:
      return set(names, node.targets[0], As::set);
    case Node::Kind::macro:
      return names.store(node.text);
    case Node::Kind::output:
    case Node::Kind::loop:
    case Node::Kind::filter:
    case Node::Kind::scope:
    case Node::Kind::call:
      for (const Expression& one : node.expressions) read(names, one);
      return;
    case Node::Kind::text:
    case Node::Kind::generation:
    case Node::Kind::skip:
    case Node::Kind::leave:
    case Node::Kind::unsupported:
      return;
  }
}

void visit(Names& names, const Nodes& nodes) {
  for (const Node& node : nodes) visit(names, node);
}

void expect_no_loop(const Expression& target, int line) {
  if (target.kind == Expression::Kind::name && target.text == "loop")
    fail_at(line, "'loop' is set within a loop, expected another name");
  if (target.kind == Expression::Kind::attribute) return;
  for (const Expression& part : target.children) expect_no_loop(part, line);
}

void fill(Nodes& nodes, const Names& names, bool in_loop);

std::vector<std::string> fill_scope(Nodes& body, const Names& names, bool in_loop) {
  fill(body, names, in_loop);
  return names.hidden();
}

void fill(Node& node, const Names& around, bool in_loop) {
  Names names{.outer = &around};
  const bool loops = in_loop || node.kind == Node::Kind::loop;
  if (loops && node.kind != Node::Kind::scope) {
    for (const Expression& target : node.targets) expect_no_loop(target, node.line);
  }
  switch (node.kind) {
    case Node::Kind::conditional:
      for (Branch& branch : node.branches) fill(branch.body, around, in_loop);
      return fill(node.otherwise, around, in_loop);
    case Node::Kind::loop: {
      names.declare("loop");
      set(names, node.targets[0], As::parameter);
      visit(names, node.body);
      node.hidden = fill_scope(node.body, names, loops);
      Names otherwise{.outer = &around};
      visit(otherwise, node.otherwise);
      node.hidden_otherwise = fill_scope(node.otherwise, otherwise, loops);
      return;
    }
    case Node::Kind::scope:
      for (const Expression& target : node.targets) set(names, target, As::parameter);
      break;
    case Node::Kind::macro:
    case Node::Kind::call:
      for (const Parameter& one : node.parameters) names.declare(one.name);
      for (const Parameter& one : node.parameters) read(names, one.otherwise);
      if (node.reads_caller) names.declare("caller");
      if (node.reads_kwargs) names.declare("kwargs");
      if (node.reads_varargs) names.declare("varargs");
      break;
    case Node::Kind::filter:
    case Node::Kind::capture:
    case Node::Kind::generation:
      break;
    case Node::Kind::text:
    case Node::Kind::output:
    case Node::Kind::assignment:
    case Node::Kind::skip:
    case Node::Kind::leave:
    case Node::Kind::unsupported:
      return;
  }
  visit(names, node.body);
  if (node.kind == Node::Kind::filter) read(names, node.expressions[0]);
  node.hidden = fill_scope(node.body, names, loops);
}

void fill(Nodes& nodes, const Names& names, bool in_loop) {
  for (Node& node : nodes) fill(node, names, in_loop);
}

}  // namespace

void hide_names(Template& of) {
  Names names;
  visit(names, of.body);
  of.hidden = fill_scope(of.body, names, false);
}

}  // namespace tandem::exec::chat
