#include "exec/tokenizer/chat/template_parser.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "exec/tokenizer/chat/expression_parser.hpp"
#include "exec/tokenizer/chat/names.hpp"

namespace tandem::exec::chat {
namespace {

constexpr int kDeepestStatement = 200;

class TemplateParser {
 public:
  explicit TemplateParser(std::string_view source)
      : tokens_(tokens_of(source)), expressions_(tokens_) {
    expressions_.on_name([this](const std::string& name, bool is_read) { note(name, is_read); });
  }

  Nodes whole() {
    Nodes all = statements({});
    return all;
  }

 private:
  using Ends = std::vector<std::string_view>;
  enum class Place { same, branch, scope, loop, function };  // of a body, in what is around it

  // Whether a macro's body reads one of the three special names before setting it.
  struct SpecialName {
    bool is_read = false;
    bool is_set = false;
  };
  using SpecialNames = std::map<std::string, SpecialName>;

  void note(const std::string& name, bool is_read) {
    for (SpecialNames& special : macros_) {
      const auto found = special.find(name);
      if (found == special.end()) continue;
      if (is_read) {
        found->second.is_read = found->second.is_read || !found->second.is_set;
      } else {
        found->second.is_set = true;
      }
    }
  }

  // Up to one of the statements `ends`, whose name is the current token, or to the end.
  Nodes statements(const Ends& ends) {
    if (++depth_ > kDeepestStatement) tokens_.fail("less deeply nested statements");
    Nodes all;
    while (!tokens_.is(Token::Kind::end)) {
      const int line = tokens_.current().line;
      if (tokens_.is(Token::Kind::data)) {
        all.push_back({.kind = Node::Kind::text, .line = line, .text = tokens_.take().text});
        continue;
      }
      const Token::Kind kind = tokens_.take().kind;
      if (kind == Token::Kind::output_begin) {
        Node one{.kind = Node::Kind::output, .line = line};
        one.expressions.push_back(expressions_.tuple());
        end_expressions();
        if (!tokens_.is(Token::Kind::output_end)) tokens_.fail("'}}'");
        tokens_.take();
        all.push_back(std::move(one));
        continue;
      }
      if (std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.is_name(end); })) {
        --depth_;
        return all;
      }
      all.push_back(statement(line));
      end_expressions();
      tokens_.expect_block_end();
    }
    if (!ends.empty()) tokens_.fail("'{% " + std::string(ends.back()) + " %}'");
    --depth_;
    return all;
  }

  // Parses a body; `place` sets what it may use of its surroundings.
  Nodes body(const Ends& ends, Place place) {
    tokens_.take_sign(":");
    end_expressions();
    tokens_.expect_block_end();
    const bool was_soft = soft_;
    const bool was_in_loop = in_loop_;
    if (place != Place::same) soft_ = place == Place::branch;
    if (place == Place::loop) in_loop_ = true;
    if (place == Place::function) in_loop_ = false;
    Nodes all = statements(ends);
    soft_ = was_soft;
    in_loop_ = was_in_loop;
    return all;
  }
  // With its last statement, which is passed.
  Nodes closed_body(std::string_view end, Place place) {
    Nodes all = body({end}, place);
    tokens_.take();
    return all;
  }

  // Jinja looks up filters and tests of a branch when it gets there.
  void end_expressions() {
    if (!soft_) expressions_.expect_known();
    expressions_.forget_unknown();
  }

  Node statement(int line) {
    const std::string kind = tokens_.expect_name();
    Node made{.line = line, .text = kind};
    if (kind == "if") {
      condition(made);
    } else if (kind == "for") {
      loop(made);
    } else if (kind == "set") {
      assignment(made);
    } else if (kind == "macro") {
      made.kind = Node::Kind::macro;
      made.text = tokens_.expect_name();
      macro(made, "endmacro");
    } else if (kind == "call") {
      call(made);
    } else if (kind == "filter") {
      made.kind = Node::Kind::filter;
      made.expressions.push_back(expressions_.filter_of({.kind = Expression::Kind::body}));
      const bool was_soft = std::exchange(soft_, false);
      end_expressions();
      soft_ = was_soft;
      made.body = closed_body("endfilter", Place::scope);
    } else if (kind == "with") {
      with(made);
    } else if (kind == "generation") {
      made.kind = Node::Kind::generation;
      made.body = closed_body("endgeneration", Place::function);
    } else if (kind == "print") {
      made.kind = Node::Kind::output;
      while (!tokens_.is(Token::Kind::block_end)) {
        if (!made.expressions.empty()) tokens_.expect_sign(",");
        made.expressions.push_back(expressions_.expression());
      }
    } else if (kind == "continue" || kind == "break") {
      if (!in_loop_) fail_at(line, "'" + kind + "' outside of a loop, expected it in one");
      made.kind = kind == "break" ? Node::Kind::leave : Node::Kind::skip;
    } else {
      other(made);
    }
    return made;
  }

  // Statements that Jinja has and templates of chats do not use: they fail when they are reached.
  void other(Node& made) {
    constexpr std::array<std::string_view, 4> kSingle{"include", "import", "from", "extends"};
    constexpr std::array<std::string_view, 2> kPaired{"block", "autoescape"};
    const std::string kind = made.text;
    const bool single = std::ranges::find(kSingle, kind) != kSingle.end();
    if (!single && std::ranges::find(kPaired, kind) == kPaired.end())
      fail_at(made.line,
              "statement '" + kind +
                  "', expected if, for, set, macro, call, filter, with, raw, generation, print, "
                  "break or continue");
    made.kind = Node::Kind::unsupported;
    const auto skip = [this] {
      while (!tokens_.is(Token::Kind::block_end)) tokens_.take();
    };
    skip();
    if (single) return;
    made.body = closed_body("end" + kind, Place::function);
    skip();
  }

  void condition(Node& made) {
    made.kind = Node::Kind::conditional;
    const bool was_soft = std::exchange(soft_, true);
    do {
      Branch& branch = made.branches.emplace_back();
      branch.condition = expressions_.tuple(false);
      branch.body = body({"elif", "else", "endif"}, Place::branch);
    } while (tokens_.take_name("elif"));
    if (tokens_.take_name("else")) made.otherwise = body({"endif"}, Place::branch);
    tokens_.take();
    soft_ = was_soft;
  }

  void loop(Node& made) {
    made.kind = Node::Kind::loop;
    made.targets.push_back(expressions_.target(false));
    if (!tokens_.take_name("in")) tokens_.fail("'in'");
    made.expressions.push_back(expressions_.tuple(false));
    end_expressions();
    const bool was_soft = std::exchange(soft_, false);
    if (tokens_.take_name("if")) {
      made.condition = expressions_.expression();
      made.has_condition = true;
    }
    end_expressions();
    soft_ = was_soft;
    made.is_recursive = tokens_.take_name("recursive");
    made.body = body({"endfor", "else"}, Place::loop);
    if (tokens_.take_name("else")) {
      // A recursive loop is a function.
      made.otherwise = body({"endfor"}, made.is_recursive ? Place::function : Place::scope);
    }
    tokens_.take();
  }

  void assignment(Node& made) {
    made.kind = Node::Kind::assignment;
    made.targets.push_back(expressions_.target(true));
    if (tokens_.take_sign("=")) {
      made.expressions.push_back(expressions_.tuple());
      return;
    }
    made.kind = Node::Kind::capture;
    const bool was_soft = std::exchange(soft_, false);
    made.expressions.push_back(expressions_.filters({.kind = Expression::Kind::body}));
    end_expressions();
    soft_ = was_soft;
    made.body = closed_body("endset", Place::scope);
  }

  void with(Node& made) {
    made.kind = Node::Kind::scope;
    while (!tokens_.is(Token::Kind::block_end)) {
      if (!made.targets.empty()) tokens_.expect_sign(",");
      made.targets.push_back(expressions_.target(false));
      tokens_.expect_sign("=");
      made.expressions.push_back(expressions_.expression());
    }
    made.body = closed_body("endwith", Place::scope);
  }

  // Parameters, if they follow, and the body of a macro or call.
  void macro(Node& made, std::string_view end) {
    made.parameters = expressions_.parameters();
    for (const Parameter& one : made.parameters) note(one.name, false);
    macro_body(made, end);
  }
  void macro_body(Node& made, std::string_view end) {
    macros_.push_back({{"caller", {}}, {"kwargs", {}}, {"varargs", {}}});
    made.body = closed_body(end, Place::function);
    const SpecialNames special = std::move(macros_.back());
    macros_.pop_back();
    made.reads_caller = special.at("caller").is_read;
    made.reads_kwargs = special.at("kwargs").is_read;
    made.reads_varargs = special.at("varargs").is_read;
    for (const Parameter& one : made.parameters) {
      if (one.name == "caller" && made.reads_caller && !one.has_otherwise)
        fail_at(made.line, "the parameter 'caller', expected a default for it, or none of it");
    }
  }

  void call(Node& made) {
    made.kind = Node::Kind::call;
    made.text = "caller";
    if (tokens_.is_sign("(")) {
      made.parameters = expressions_.parameters();
      for (const Parameter& one : made.parameters) note(one.name, false);
    }
    made.expressions.push_back(expressions_.expression());
    if (made.expressions[0].kind != Expression::Kind::call) tokens_.fail("a call before it");
    macro_body(made, "endcall");
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::vector<SpecialNames> macros_{};  // those around, from the outermost on
  int depth_ = 0;
  bool soft_ = false;  // in a branch
  bool in_loop_ = false;
};

}  // namespace

Template parse(std::string_view source) {
  Template made{.body = TemplateParser(source).whole()};
  hide_names(made);
  return made;
}

}  // namespace tandem::exec::chat
