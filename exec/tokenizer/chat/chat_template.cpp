#include "exec/tokenizer/chat/chat_template.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "exec/tokenizer/chat/builtins.hpp"
#include "exec/tokenizer/chat/syntax.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace chat {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::size_t kMostWork = std::size_t{1}
                                  << 30U;  // bytes of values that were made: of memory, too
constexpr int kDeepestCall = 50;
constexpr const char* kNamespace = "\x01namespace";  // a member of those alone

bool is_function(const std::string& name) {
  constexpr std::array<std::string_view, 5> kFunctions{"raise_exception", "namespace", "dict",
                                                       "range", "strftime_now"};
  return std::ranges::find(kFunctions, name) != kFunctions.end();
}

// Python's text * number.
std::string repeated(const std::string& text, std::int64_t times) {
  std::string all;
  for (; times > 0 && all.size() <= kMostBytes && !text.empty(); --times) all += text;
  return all;
}

class Interpreter {
 public:
  Interpreter(Value names, const ChatSettings& settings) : settings_(&settings) {
    scopes_.push_back(std::move(names));
  }

  std::string run(const Nodes& nodes) {
    std::string text;
    (void)run(nodes, text);
    return text;
  }

 private:
  enum class Flow { on, skip, leave };

  Flow run(const Nodes& nodes, std::string& out) {
    for (const Node& node : nodes) {
      step();
      const Flow flow = run(node, out);
      if (out.size() > kMostBytes) fail("more than 16 MiB of text; use another template");
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  Flow run(const Node& node, std::string& out) {
    switch (node.kind) {
      case Node::Kind::text:
        out += node.text;
        break;
      case Node::Kind::output:
        out += to_text(value(node.expression));
        break;
      case Node::Kind::conditional:
        for (const auto& [condition, body] : node.branches) {
          if (is_true(value(condition))) return run(body, out);
        }
        break;
      case Node::Kind::loop:
        return loop(node, out);
      case Node::Kind::assignment:
        assign(node);
        break;
      case Node::Kind::capture: {
        std::string text;
        scopes_.push_back(Value::object());
        (void)run(node.body, text);
        scopes_.pop_back();
        scopes_.back()[node.names.front()] = text;
        break;
      }
      case Node::Kind::macro:
        // It would see what is around it.
        if (scopes_.size() > 1)
          fail("macro '" + node.text + "' in a loop or a macro, expected it outside of them");
        macros_[node.text] = &node;
        break;
      case Node::Kind::group:
        return run(node.body, out);
      case Node::Kind::skip:
        return Flow::skip;
      case Node::Kind::leave:
        return Flow::leave;
    }
    return Flow::on;
  }

  void step() {
    if (++steps_ > kMostSteps) fail("a million steps without an end; use another template");
  }

  // `one` by that name, or its parts by several.
  void bind(const std::vector<std::string>& names, const Value& one) {
    if (names.size() == 1) {
      scopes_.back()[names.front()] = one;
      return;
    }
    const std::vector<Value> parts = elements(one);
    if (parts.size() != names.size())
      fail(std::to_string(parts.size()) + " values for " + std::to_string(names.size()) + " names");
    for (std::size_t i = 0; i < names.size(); ++i) scopes_.back()[names[i]] = parts[i];
  }

  Flow loop(const Node& node, std::string& out) {
    std::vector<Value> all = elements(value(node.expression));
    scopes_.push_back(Value::object());
    std::erase_if(all, [&](const Value& one) {
      step();
      bind(node.names, one);
      return !is_true(value(node.condition));
    });
    const auto size = all.size();
    Flow flow = Flow::on;
    bool ended = false;  // a body was left by its end, as Jinja's `else` asks
    for (std::size_t i = 0; i < size && flow != Flow::leave; ++i) {
      scopes_.back() = Value::object();
      Value& loop = scopes_.back()["loop"];
      loop["index0"] = i;
      loop["index"] = i + 1;
      loop["revindex"] = size - i;
      loop["revindex0"] = size - i - 1;
      loop["first"] = i == 0;
      loop["last"] = i + 1 == size;
      loop["length"] = size;
      loop["depth"] = 1;  // of `recursive` ones, which there are none of
      loop["depth0"] = 0;
      if (i > 0) loop["previtem"] = all[i - 1];
      if (i + 1 < size) loop["nextitem"] = all[i + 1];
      bind(node.names, all[i]);
      step();
      flow = run(node.body, out);
      ended = ended || flow == Flow::on;
    }
    scopes_.pop_back();
    if (!ended) return run(node.otherwise, out);
    return Flow::on;
  }

  void assign(const Node& node) {
    if (node.member.empty() && node.names.size() == 1 && calls_namespace(node.expression)) {
      Value made = Value::object();
      const Given members = given(node.expression);
      if (!members.values.empty()) fail("namespace(): expected members by name");
      for (const auto& [key, one] : members.named) made[key] = one;
      made[kNamespace] = true;
      scopes_.back()[node.names.front()] = std::move(made);
      return;
    }
    const Value made = value(node.expression);
    if (node.member.empty()) {
      bind(node.names, made);
      return;
    }
    Value* const of = find(node.names.front());
    if (of == nullptr || !is_namespace(*of))
      fail("'" + node.names.front() + "." + node.member + "' is set, expected a namespace()");
    (*of)[node.member] = made;
  }

  static bool calls_namespace(const Expression& of) {
    return of.kind == Expression::Kind::call && of.children[0].kind == Expression::Kind::name &&
           of.children[0].text == "namespace";
  }

  static std::string key_of(const Value& key) {
    if (!key.is_string()) fail(kind_of(key) + " as a mapping's key, expected a text");
    return key.get<std::string>();
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &*found;
    }
    return nullptr;
  }

  Value value(const Expression& of) {
    step();
    Value made = evaluated(of);
    work_ += weight(made);
    if (work_ > kMostWork) fail("1 GiB of values without an end; use another template");
    return made;
  }

  // What an attribute or item is taken of: a namespace, too.
  Value owner(const Expression& of) {
    if (of.kind == Expression::Kind::name) {
      const Value* const found = find(of.text);
      if (found != nullptr && is_namespace(*found)) return *found;
    }
    return value(of);
  }

  static bool is_namespace(const Value& value) {
    return value.is_object() && value.contains(kNamespace);
  }

  Value evaluated(const Expression& of) {
    using Kind = Expression::Kind;
    const auto child = [&](std::size_t i) { return value(of.children[i]); };
    switch (of.kind) {
      case Kind::literal:
        return of.value;
      case Kind::name: {
        const Value* const found = find(of.text);
        // Ours would be a copy.
        if (found != nullptr && is_namespace(*found))
          fail("namespace '" + of.text + "' is handed on, expected one of its members");
        if (found != nullptr) return *found;
        // A function that is asked about, not called.
        return is_function(of.text) || macros_.contains(of.text) ? Value(true) : undefined();
      }
      case Kind::list: {
        Value all = Value::array();
        for (const Expression& one : of.children) all.push_back(value(one));
        return all;
      }
      case Kind::mapping: {
        Value all = Value::object();
        for (std::size_t i = 0; i < of.children.size(); i += 2)
          all[key_of(child(i))] = child(i + 1);
        return all;
      }
      case Kind::attribute:
        return member(owner(of.children[0]), of.text);
      case Kind::item: {
        const Value whole = owner(of.children[0]);
        return member(whole, child(1));
      }
      case Kind::slice: {
        const Value whole = child(0);
        return slice(whole, child(1), child(2), child(3));
      }
      case Kind::call:
        return call(of);
      case Kind::filter: {
        const Value subject = child(0);
        return filtered(of.text, subject, given(of));
      }
      case Kind::test: {
        const Value subject = child(0);
        return tested(of.text, subject, given(of));
      }
      case Kind::negation:
        return !is_true(child(0));
      case Kind::unary:
        return arithmetic("-", 0, of.text == "-" ? child(0) : arithmetic("-", 0, child(0)));
      case Kind::binary:
        return binary(of);
      case Kind::conditional:
        return is_true(child(1)) ? child(0) : child(2);
    }
    return undefined();
  }

  Value binary(const Expression& of) {
    const std::string& sign = of.text;
    Value left = value(of.children[0]);
    if (sign == "and") return is_true(left) ? value(of.children[1]) : left;
    if (sign == "or") return is_true(left) ? left : value(of.children[1]);
    const Value right = value(of.children[1]);
    if (sign == "==") return equal(left, right);
    if (sign == "!=") return !equal(left, right);
    if (sign == "<") return less(left, right);
    if (sign == ">") return less(right, left);
    if (sign == "<=") return !less(right, left);
    if (sign == ">=") return !less(left, right);
    if (sign == "in") return contains(right, left);
    if (sign == "~") return bounded(to_text(left) + to_text(right));
    return arithmetic(sign, left, right);
  }

  static Value arithmetic(const std::string& sign, const Value& a, const Value& b) {
    if (sign == "+" && a.is_string() && b.is_string())
      return bounded(a.get<std::string>() + b.get<std::string>());
    if (sign == "+" && a.is_array() && b.is_array()) {
      Value all = a;
      all.insert(all.end(), b.begin(), b.end());
      return all;
    }
    if (sign == "*" && a.is_string() && b.is_number_integer())
      return bounded(repeated(a.get<std::string>(), b.get<std::int64_t>()));
    const auto number = [](const Value& v) { return v.is_number() || v.is_boolean(); };
    if (!number(a) || !number(b))
      fail(kind_of(a) + " " + sign + " " + kind_of(b) +
           ", expected two numbers, or with + two texts or two lists");
    const auto real = [](const Value& v) {
      return v.is_boolean() ? (v.get<bool>() ? 1.0 : 0.0) : v.get<double>();
    };
    const double x = real(a);
    const double y = real(b);
    const bool whole = !a.is_number_float() && !b.is_number_float();
    if (y == 0.0 && (sign == "/" || sign == "//" || sign == "%")) fail("a division by zero");
    double made = 0.0;
    if (sign == "+") made = x + y;
    if (sign == "-") made = x - y;
    if (sign == "*") made = x * y;
    if (sign == "/") return x / y;
    if (sign == "//") made = std::floor(x / y);
    if (sign == "%") made = x - y * std::floor(x / y);
    if (sign == "**") made = std::pow(x, y);
    if (!whole || (sign == "**" && y < 0.0)) return made;
    constexpr double kExact = 9007199254740992.0;
    if (!(std::abs(made) < kExact)) fail("a number beyond 2^53, expected a smaller one");
    return static_cast<std::int64_t>(made);
  }

  Given given(const Expression& call) {
    Given all;
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      if (call.names[i].empty()) {
        all.values.push_back(value(call.arguments[i]));
      } else {
        all.named[call.names[i]] = value(call.arguments[i]);
      }
    }
    return all;
  }

  Value call(const Expression& of) {
    const Expression& callee = of.children[0];
    if (callee.kind == Expression::Kind::attribute) {
      const Value subject = value(callee.children[0]);
      return method(subject, callee.text, given(of));
    }
    if (callee.kind != Expression::Kind::name) fail("a call of what is no name");
    const Given arguments = given(of);
    const auto macro = macros_.find(callee.text);
    if (macro != macros_.end()) return expanded(*macro->second, arguments);
    return function(callee.text, arguments);
  }

  Value expanded(const Node& macro, const Given& arguments) {
    if (++calls_ > kDeepestCall) fail("macro '" + macro.text + "' calls itself without an end");
    if (arguments.values.size() > macro.parameters.size())
      fail("macro '" + macro.text + "': " + std::to_string(arguments.values.size()) +
           " arguments, expected at most " + std::to_string(macro.parameters.size()));
    for (const auto& [name, unused] : arguments.named) {
      if (std::ranges::find(macro.parameters, name, &Parameter::name) == macro.parameters.end())
        fail("macro '" + macro.text + "': argument '" + name + "', which it does not have");
    }
    // A macro sees what the whole template sees, not what its caller does.
    std::vector<Value> callers(scopes_.begin() + 1, scopes_.end());
    scopes_.resize(1);
    scopes_.push_back(Value::object());
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const Parameter& one = macro.parameters[i];
      Value got = arguments.at(i, one.name);
      // It may name the parameters before it.
      if (i >= arguments.values.size() && !arguments.named.contains(one.name))
        got = value(one.otherwise);
      scopes_.back()[one.name] = std::move(got);
    }
    std::string text;
    (void)run(macro.body, text);
    scopes_.resize(1);
    scopes_.insert(scopes_.end(), callers.begin(), callers.end());
    --calls_;
    return text;
  }

  Value function(const std::string& name, const Given& arguments) {
    if (name == "raise_exception")
      throw Error("the chat template refuses these messages: " +
                  to_text(arguments.at(0, "message")));
    if (name == "namespace") fail("a namespace that is not set at once, expected 'set ns = ...'");
    if (name == "dict") {
      if (!arguments.values.empty()) fail("dict: expected members by name");
      Value made = Value::object();
      for (const auto& [key, one] : arguments.named) made[key] = one;
      return made;
    }
    if (name == "range") return range(arguments);
    if (name == "strftime_now") return today(to_text(arguments.at(0, "format")));
    fail("function '" + name +
         "': not known, expected a macro, raise_exception, namespace, dict, range or strftime_now");
  }

  Value range(const Given& arguments) {
    std::array<std::int64_t, 3> bounds{0, 0, 1};
    const std::size_t count = arguments.values.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (count > 3 || !arguments.values[i].is_number_integer())
        fail("range: expected one to three whole numbers");
      bounds[count == 1 ? 1 : i] = arguments.values[i].get<std::int64_t>();
    }
    if (count == 0 || bounds[2] == 0) fail("range: expected an end, and steps other than 0");
    Value all = Value::array();
    for (std::int64_t at = bounds[0]; bounds[2] > 0 ? at < bounds[1] : at > bounds[1];
         at += bounds[2]) {
      step();
      all.push_back(at);
    }
    return all;
  }

  [[nodiscard]] std::string today(const std::string& format) const {
    std::tm date{};
    if (settings_->date.empty()) {
      const std::time_t now = std::time(nullptr);
      ::localtime_r(&now, &date);
    } else if (::strptime(settings_->date.c_str(), "%Y-%m-%d", &date) == nullptr) {
      fail("date '" + settings_->date + "', expected YYYY-MM-DD");
    }
    std::array<char, 256> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &date);
    return {text.data(), size};
  }

  const ChatSettings* settings_;
  std::vector<Value> scopes_;  // from the whole template's to the innermost loop's
  std::map<std::string, const Node*> macros_;
  std::int64_t steps_ = 0;
  std::size_t work_ = 0;
  int calls_ = 0;
};

}  // namespace
}  // namespace chat

std::string apply_chat_template(const std::string& chat_template,
                                const std::vector<ChatMessage>& messages,
                                const ChatSettings& settings) {
  const chat::Nodes nodes = chat::parse(valid_utf8(chat_template));
  chat::Value names = chat::Value::object();
  names["messages"] = chat::Value::array();
  for (const ChatMessage& message : messages) {
    chat::Value one = chat::Value::object();
    one["role"] = message.role;
    one["content"] = valid_utf8(message.content);
    names["messages"].push_back(std::move(one));
  }
  names["add_generation_prompt"] = true;
  names["bos_token"] = settings.bos_token;
  names["eos_token"] = settings.eos_token;
  names["tools"] = nullptr;
  names["documents"] = nullptr;
  return chat::Interpreter(std::move(names), settings).run(nodes);
}

}  // namespace tandem::exec
