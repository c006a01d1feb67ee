#include "exec/tokenizer/chat/syntax.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "exec/tokenizer/chat/lexer.hpp"
#include "model/error.hpp"

namespace tandem::exec::chat {
namespace {

using Kind = Expression::Kind;

constexpr int kDeepest = 200;  // nested expressions and statements
constexpr std::size_t kLongestNumber = 15;

Expression literal(Value value) { return {.kind = Kind::literal, .value = std::move(value)}; }

class ExpressionParser {
 public:
  ExpressionParser(const std::string& text, int line) : words_(words(text, line)), line_(line) {}

  Expression whole() {
    const Deeper deeper(*this);
    Expression made = disjunction();
    while (take_name("if")) {
      Expression condition = disjunction();
      Expression other = take_name("else") ? whole() : literal(undefined());
      made = {.kind = Kind::conditional,
              .children = {std::move(made), std::move(condition), std::move(other)}};
    }
    return made;
  }
  // One, or several between commas: a list.
  Expression tuple() {
    Expression first = whole();
    if (!is_sign(",")) return first;
    Expression list{.kind = Kind::list, .children = {std::move(first)}};
    while (take_sign(",") && !at_end()) list.children.push_back(whole());
    return list;
  }
  // Without `if`, which ends the subject of a loop.
  Expression disjunction() {
    return left_to_right({"or"}, true, [this] { return conjunction(); });
  }

  [[nodiscard]] bool at_end() const { return word().kind == Word::Kind::end; }
  void expect_end() const {
    if (!at_end()) fail("the end of the statement");
  }
  [[nodiscard]] bool is_sign(std::string_view sign) const {
    return word().kind == Word::Kind::sign && word().text == sign;
  }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return word().kind == Word::Kind::name && word().text == name;
  }
  bool take_sign(std::string_view sign) { return is_sign(sign) && (++at_, true); }
  bool take_name(std::string_view name) { return is_name(name) && (++at_, true); }
  void expect_sign(std::string_view sign) {
    if (!take_sign(sign)) fail("'" + std::string(sign) + "'");
  }
  std::string name() {
    if (word().kind != Word::Kind::name) fail("a name");
    return words_[at_++].text;
  }
  // name, name = default, ...) of a macro.
  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    while (!take_sign(")")) {
      Parameter& one = all.emplace_back();
      one.name = name();
      one.otherwise = take_sign("=") ? whole() : literal(undefined());
      if (!is_sign(")")) expect_sign(",");
    }
    return all;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error("chat template, line " + std::to_string(line_) + ": '" +
                (at_end() ? std::string("end of the statement") : word().text) + "', expected " +
                expected);
  }

 private:
  // Counts how deep the parser is.
  class Deeper {
   public:
    explicit Deeper(ExpressionParser& parser) : parser_(&parser) {
      if (++parser.depth_ > kDeepest) parser.fail("less deeply nested expressions");
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --parser_->depth_; }

   private:
    ExpressionParser* parser_;
  };

  [[nodiscard]] const Word& word() const { return words_[at_]; }

  template <class Next>
  Expression left_to_right(std::initializer_list<std::string_view> signs, bool named,
                           const Next& next) {
    Expression made = next();
    while (true) {
      const auto* const found = std::ranges::find_if(
          signs, [&](std::string_view sign) { return named ? is_name(sign) : is_sign(sign); });
      if (found == signs.end()) return made;
      ++at_;
      Expression right = next();
      made = {.kind = Kind::binary,
              .text = std::string(*found),
              .children = {std::move(made), std::move(right)}};
    }
  }
  Expression conjunction() {
    return left_to_right({"and"}, true, [this] { return negation(); });
  }
  Expression negation() {
    const Deeper deeper(*this);
    if (!take_name("not")) return comparison();
    return {.kind = Kind::negation, .children = {negation()}};
  }
  // a < b < c means a < b and b < c.
  Expression comparison() {
    constexpr std::array<std::string_view, 6> kSigns{"==", "!=", "<", "<=", ">", ">="};
    Expression left = sum();
    std::optional<Expression> made;
    while (true) {
      bool negated = false;
      std::string sign;
      if (word().kind == Word::Kind::sign &&
          std::ranges::find(kSigns, word().text) != kSigns.end()) {
        sign = words_[at_++].text;
      } else if (take_name("in")) {
        sign = "in";
      } else if (is_name("not") && words_[at_ + 1].text == "in") {
        at_ += 2;
        sign = "in";
        negated = true;
      } else {
        return made ? std::move(*made) : std::move(left);
      }
      Expression right = sum();
      Expression one{.kind = Kind::binary, .text = sign, .children = {std::move(left), right}};
      if (negated) one = {.kind = Kind::negation, .children = {std::move(one)}};
      if (made) {
        made = Expression{
            .kind = Kind::binary, .text = "and", .children = {std::move(*made), std::move(one)}};
      } else {
        made = std::move(one);
      }
      left = std::move(right);
    }
  }
  Expression sum() {
    return left_to_right({"+", "-"}, false, [this] { return joined(); });
  }
  Expression joined() {
    return left_to_right({"~"}, false, [this] { return product(); });
  }
  Expression product() {
    return left_to_right({"*", "/", "//", "%"}, false, [this] { return power(); });
  }
  Expression power() {
    return left_to_right({"**"}, false, [this] { return signed_one(true); });
  }
  Expression signed_one(bool filtered) {
    const Deeper deeper(*this);
    Expression made;
    if (is_sign("-") || is_sign("+")) {
      std::string sign = words_[at_++].text;
      made = {.kind = Kind::unary, .text = std::move(sign), .children = {signed_one(false)}};
    } else {
      made = followed(primary());
    }
    return filtered ? with_filters(std::move(made)) : made;
  }

  Expression primary() {
    const Word& first = word();
    if (first.kind == Word::Kind::text) {
      std::string text = words_[at_++].text;
      while (word().kind == Word::Kind::text) text += words_[at_++].text;
      return literal(text);
    }
    if (first.kind == Word::Kind::number) return number();
    if (first.kind == Word::Kind::name) {
      const std::string text = name();
      if (text == "true" || text == "True") return literal(true);
      if (text == "false" || text == "False") return literal(false);
      if (text == "none" || text == "None") return literal(nullptr);
      return {.kind = Kind::name, .text = text};
    }
    if (take_sign("(")) {
      if (take_sign(")")) return {.kind = Kind::list};
      Expression inner = tuple();
      expect_sign(")");
      return inner;
    }
    if (take_sign("[")) return {.kind = Kind::list, .children = elements("]", false)};
    if (take_sign("{")) return {.kind = Kind::mapping, .children = elements("}", true)};
    fail("an expression");
  }
  Expression number() {
    std::string text = words_[at_++].text;
    std::erase(text, '_');
    if (text.size() > kLongestNumber ||
        text.find_first_not_of("0123456789.") != std::string::npos) {
      --at_;
      fail("a number of digits");
    }
    Value read = Value::parse(text, nullptr, false);
    if (is_undefined(read)) {
      --at_;
      fail("a number without zeros in front");
    }
    return literal(std::move(read));
  }
  Expressions elements(std::string_view close, bool pairs) {
    Expressions all;
    while (!take_sign(close)) {
      all.push_back(whole());
      if (pairs) {
        expect_sign(":");
        all.push_back(whole());
      }
      if (!is_sign(close)) expect_sign(",");
    }
    return all;
  }
  // The arguments up to the bracket, of `call`.
  Expression with_arguments(Expression call) {
    while (!take_sign(")")) {
      const bool named = word().kind == Word::Kind::name &&
                         words_[at_ + 1].kind == Word::Kind::sign && words_[at_ + 1].text == "=";
      call.names.push_back(named ? name() : "");
      if (named) expect_sign("=");
      call.arguments.push_back(whole());
      if (!is_sign(")")) expect_sign(",");
    }
    return call;
  }
  // Attributes, items and calls.
  Expression followed(Expression of) {
    while (true) {
      if (take_sign(".")) {
        of = {.kind = Kind::attribute, .text = name(), .children = {std::move(of)}};
      } else if (take_sign("[")) {
        of = item(std::move(of));
      } else if (take_sign("(")) {
        of = with_arguments({.kind = Kind::call, .children = {std::move(of)}});
      } else {
        return of;
      }
    }
  }
  Expression item(Expression of) {
    const auto part = [&] { return is_sign(":") || is_sign("]") ? literal(undefined()) : whole(); };
    Expression first = part();
    if (take_sign("]")) {
      if (first.kind == Kind::literal && is_undefined(first.value)) fail("an index");
      return {.kind = Kind::item, .children = {std::move(of), std::move(first)}};
    }
    expect_sign(":");
    Expression end = part();
    Expression step = take_sign(":") ? part() : literal(undefined());
    expect_sign("]");
    return {.kind = Kind::slice,
            .children = {std::move(of), std::move(first), std::move(end), std::move(step)}};
  }
  // Filters and tests; what follows a filter's result, too.
  Expression with_filters(Expression of) {
    while (true) {
      if (take_sign("|")) {
        of = {.kind = Kind::filter, .text = name(), .children = {std::move(of)}};
        if (take_sign("(")) of = with_arguments(std::move(of));
      } else if (take_name("is")) {
        const bool negated = take_name("not");
        of = {.kind = Kind::test, .text = name(), .children = {std::move(of)}};
        if (take_sign("(")) {
          of = with_arguments(std::move(of));
        } else if (begins_argument()) {
          of.names.emplace_back();
          of.arguments.push_back(followed(primary()));
        }
        if (negated) of = {.kind = Kind::negation, .children = {std::move(of)}};
      } else {
        return of;
      }
    }
  }
  // As in `x is divisibleby 3`.
  [[nodiscard]] bool begins_argument() const {
    constexpr std::array<std::string_view, 6> kWords{"and", "or", "else", "if", "is", "not"};
    if (word().kind == Word::Kind::name)
      return std::ranges::find(kWords, word().text) == kWords.end() && word().text != "in";
    return word().kind == Word::Kind::text || word().kind == Word::Kind::number || is_sign("[");
  }

  std::vector<Word> words_;
  int line_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

class TemplateParser {
 public:
  explicit TemplateParser(std::string_view source) : pieces_(pieces(source)) {}

  Nodes whole() {
    Nodes all = body({});
    return all;
  }

 private:
  using Ends = std::span<const std::string_view>;

  // What stands before one of the statements `ends`, which is left where it is.
  Nodes body(Ends ends) {
    if (++depth_ > kDeepest) fail("less deeply nested statements");
    Nodes all;
    for (; at_ < pieces_.size(); ++at_) {
      const Piece& piece = pieces_[at_];
      if (piece.kind == Piece::Kind::text) {
        all.push_back({.kind = Node::Kind::text, .text = piece.text});
      } else if (piece.kind == Piece::Kind::output) {
        ExpressionParser parser(piece.text, piece.line);
        all.push_back({.kind = Node::Kind::output, .expression = parser.tuple()});
        parser.expect_end();
      } else {
        if (std::ranges::find(ends, keyword()) != ends.end()) {
          if (keyword() != "elif") opened().expect_end();
          break;
        }
        all.push_back(statement());
      }
    }
    if (at_ == pieces_.size() && !ends.empty())
      throw Error("chat template: its end, expected '{% " + std::string(ends.back()) + " %}'");
    --depth_;
    return all;
  }

  [[nodiscard]] std::string keyword() const {
    const std::vector<Word> all = words(pieces_[at_].text, pieces_[at_].line);
    return all.front().kind == Word::Kind::name ? all.front().text : "";
  }
  [[noreturn]] void fail(const std::string& expected) const {
    const std::size_t at = std::min(at_, pieces_.size() - 1);
    throw Error("chat template, line " + std::to_string(pieces_[at].line) + ": statement '" +
                keyword() + "', expected " + expected);
  }
  // The words behind the keyword of this statement.
  [[nodiscard]] ExpressionParser opened() const {
    ExpressionParser parser(pieces_[at_].text, pieces_[at_].line);
    (void)parser.name();
    return parser;
  }
  template <std::size_t N>
  Nodes body_until(const std::array<std::string_view, N>& ends) {
    ++at_;
    return body(ends);
  }

  Node statement() {
    const std::string kind = keyword();
    if (kind == "if") return condition();
    if (kind == "for") return loop();
    if (kind == "set") return assignment();
    if (kind == "macro") return macro();
    if (kind == "generation") {
      opened().expect_end();
      constexpr std::array<std::string_view, 1> kEnd{"endgeneration"};
      return {.kind = Node::Kind::group, .body = body_until(kEnd)};
    }
    if (kind == "continue") return {.kind = Node::Kind::skip};
    if (kind == "break") return {.kind = Node::Kind::leave};
    fail("if, for, set, macro, generation, break or continue");
  }

  Node condition() {
    constexpr std::array<std::string_view, 3> kEnds{"elif", "else", "endif"};
    Node made{.kind = Node::Kind::conditional};
    while (keyword() != "endif") {
      ExpressionParser parser = opened();
      const bool last = keyword() == "else";
      Expression when = last ? literal(true) : parser.tuple();
      parser.expect_end();
      Nodes then = body_until(kEnds);
      made.branches.emplace_back(std::move(when), std::move(then));
      if (last && keyword() != "endif") fail("endif after else");
    }
    return made;
  }

  Node loop() {
    constexpr std::array<std::string_view, 2> kEnds{"else", "endfor"};
    constexpr std::array<std::string_view, 1> kEnd{"endfor"};
    Node made{.kind = Node::Kind::loop};
    ExpressionParser parser = opened();
    const bool grouped = parser.take_sign("(");
    do made.names.push_back(parser.name());
    while (parser.take_sign(","));
    if (grouped) parser.expect_sign(")");
    if (!parser.take_name("in")) parser.fail("'in'");
    made.expression = parser.disjunction();
    made.condition = parser.take_name("if") ? parser.whole() : literal(true);
    parser.expect_end();
    made.body = body_until(kEnds);
    if (keyword() == "else") made.otherwise = body_until(kEnd);
    return made;
  }

  Node assignment() {
    constexpr std::array<std::string_view, 1> kEnd{"endset"};
    ExpressionParser parser = opened();
    Node made{.kind = Node::Kind::assignment};
    do made.names.push_back(parser.name());
    while (parser.take_sign(","));
    if (made.names.size() == 1 && parser.take_sign(".")) made.member = parser.name();
    if (parser.take_sign("=")) {
      made.expression = parser.tuple();
      parser.expect_end();
      return made;
    }
    parser.expect_end();
    if (made.names.size() > 1 || !made.member.empty()) parser.fail("'='");
    made.kind = Node::Kind::capture;
    made.body = body_until(kEnd);
    return made;
  }

  Node macro() {
    constexpr std::array<std::string_view, 1> kEnd{"endmacro"};
    ExpressionParser parser = opened();
    Node made{.kind = Node::Kind::macro, .text = parser.name()};
    parser.expect_sign("(");
    made.parameters = parser.parameters();
    parser.expect_end();
    made.body = body_until(kEnd);
    return made;
  }

  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Nodes parse(std::string_view source) { return TemplateParser(source).whole(); }

}  // namespace tandem::exec::chat
