// Chat templates: what Jinja itself makes of them (tests/chat/vectors.json), and what is refused.

#include "exec/tokenizer/chat/chat_template.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::chat_template_test {
namespace {

using model::test::contains;
using model::test::error_of;
using Json = nlohmann::ordered_json;  // in which templates show fields

const ChatSettings kSettings{.bos_token = "<s>", .eos_token = "</s>", .date = "2026-11-23"};

std::string applied(const std::string& chat_template,
                    const std::vector<ChatMessage>& messages = {{"user", "Hi"}},
                    const std::string& tools = {}) {
  return apply_chat_template(chat_template, messages, kSettings, tools);
}

// A message of a vector: what is not a text, and what is beside role and content, are fields.
ChatMessage message_of(const Json& given) {
  ChatMessage message{.role = given["role"]};
  Json fields = given;
  fields.erase("role");
  if (given["content"].is_string()) {
    message.content = given["content"];
    fields.erase("content");
  }
  if (!fields.empty()) message.fields = fields.dump();
  return message;
}

// Bytes as tokens, between others.
TokenizerJson around_bytes(std::vector<std::int32_t> front, std::vector<std::int32_t> back) {
  TokenizerJson made;
  made.front = std::move(front);
  made.back = std::move(back);
  for (unsigned byte = 0; byte < 256; ++byte)
    made.vocab.emplace(to_utf8(letter_of(static_cast<unsigned char>(byte))),
                       static_cast<std::int32_t>(byte));
  made.steps.emplace_back();
  return made;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("exec/chat: templates make the texts that Jinja makes of them") {
  const Json vectors = Json::parse(std::ifstream(testing::in_sources("tests/chat/vectors.json")));
  int refused = 0;
  for (const Json& vector : vectors) {
    const auto chat_template = vector["template"].get<std::string>();
    std::vector<ChatMessage> messages;
    for (const Json& message : vector["messages"]) messages.push_back(message_of(message));
    const std::string tools = vector.contains("tools") ? vector["tools"].dump() : "";
    CAPTURE(chat_template);
    CAPTURE(messages.size());
    if (vector["text"].is_null()) {
      ++refused;
      CHECK(!error_of([&] { return applied(chat_template, messages, tools); }).empty());
    } else {
      CHECK(applied(chat_template, messages, tools) == vector["text"].get<std::string>());
    }
  }
  CHECK(vectors.size() >= 500);
  CHECK(refused >= 90);
}

TEST_CASE("exec/chat: long texts take time in proportion, or an error") {
  // Each compares texts that are alike for long, which naive search does in quadratic time.
  const std::string texts =
      "{% set x = 'a' * 8000000 %}{% set y = 'a' * 4000000 ~ 'b' %}{% set z = 'b' ~ 'a' * 4000000 "
      "%}";
  const struct {
    const char* use;
    const char* text;
  } cases[] = {{"{{ y in x }}", "False"},
               {"{{ x.find(y) }}", "-1"},
               {"{{ x.rfind(z) }}", "-1"},
               {"{{ x.count(y) }}", "0"},
               {"{{ x.split(y)|length }}", "1"},
               {"{{ x.rsplit(z)|length }}", "1"},
               {"{{ x.replace(y, '')|length }}", "8000000"},
               {"{{ x.partition(y)[1] }}", ""},
               {"{{ x.strip('a' * 9000000) }}", ""},
               {"{{ x.startswith(y) }}", "False"}};
  for (const auto& [use, text] : cases) {
    CAPTURE(use);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(applied(texts + use) == text);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes(5));
  }
  // Many of them are too much work.
  for (const char* const use : {"y in x", "x[5]", "x|upper", "x|wordcount", "x|list"}) {
    CAPTURE(use);
    CHECK(contains(error_of([&] {
                     return applied(texts + "{% for i in range(99999) %}{% set q = " + use +
                                    " %}{% endfor %}");
                   }),
                   "more work than"));
  }
}

TEST_CASE("exec/chat: a template has at most 1 MiB") {
  const std::string comment = "{#" + std::string((std::size_t{1} << 20U) - 5, 'a') + "#}";
  CHECK(applied(comment + "b") == "b");
  CHECK(contains(error_of([&] { return applied(comment + "bc"); }),
                 "1048577 bytes, expected at most 1 MiB"));
}

TEST_CASE("exec/chat: keys that hold one tuple many times over take an error") {
  // 2^60 elements in 61 tuples, each of which holds the one before it twice.
  const std::string tuples =
      "{% set ns = namespace(a=(1, 2), b=(1, 2)) %}{% for i in range(60) %}{% set ns.a = (ns.a, "
      "ns.a) "
      "%}{% set ns.b = (ns.b, ns.b) %}{% endfor %}";
  testing::Sampled taken(3);
  for (const char* const use :
       {"{{ {ns.a: 1, ns.b: 2} }}", "{{ {ns.a: 1}[ns.b] }}", "{{ {1: 2}.get(ns.a) }}",
        "{{ ns.a in {(1, 2): 2} }}", "{{ {1: 2}[ns.a] }}", "{{ [ns.a, ns.b]|unique|list }}",
        "{{ ns.a == ns.b }}", "{{ [ns.a, ns.b]|sort }}"}) {
    if (!taken()) continue;
    CAPTURE(use);
    CHECK(contains(error_of([&] { return applied(tuples + use); }), "more work than"));
  }
  CHECK(applied(tuples + "{{ ns.a is filter }}") == "False");
  // No key, so found in vain, whatever the keys are.
  for (const char* const index : {"namespace()", "range", "[1]", "{}", "({},)", "((1, {}), 2)",
                                  "range(2)", "(range(2), 2)"}) {
    CAPTURE(index);
    CHECK(applied("{{ {((1, 2), 2): 3}[" + std::string(index) + "] is defined }}") == "False");
  }
  CHECK(applied("{{ {'a': 1}[[1]] is defined }}{{ {(1, 'b'): 1}[(1, 'b')] }}") == "False1");
  CHECK(contains(error_of([] { return applied("{{ {((1, [2]), 3): 1} }}"); }), "a list as a key"));
}

TEST_CASE("exec/chat: what a template may not do, or we do not know, is named") {
  const struct {
    const char* text;
    const char* fault;
  } cases[] = {
      // No template of Jinja's. In UTF-16 none of its statements would be seen.
      {"\xff\xfe{", "no UTF-8"},
      {"{{ 'a\x80' }}", "no UTF-8"},
      {"a\n{% nothing %}", "line 2: statement 'nothing', expected if, for"},
      {"{% if x %}", "the end of the template, expected '{% endif %}'"},
      {"{% if x %}{% else %}{% elif y %}{% endif %}", "statement 'elif', expected if, for"},
      {"\n\n{{ 'x }}", "line 3: a text without its last '"},
      {"{{ 1", "'{{' without '}}'"},
      {"{{ (1] }}", "']', expected ')'"},
      {"{{ 1 ; 2 }}", "';', expected '}}'"},
      {"{{ 1 ? 2 }}", "'?', expected an expression"},
      {"{{ '\\x4' }}", "escape '\\x4', expected \\xHH"},
      {"{{ 08 }}", "'8', expected '}}'"},
      {"{{ x|nothing }}", "line 1: filter 'nothing': not known"},
      {"{{ x is strange }}", "line 1: test 'strange': not known"},
      {"{% break %}", "'break' outside of a loop"},
      {"{% for x in y %}{% set loop = 1 %}{% endfor %}", "'loop' is set within a loop"},
      // What we do not have, where it is reached.
      {"{% include 'x' %}", "line 1: the statement 'include' is not supported"},
      {"{% block x %}{% endblock %}", "the statement 'block' is not supported"},
      {"{% if true %}{{ 1|nothing }}{% endif %}",
       "filter 'nothing': not known, expected one of abs"},
      {"{{ 'x'|urlize }}", "filter 'urlize': not supported in chat templates here"},
      {"{{ 'x'.encode() }}", "the function 'encode' is called, which is not supported"},
      {"{{ [1].pop() }}", "the function 'pop' is called, which is not supported"},
      {"{{ lipsum() }}", "the function 'lipsum' is called, which is not supported"},
      {"{{ '\\ud83d' }}", "the escape \\ud83d of half a character"},
      {"{{ '\\N{DASH}' }}", "the escape \\N{name}"},
      {"{{ 99999999999999999999 }}", "the number 99999999999999999999 beyond 64 bits"},
      {"{{ 9223372036854775807 + 1 }}", "a whole number beyond 64 bits"},
      {"{{ 2 ** 64 }}", "a whole number beyond 64 bits"},
      {"{{ 1e30|int }}", "a whole number beyond 64 bits"},
      {"{{ 'a'.strip }}", "the function 'strip' is written, of which Python writes an address"},
      {"{{ [range] }}", "the function 'range' is written"},
      {"{{ [1]|map('string') }}", "what the filter 'map' generates is written"},
      {"{{ 'a'|safe + 'b' }}", "'+' of a text that the filter 'safe' or 'escape' made"},
      // Values that an operation does not take.
      {"{{ 'x'.nothing() }}", "what is undefined (a text has no 'nothing') is called"},
      {"{{ nothing() }}", "what is undefined ('nothing' is undefined) is called"},
      {"{{ raise_exception('no ' ~ 'way') }}", "the chat template refuses these messages: no way"},
      {"{{ x.y }}", "'y' of what is undefined ('x' is undefined)"},
      {"{{ 'x' + 1 }}", "a text + a whole number, expected two numbers"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{{ [1][::0] }}", "steps of 0"},
      {"{{ 1 < 'x' }}", "a whole number < a text, expected two numbers"},
      {"{{ {[1]: 2} }}", "a list as a key of a mapping"},
      {"{% set x.y = 1 %}", "'x.y' is set, expected a namespace() as 'x'"},
      {"{% set m = messages[0] %}{% set m.content = 'x' %}", "'m.content' is set, expected a"},
      {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "3 values for 2 names"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "macro 'm': 2 arguments, expected at most 1"},
      {"{{ '10'|int(0, 99) }}", "base 99, expected 0 or 2 to 36"},
      {"{{ 'a'|upper(1) }}", "1 arguments, expected at most 0"},
      {"{{ messages|tojson(other=1) }}", "'tojson': argument 'other' is not known"},
      {"{{ messages|join('a', d='b') }}", "'join': argument 'd' is given twice"},
      {"{{ 'a'.replace('b') }}", "'replace': argument 'new' is missing"},
      {"{{ strftime_now('%f') }}", "'strftime_now': %f"},
      // Without an end, or nearly.
      {"{% for i in range(999999999999) %}{% endfor %}", "more than 100000 numbers"},
      {"{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
       "more work than 4 million steps"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "more than 1000 levels"},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "more than 1000 levels"},
      {"{% set ns = namespace(x='xx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
       "{% endfor %}",
       "more than 16 MiB"},
      {"{{ 'x' * 999999999 }}", "more than 16 MiB"},
      {"{{ '%999999999d' % 1 }}", "more than 16 MiB"},
      {"{{ '%.999999999f' % 1 }}", "more than 2000 digits"},
      {"{{ 'x'.center(999999999999) }}", "more than 16 MiB"},
      {"{{ [1]|batch(999999999, 0)|list }}", "more work than"},
      {"{{ [1] * 999999999999 }}", "more work than"},
      {"{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor "
       "%}",
       "more work than"},
      {"{% set n = namespace(l=[1]) %}{% for i in range(999) %}{% set n.l = [n.l] %}{% endfor %}",
       "100 lists in one another"},
      {"{% set n = namespace(l=[1]) %}{% for i in range(999) %}{% set n.l = n.l|select %}{% endfor "
       "%}",
       "100 lists in one another"},
      {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", "more than 120 levels"},
      {"{% set x = 'x' * 9999999 %}{% for i in range(9999) %}{% set y = x ~ 'y' %}{% endfor %}",
       "more work than"},
      {"{{ ('x' * 9999) | replace('x', 'y' * 9999) }}", "more than 16 MiB"},
      {"{{ ('x' * 9999) | list | join('y' * 9999) }}", "more than 16 MiB"},
      {"{{ (\"\\n\" * 99999) | indent(999, blank=true) }}", "more than 16 MiB"},
      {"{{ [1] | tojson(indent=99999999) }}", "more than 16 MiB"},
  };
  for (const auto& [text, fault] : cases) {
    CAPTURE(text);
    const std::string message = error_of([text = text] { return applied(text); });
    CAPTURE(message);
    CHECK(contains(message, fault));
  }
  for (const char* const open :
       {"(", "[", "{1: ", "not ", "- ", "x if ", "1 + ", "x|upper|", "x."}) {
    CAPTURE(open);
    CHECK(contains(error_of([&] { return applied("{{ " + repeated(open, 100'000) + "x }}"); }),
                   "line 1"));
  }
  CHECK(contains(error_of([] { return applied("{{ f(" + repeated("1, ", 100'000) + ") }}"); }),
                 "at most 1000 arguments"));
  // A member that is looked for among many.
  std::string members = "{% set n = namespace() %}";
  for (int i = 0; i < 20'000; ++i) members += "{% set n.a" + std::to_string(i) + " = 1 %}";
  CHECK(contains(error_of([&] {
                   return applied(members + "{% for i in range(99999) %}{{ n.z }}{% endfor %}");
                 }),
                 "more work than"));
  CHECK(contains(error_of([] { return applied(repeated("{% if true %}", 50'000)); }),
                 "less deeply nested statements"));
}

TEST_CASE("exec/chat: tools are shown by the template, or refused") {
  const auto tokenizer = byte_tokenizer(300, 257);
  const std::string tools = R"([{"type": "function", "function": {"name": "now"}}])";
  const std::vector<ChatMessage> asks{{"user", "a"}};
  const std::vector<ChatMessage> calls{
      {"user", "a"}, {"assistant", "", R"({"content": null, "tool_calls": [{"id": "c"}]})"}};
  const std::vector<ChatMessage> answers{{"user", "a"}, {"tool", "b", R"({"tool_call_id": "c"})"}};
  const auto refusal = [&](const char* text, const std::vector<ChatMessage>& messages,
                           const std::string& given = {}) {
    return error_of([&] {
      return encode_chat({.chat_template = text, .settings = {}}, *tokenizer, messages, given);
    });
  };
  constexpr const char* kPlain =
      "{% for m in messages if m.role != 'tool' %}{{ m.role }}{{ m.content or '' }}{% endfor %}";
  constexpr const char* kShows =
      "{{ tools|tojson }}{% for m in messages %}{{ m.content }}{{ (m.tool_calls or [])|tojson }}{% "
      "endfor %}";
  CHECK(contains(refusal(kPlain, asks, tools), "template does not show tools, expected"));
  CHECK(contains(refusal(kPlain, calls), "template does not show calls of tools, expected"));
  CHECK(contains(refusal(kPlain, answers), "template does not show results of tools, expected"));
  CHECK(refusal(kPlain, asks).empty());
  CHECK(refusal(kShows, asks, tools).empty());
  CHECK(refusal(kShows, calls, tools).empty());
  CHECK(refusal(kShows, answers).empty());
  // Special tokens in tools and calls are text, as in messages.
  TokenizerJson named = around_bytes({}, {});
  named.added.push_back({.text = "<s>", .id = 256, .special = true});
  const auto special = byte_level_tokenizer(std::move(named), "tokenizer.json", {}, 300);
  const auto ids =
      encode_chat({.chat_template = std::string("<s>") + kShows, .settings = {}}, *special,
                  {{"user", "<s>", R"({"tool_calls": ["<s>"]})"}}, R"([{"<s>": "<s>"}])");
  CHECK(std::ranges::count(ids, 256) == 1);
  CHECK(decode(*special, ids) == R"([{"<s>": "<s>"}]<s>["<s>"])");
}

TEST_CASE("exec/chat: a template adds what it says and nothing else") {
  const testing::TemporaryFolder folder;
  const auto tokenizer = byte_tokenizer(300, 257);
  ModelChat chat{.chat_template = "{{ messages[0].content }}!", .settings = {}};
  CHECK(encode_chat(chat, *tokenizer, {{"user", "ab"}}) ==
        std::vector<std::int32_t>{'a', 'b', '!'});
  // Several tokens in front of every text, and one behind it.
  const auto two = byte_level_tokenizer(around_bytes({256, 257}, {258}), "tokenizer.json", {}, 300);
  REQUIRE(two->encode("a") == std::vector<std::int32_t>{256, 257, 'a', 258});
  CHECK(encode_chat(chat, *two, {{"user", "ab"}}) == std::vector<std::int32_t>{'a', 'b', '!'});
  // The template decides on the beginning of the sequence: as often as it writes it.
  TokenizerJson named = around_bytes({256}, {258});
  named.added.push_back({.text = "<s>", .id = 256, .special = true});
  const auto with_bos = byte_level_tokenizer(std::move(named), "tokenizer.json", {}, 300);
  REQUIRE(with_bos->encode("<s>a") == std::vector<std::int32_t>{256, 256, 'a', 258});
  chat.settings.bos_token = "<s>";
  for (const auto& [text, ids] : std::vector<std::pair<const char*, std::vector<std::int32_t>>>{
           {"{{ bos_token }}{{ messages[0].content }}", {256, 'a', 'b'}},
           {"<s>{{ messages[0].content }}", {256, 'a', 'b'}},
           {"{{ messages[0].content }}", {'a', 'b'}},
           {"{{ bos_token }}{{ messages[0].content }}{{ bos_token }}", {256, 'a', 'b', 256}}}) {
    CAPTURE(text);
    chat.chat_template = text;
    CHECK(encode_chat(chat, *with_bos, {{"user", "ab"}}) == ids);
  }
  // What a user writes is text, whole, cut or twice.
  chat.chat_template = "<s>{{ messages[0].content | trim }}<s>";
  CHECK(encode_chat(chat, *with_bos, {{"user", " <s><s "}}) ==
        std::vector<std::int32_t>{256, '<', 's', '>', '<', 's', 256});
  CHECK(encode_chat(chat, *with_bos, {{"user", "<\xEF\xB7\x90s>"}}) ==
        std::vector<std::int32_t>{256, '<', 's', '>', 256});
  chat.chat_template.clear();
  CHECK(contains(error_of([&] {
                   return encode_chat(chat, *tokenizer, {{"user", "a"}});
                 }),
                 "the model has no chat template, expected one in tokenizer_config.json"));
  // Where it comes from.
  CHECK(read_model_chat(folder.path()).chat_template.empty());
  std::ofstream(folder.path() / "tokenizer_config.json")
      << R"({"bos_token": "<b>", "chat_template": [{"name": "tool_use", "template": "T"},
                                                   {"name": "default", "template": "D"}]})";
  CHECK(read_model_chat(folder.path()).chat_template == "D");
  CHECK(read_model_chat(folder.path()).settings.bos_token == "<b>");
  std::ofstream(folder.path() / "chat_template.jinja") << "J";
  CHECK(read_model_chat(folder.path()).chat_template == "J");
}

}  // namespace tandem::exec::chat_template_test
