#pragma once

// Renders a template.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/functions.hpp"
#include "exec/tokenizer/chat/syntax.hpp"
#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// The names of one scope: the template, an iteration of a loop, a call of a macro, ...
struct Scope {
  std::map<std::string, Value, std::less<>> names{};
  std::shared_ptr<Scope> outer{};
  bool is_kept = false;  // by a macro, which may be one of its names
};

class Interpreter {
 public:
  // `of` must outlive it. `today`: as functions().
  Interpreter(const Template& of, const std::string& today);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Budget& budget() { return budget_; }
  // Sets a variable of the template.
  void give(const std::string& name, Value value) {
    given_.insert_or_assign(name, std::move(value));
  }
  // Throws Error as apply_chat_template.
  [[nodiscard]] std::string render();

 private:
  enum class Flow { on, skip, leave };
  using ScopePointer = std::shared_ptr<Scope>;

  // Statements (interpreter.cpp). `around` of run_loop is not scope_ itself, which changes
  // meanwhile.
  Flow run(const Nodes& nodes, std::string& out);
  Flow run(const Node& node, std::string& out);
  Flow run_in(const Nodes& nodes, const std::vector<std::string>& hidden, std::string& out);
  Flow run_loop(const Node& node, const ScopePointer& around, const Value& through,
                std::int64_t level0, std::string& out);
  Flow run_capture(const Node& node, std::string& out);
  Flow run_with(const Node& node, std::string& out);
  void run_call(const Node& node, std::string& out);
  Value macro_of(const Node& node);
  Value expanded(const Node& macro, const ScopePointer& around, const Arguments& given);
  void set(const Expression& target, const Value& value);
  Next chosen(const Node& node, const ScopePointer& around, Next next);
  void write(std::string& out, std::string_view text);
  ScopePointer scope_in(const ScopePointer& around, const std::vector<std::string>& hidden);
  void keep_scope();

  // Expressions (evaluation.cpp).
  Value evaluated(const Expression& of);
  Value named(const std::string& name);
  Value binary(const Expression& of);
  Value compared(const Expression& of);
  Value mapping(const Expression& of);
  Values children(const Expression& of);
  Arguments arguments(const Expression& of);

  const Template* template_;
  Budget budget_;
  Namespaces namespaces_;
  std::vector<ScopePointer>
      kept_;  // cleared at the end, as macros and their scopes refer to each other
  std::map<std::string, Value, std::less<>> given_;
  std::map<std::string, Value, std::less<>> functions_;
  ScopePointer scope_;
  std::vector<Value> bodies_;  // of the blocks whose filters are being applied
  int depth_ = 0;
};

}  // namespace tandem::exec::chat
