// Chat templates: what Jinja itself makes of them (tests/chat/vectors.json), and what is refused.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "exec/tokenizer/chat/chat_template.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "source_tree.hpp"
#include "tests/model_fixtures.hpp"
#include "tests/weights_support.hpp"

namespace tandem::exec::exec_chat_test {
namespace {

using model::test::contains;
using model::test::error_of;
using Json = nlohmann::json;

const ChatSettings kSettings{.bos_token = "<s>", .eos_token = "</s>", .date = "2026-11-23"};

std::string applied(const std::string& chat_template,
                    const std::vector<ChatMessage>& messages = {{"user", "Hi"}}) {
  return apply_chat_template(chat_template, messages, kSettings);
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
    for (const Json& message : vector["messages"])
      messages.push_back({message["role"], message["content"]});
    CAPTURE(chat_template);
    CAPTURE(messages.size());
    if (vector["text"].is_null()) {
      ++refused;
      CHECK(!error_of([&] { return applied(chat_template, messages); }).empty());
    } else {
      CHECK(applied(chat_template, messages) == vector["text"].get<std::string>());
    }
  }
  CHECK(vectors.size() >= 100);
  CHECK(refused >= 30);
}

TEST_CASE("exec/chat: what a template may not do, or we do not know, is named") {
  const struct {
    const char* text;
    const char* fault;
  } cases[] = {
      {"a\n{% include 'x' %}", "line 2: statement 'include', expected if, for"},
      {"{{ x|nothing }}", "filter 'nothing': not known, expected one of abs"},
      {"{{ x is strange }}", "test 'strange': not known, expected one of boolean"},
      {"{{ 'x'.nothing() }}", "method 'nothing' of a text, expected strip"},
      {"{{ nothing() }}", "function 'nothing': not known"},
      {"{{ raise_exception('no ' ~ 'way') }}", "the chat template refuses these messages: no way"},
      {"{{ messages }}", "a list is written as it is, expected a text or a number"},
      {"{{ messages[0] }}", "a mapping is written as it is"},
      {"{{ x.y }}", "'y' of what is not defined"},
      {"{% if x %}", "its end, expected '{% endif %}'"},
      {"{% if x %}{% else %}{% elif y %}{% endif %}", "expected endif after else"},
      {"\n\n{{ 'x }}", "line 3: '{{' without '}}'"},
      {"{{ 'x' + 1 }}", "a text + a number, expected two numbers"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{{ [1][::0] }}", "steps of 0"},
      {"{{ 1 ; 2 }}", "';', expected an expression"},
      {"{{ '\\x41' }}", "escape '\\x'"},
      {"{% set x.y = 1 %}", "'x.y' is set, expected a namespace()"},
      {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "3 values for 2 names"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "macro 'm': 2 arguments, expected at most 1"},
      {"{{ 1 < 'x' }}", "a number and a text are compared"},
      // Without an end, or nearly.
      {"{% for i in range(999999999999) %}{% endfor %}", "a million steps"},
      {"{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
       "a million"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "macro 'm' calls itself without an end"},
      {"{% set ns = namespace(x='xx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
       "{% endfor %}",
       "more than 16 MiB"},
      {"{{ 'x' * 999999999 }}", "more than 16 MiB"},
      {"{{ 2 ** 99 }}", "beyond 2^53"},
      {"{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor "
       "%}",
       "more than 64 MiB"},
      {"{% set n = namespace(l=[1]) %}{% for i in range(999) %}{% set n.l = [n.l] %}{% endfor %}",
       "100 lists in one another"},
      {"{% set x = 'x' * 9999999 %}{% for i in range(9999) %}{% set y = x ~ 'y' %}{% endfor %}",
       "1 GiB of values"},
      {"{{ ('x' * 9999) | replace('x', 'y' * 9999) }}", "more than 16 MiB"},
      {"{{ ['x' * 9999999] * 2 }}", "a list * a number"},
      {"{{ ('x' * 9999) | list | join('y' * 9999) }}", "more than 16 MiB"},
      {"{{ (\"\\n\" * 99999) | indent(999, blank=true) }}", "more than 16 MiB"},
      {"{{ ('x' * 9999999) | list }}", "more than 4 MiB is taken apart"},
      // What would change the text unseen.
      {"{{ messages | tojson(separators=(',', ':')) }}", "'tojson': argument 'separators'"},
      {"{{ messages | tojson(sort_keys=true) }}", "'tojson': argument 'sort_keys'"},
      {"{{ messages | tojson(2) }}", "'tojson': 1 arguments, expected at most 0"},
      {"{{ '10' | int(0, 16) }}", "'int': 2 arguments, expected at most 1"},
      {"{{ 'aa'.find('a', 1) }}", "'find': 2 arguments, expected at most 1"},
      {"{{ 'aa'.startswith('a', 1) }}", "'startswith': 2 arguments"},
      {"{{ messages | map(attribute='role', other=1) | join }}", "'map': argument 'other'"},
      {"{{ dict(messages[0], a=1) | tojson }}", "dict: expected members by name"},
      {"{% set n = namespace(messages[0]) %}", "namespace(): expected members by name"},
      {"{% set n = namespace(x=1) %}{% set m = n %}{% set m.x = 2 %}{{ n.x }}",
       "namespace 'n' is handed on"},
      {"{% macro f(n) %}{% set n.x = 5 %}{% endmacro %}{% set n = namespace(x=1) %}{{ f(n) }}",
       "namespace 'n' is handed on"},
      {"{{ [namespace(x=1)] | length }}", "a namespace that is not set at once"},
      {"{% set m = messages[0] %}{% set m.content = 'x' %}", "'m.content' is set, expected a"},
      {"{{ {1: 'a'}[1] }}", "a number as a mapping's key, expected a text"},
      {"{{ 08 }}", "expected a number without zeros in front"},
      {"{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
       "macro 'm' in a loop or a macro"},
  };
  for (const auto& [text, fault] : cases) {
    CAPTURE(text);
    const std::string message = error_of([text = text] { return applied(text); });
    CAPTURE(message);
    CHECK(contains(message, fault));
  }
  for (const char* const open : {"(", "[", "not ", "- ", "x if "}) {
    CAPTURE(open);
    CHECK(contains(error_of([&] { return applied("{{ " + repeated(open, 100'000) + "}}"); }),
                   "line 1"));
  }
  CHECK(contains(error_of([] { return applied(repeated("{% if true %}", 100'000)); }),
                 "less deeply nested statements"));
}

TEST_CASE("exec/chat: a template adds what it says and nothing else") {
  const testing::TemporaryFolder folder;
  const auto tokenizer = byte_tokenizer(300, 257);
  ModelChat chat{.chat_template = "{{ messages[0].content }}!", .settings = {}};
  CHECK(encode_chat(chat, *tokenizer, {{"user", "ab"}}) ==
        std::vector<std::int32_t>{'a', 'b', '!'});
  // Several tokens in front of every text, and one behind it.
  TokenizerJson around;
  around.front = {256, 257};
  around.back = {258};
  for (unsigned byte = 0; byte < 256; ++byte)
    around.vocab.emplace(to_utf8(letter_of(static_cast<unsigned char>(byte))),
                         static_cast<std::int32_t>(byte));
  around.steps.emplace_back();
  const auto two = byte_level_tokenizer(std::move(around), "tokenizer.json", {}, 300);
  REQUIRE(two->encode("a") == std::vector<std::int32_t>{256, 257, 'a', 258});
  CHECK(encode_chat(chat, *two, {{"user", "ab"}}) == std::vector<std::int32_t>{'a', 'b', '!'});
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

}  // namespace tandem::exec::exec_chat_test
