// What a grammar accepts is what a slow reader of the schema accepts, which knows no automaton.

#include "exec/grammar/json_schema.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "exec/grammar/grammar_walk.hpp"

namespace tandem::exec::json_schema_test {
namespace {

using Json = nlohmann::ordered_json;
using Ends = std::set<std::size_t>;

// The ends of values of a schema in a text, by trying all of them.
class Reader {
 public:
  Reader(const Json& root, std::string text) : root_(root), text_(std::move(text)) {}

  [[nodiscard]] bool accepts() const {
    for (const std::size_t at : space(0)) {
      if (value(root_, at, kDepth).contains(text_.size())) return true;
    }
    return false;
  }

 private:
  static constexpr int kDepth = 32;

  [[nodiscard]] bool has(std::size_t at, std::string_view what) const {
    return text_.compare(at, what.size(), what) == 0;
  }
  [[nodiscard]] Ends space(std::size_t at) const {
    Ends ends{at};
    if (at < text_.size() && text_[at] == ' ') ends.insert(at + 1);
    if (at >= text_.size() || text_[at] != '\n') return ends;
    ends.insert(++at);
    for (int i = 0; i < 20 && at < text_.size() && (text_[at] == ' ' || text_[at] == '\t'); ++i)
      ends.insert(++at);
    return ends;
  }
  [[nodiscard]] Ends string(std::size_t at) const {
    if (!has(at, "\"")) return {};
    std::size_t end = at + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return {};
    const std::string written = text_.substr(at, end + 1 - at);
    if (!nlohmann::json::accept(written)) return {};
    for (std::size_t i = 0; i < written.size(); ++i) {
      const auto byte = static_cast<unsigned char>(written[i]);
      if (byte == 0x7F) return {};
      if (byte == 0xC2 && static_cast<unsigned char>(written[i + 1]) < 0xA0) return {};
    }
    return {end + 1};
  }
  [[nodiscard]] Ends number(std::size_t at, bool integer) const {
    static const std::regex kInteger("-?(0|[1-9][0-9]{0,14})");
    static const std::regex kNumber(
        "-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?");
    Ends ends;
    for (std::size_t end = at + 1; end <= text_.size() && end < at + 40; ++end) {
      if (std::regex_match(text_.substr(at, end - at), integer ? kInteger : kNumber))
        ends.insert(end);
    }
    return ends;
  }
  [[nodiscard]] Ends word(std::size_t at, const std::string& what) const {
    return has(at, what) ? Ends{at + what.size()} : Ends{};
  }
  static void add(Ends& all, const Ends& more) { all.insert(more.begin(), more.end()); }

  [[nodiscard]] Ends of_type(const Json& schema, const std::string& type, std::size_t at,
                             int depth) const {
    if (type == "string") return string(at);
    if (type == "number") return number(at, false);
    if (type == "integer") return number(at, true);
    if (type == "null") return word(at, "null");
    if (type == "boolean") {
      Ends ends = word(at, "true");
      add(ends, word(at, "false"));
      return ends;
    }
    return type == "array" ? array(schema, at, depth) : object(schema, at, depth);
  }

  [[nodiscard]] Ends value(const Json& schema, std::size_t at, int depth) const {
    Ends ends;
    if (schema.is_boolean() || schema.empty()) {
      std::vector<std::string> types{"string", "number", "null", "boolean"};
      if (depth > 0) types.insert(types.end(), {"array", "object"});
      for (const std::string& type : types) add(ends, of_type(Json::object(), type, at, depth));
      return ends;
    }
    if (schema.contains("$ref"))
      return value(root_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), at,
                   depth);
    for (const Json& one : schema.value("anyOf", Json::array())) add(ends, value(one, at, depth));
    if (schema.contains("anyOf")) return ends;
    for (const Json& one : schema.value("enum", Json::array())) add(ends, word(at, one.dump()));
    if (schema.contains("enum")) return ends;
    if (schema.contains("const")) return word(at, schema["const"].dump());
    const Json types = schema["type"];
    for (const Json& type : types.is_array() ? types : Json::array({types}))
      add(ends, of_type(schema, type.get<std::string>(), at, depth));
    return ends;
  }

  // The ends of a list's rest, behind `count` items.
  void items(const Json& schema, std::size_t at, std::size_t count, int depth, Ends& ends) const {
    const std::size_t least = schema.value("minItems", 0U);
    const std::size_t most = schema.value("maxItems", 1000U);
    for (const std::size_t close : space(at)) {
      if (count >= least && has(close, "]")) ends.insert(close + 1);
    }
    if (count == most || (count > 0 && !has(at, ","))) return;
    for (const std::size_t begin : space(count == 0 ? at : at + 1)) {
      for (const std::size_t end : value(schema.value("items", Json(true)), begin, depth))
        items(schema, end, count + 1, depth, ends);
    }
  }
  [[nodiscard]] Ends array(const Json& schema, std::size_t at, int depth) const {
    Ends ends;
    if (has(at, "[")) items(schema, at + 1, 0, depth - 1, ends);
    return ends;
  }

  void members(const Json& schema, std::size_t at, std::size_t next, bool first, int depth,
               Ends& ends) const {
    const Json properties = schema.value("properties", Json::object());
    const bool any =
        properties.empty() && schema.value("additionalProperties", Json(true)) != false;
    const auto required = [&](const std::string& key) {
      const Json list = schema.value("required", Json::array());
      return std::ranges::find(list, Json(key)) != list.end();
    };
    std::vector<std::string> keys;
    for (const auto& [key, value] : properties.items()) keys.push_back(key);
    const bool may_end =
        std::none_of(keys.begin() + static_cast<std::ptrdiff_t>(next), keys.end(), required);
    for (const std::size_t close : space(at)) {
      if (may_end && has(close, "}")) ends.insert(close + 1);
    }
    if (!first && !has(at, ",")) return;
    const auto member = [&](std::size_t key_end, const Json& of, std::size_t behind) {
      if (!has(key_end, ":")) return;
      for (const std::size_t begin : space(key_end + 1)) {
        for (const std::size_t end : value(of, begin, depth))
          members(schema, end, behind, false, depth, ends);
      }
    };
    for (const std::size_t begin : space(first ? at : at + 1)) {
      for (std::size_t i = next; i < keys.size(); ++i) {
        for (const std::size_t end : word(begin, Json(keys[i]).dump()))
          member(end, properties[keys[i]], i + 1);
        if (required(keys[i])) break;
      }
      if (!any) continue;
      const Json of = schema.value("additionalProperties", Json(true));
      for (const std::size_t end : string(begin)) member(end, of, 0);
    }
  }
  [[nodiscard]] Ends object(const Json& schema, std::size_t at, int depth) const {
    Ends ends;
    if (has(at, "{")) members(schema, at + 1, 0, true, depth - 1, ends);
    return ends;
  }

  const Json& root_;
  std::string text_;
};

class Automaton {
 public:
  explicit Automaton(const Json& schema)
      : grammar_(json_schema_grammar(schema, "schema")),
        start_(places_from(grammar_, stacks_, {{grammar_.start(0)}})) {}
  [[nodiscard]] bool accepts(std::string_view text) {
    GrammarPlaces at = start_;
    for (const char byte : text)
      at = places_after(grammar_, stacks_, at, static_cast<unsigned char>(byte));
    return at.ends;
  }
  // A text that it accepts, or the beginning of one; which byte comes is random.
  std::string random_text(std::mt19937& random, std::size_t most) {
    GrammarPlaces at = start_;
    std::string text;
    while (text.size() < most && !(at.ends && (at.places.empty() || random() % 3 == 0))) {
      std::vector<unsigned char> bytes;
      for (const GrammarPlace& place : at.places) {
        for (const ByteGrammar::Edge& edge : grammar_.state(place.state).edges) {
          bytes.push_back(edge.first);
          bytes.push_back(
              static_cast<unsigned char>(edge.first + random() % (1U + edge.last - edge.first)));
        }
      }
      REQUIRE(!bytes.empty());
      unsigned char byte = bytes[random() % bytes.size()];
      // Strings end soon.
      if (random() % 3 == 0 && std::ranges::find(bytes, '"') != bytes.end()) byte = '"';
      text += static_cast<char>(byte);
      at = places_after(grammar_, stacks_, at, byte);
      REQUIRE(!at.dead());
    }
    return text;
  }

 private:
  ByteGrammar grammar_;
  GrammarStacks stacks_;
  GrammarPlaces start_;
};

const std::vector<std::string> kSchemas{
    R"({"type": "object"})",
    R"({})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": ["null", "boolean"]},
        "b": {"type": "array", "items": {"enum": [1, 12, "x"]}}}, "required": ["ab"]})",
    R"({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}})",
    R"({"type": "object", "properties": {}, "additionalProperties": false})",
    R"({"type": "object", "additionalProperties": {"type": "integer"}})",
    R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
    R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2})",
    R"({"type": "array", "maxItems": 0})",
    R"({"type": "array", "items": {"type": "null"}, "maxItems": 1})",
    R"({"anyOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"const": 12}, "b": {}}, "required": ["a"]},
        {"type": "null"}]})",
    R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties":
        {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}}})",
    R"({"enum": ["a", "ab", "é\n", {"a": [1, null]}, 1.5, -2, true]})",
    R"({"type": ["string", "integer"]})"};

TEST_CASE("exec/grammar: accepts what a slow reader of the schema accepts, of all short texts") {
  const std::vector<std::string> pieces{"{", "}", "[",  "]", "\"a\"", "\"ab\"", ":",
                                        ",", "1", "12", " ", "null",  "true",   "\"b\""};
  for (const std::string& text : kSchemas) {
    CAPTURE(text);
    const Json schema = Json::parse(text);
    Automaton automaton(schema);
    std::size_t accepted = 0;
    const auto visit = [&](const auto& self, const std::string& so_far, int left) -> void {
      const bool expected = Reader(schema, so_far).accepts();
      accepted += expected ? 1 : 0;
      if (automaton.accepts(so_far) != expected) FAIL_CHECK(so_far);
      if (left == 0) return;
      for (const std::string& piece : pieces) self(self, so_far + piece, left - 1);
    };
    visit(visit, "", 3);
    // The others begin as most texts of a schema do.
    visit(visit, "{\"a\":1", 3);
    visit(visit, "{\"ab\":", 3);
    visit(visit, "[1", 3);
    visit(visit, "[true", 3);
    CHECK(accepted > 0);
  }
}

TEST_CASE("exec/grammar: accepts its own texts, and of changed ones what the slow reader accepts") {
  std::mt19937 random(36);
  constexpr std::string_view kBytes =
      "{}[]\",: \n\t\\/u0dDcC8eE+-.19ntx\x7F\xC2\x85\xC3\xA9\xED\xA0\xF4";
  for (const std::string& text : kSchemas) {
    CAPTURE(text);
    const Json schema = Json::parse(text);
    Automaton automaton(schema);
    std::size_t complete = 0;
    for (int i = 0; i < 60; ++i) {
      std::string made = automaton.random_text(random, 100);
      const bool accepted = automaton.accepts(made);
      complete += accepted ? 1 : 0;
      CHECK(Reader(schema, made).accepts() == accepted);
      if (accepted) CHECK(nlohmann::json::accept(made));
      for (int change = 0; change < 10 && !made.empty(); ++change) {
        std::string other = made;
        const std::size_t at = random() % other.size();
        const char byte = kBytes[random() % kBytes.size()];
        if (random() % 3 == 0) {
          other.erase(at, 1);
        } else if (random() % 2 == 0) {
          other.insert(at, 1, byte);
        } else {
          other[at] = byte;
        }
        const bool expected = Reader(schema, other).accepts();
        if (automaton.accepts(other) != expected)
          FAIL_CHECK(Json(other).dump(-1, ' ', true, Json::error_handler_t::replace));
      }
    }
    CHECK(complete > 10);
  }
}

TEST_CASE("exec/grammar: white space, escapes and numbers have bounds") {
  Automaton any(Json::parse("{}"));
  const std::string indent(20, ' ');
  CHECK(any.accepts("\n" + indent + "[\n" + indent + "1,\n\t2\n]"));
  for (const std::string& text : {"\n" + indent + " []",
                                  std::string("  []"),
                                  std::string("[] "),
                                  std::string("[1 ,2]"),
                                  std::string("{\"a\" :1}"),
                                  std::string("[\r1]"),
                                  std::string("[1,]"),
                                  std::string("\n\n1"),
                                  std::string("1234567890123456"),
                                  std::string("1e100"),
                                  std::string("01"),
                                  std::string("+1"),
                                  std::string("1."),
                                  std::string(".5"),
                                  std::string("\"\\ud800\""),
                                  std::string("\"\\udc00\""),
                                  std::string("\"\\ud800\\u0041\""),
                                  std::string("\"\\x\""),
                                  std::string("\"\n\""),
                                  std::string("\"\xC3\""),
                                  std::string("\"\xC0\x80\""),
                                  std::string("\"\xED\xA0\x80\""),
                                  std::string("\"\xF4\x90\x80\x80\""),
                                  std::string("nul"),
                                  std::string()}) {
    CAPTURE(text);
    CHECK(!any.accepts(text));
  }
  for (const char* const text :
       {"-0", "123456789012345", "-1.5e-99", "0.123456789012345E+9", "\"\\ud83d\\uDE00\"",
        "\"\\u00e9\\uE000\\/\"", "\"\xF0\x9F\x98\x80\xC2\xA0\"", "{\"a\":{}, \"a\": [ ]}"}) {
    CAPTURE(text);
    CHECK(any.accepts(text));
  }
  // Free values are nested 32 deep.
  CHECK(any.accepts(std::string(32, '[') + std::string(32, ']')));
  CHECK(!any.accepts(std::string(33, '[') + std::string(33, ']')));
}

TEST_CASE("exec/grammar: constants have all their digits") {
  for (const char* const number :
       {"18446744073709551615", "-9223372036854775808", "0.25", "1e15"}) {
    CAPTURE(number);
    const std::string schema = std::string(R"({"const": )") + number + "}";
    CHECK_NOTHROW(json_schema_grammar(std::string_view(schema), "schema"));
  }
}

TEST_CASE("exec/grammar: texts of control characters are escaped") {
  Automaton automaton(Json::parse(R"({"const": "a\u007f\u0085é"})"));
  CHECK(automaton.accepts(R"("a\u007f\u0085\u00e9")"));
  CHECK(!automaton.accepts("\"a\x7F\xC2\x85\xC3\xA9\""));
}

TEST_CASE("exec/grammar: refuses what it does not know, and names the keyword and its place") {
  struct Case {
    const char* schema;
    const char* place;
  };
  const std::vector<Case> cases{
      {R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})",
       "schema.properties.a.pattern"},
      {R"({"type": "array", "items": {"type": "number", "minimum": 1}})", "schema.items.minimum"},
      {R"({"oneOf": [{"type": "null"}]})", "schema.oneOf"},
      {R"({"anyOf": [{"type": "null"}, {"not": {}}]})", "schema.anyOf[1].not"},
      {R"({"anyOf": [], "type": "null"})", "schema.type"},
      {R"({"anyOf": []})", "schema.anyOf"},
      {R"({"type": "text"})", "schema.type"},
      {R"({"type": []})", "schema.type"},
      {R"({"type": "string", "items": {}})", "schema.items"},
      {R"({"type": "string", "enum": [1]})", "schema.enum"},
      {R"({"enum": []})", "schema.enum"},
      {R"({"const": 123456789012345678901234567890})", "schema.const"},
      {R"({"enum": [1, [-9007199254740993.0]]})", "schema.enum"},
      {R"({"enum": [1], "minItems": 1})", "schema.minItems"},
      {R"({"type": "array", "items": [{}]})", "schema.items"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "schema.maxItems"},
      {R"({"type": "array", "minItems": -1})", "schema.minItems"},
      {R"({"type": "object", "required": ["a"]})", "schema.required"},
      {R"({"properties": {"a": {}}, "required": ["b"]})", "schema.required"},
      {R"({"properties": {"a": {}}, "additionalProperties": true})", "schema.additionalProperties"},
      {R"({"properties": {"a": false}})", "schema.properties.a"},
      {R"({"properties": []})", "schema.properties"},
      {R"({"$ref": "https://example.org/a"})", "schema.$ref"},
      {R"({"$ref": "#/$defs/a"})", "schema.$ref"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"format": "date"}}})", "schema.$defs.a.format"},
      {R"({"$ref": "#"})", "schema"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "schema"},
      {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "schema"}};
  for (const Case& one : cases) {
    CAPTURE(one.schema);
    try {
      static_cast<void>(json_schema_grammar(std::string_view(one.schema), "schema"));
      FAIL_CHECK("accepted");
    } catch (const SchemaError& error) {
      CHECK(error.place == one.place);
    }
  }
  std::string large = R"({"type": "array", "items": {"properties": {)";
  for (int i = 0; i < 2000; ++i)
    large += (i == 0 ? "\"" : ",\"") + std::string(8, 'a') + std::to_string(i) + "\": {}";
  CHECK_THROWS_AS(json_schema_grammar(std::string_view(large + "}}}"), "schema"), SchemaError);
}

}  // namespace
}  // namespace tandem::exec::json_schema_test
