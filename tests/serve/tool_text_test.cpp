// Calls of tools in the text of an answer, whatever the pieces that it comes in.

#include "serve/tool_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tandem::test::tool_text_test {
namespace {

using nlohmann::json;
using serve::ToolForm;
using serve::ToolPiece;
using serve::ToolText;

const ToolForm& form_named(std::string_view name) {
  return *std::ranges::find(serve::tool_forms(), name, &ToolForm::name);
}

struct Found {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;  // names and arguments
  std::vector<std::string> ids;
  bool operator==(const Found& other) const { return text == other.text && calls == other.calls; }
};

Found found_in(const std::vector<std::string>& pieces, std::string_view form,
               bool is_required = false) {
  ToolText tools({.form = &form_named(form),
                  .tools = {"now", "room_of"},
                  .is_required = is_required,
                  .seed = 7});
  Found all;
  const auto take = [&](const ToolPiece& piece) {
    all.text += piece.text;
    for (const serve::ToolCall& call : piece.calls) {
      all.calls.emplace_back(call.name, call.arguments);
      all.ids.push_back(call.id);
    }
  };
  for (const std::string& piece : pieces) take(tools.push(piece));
  take(tools.finish());
  CHECK(tools.has_calls() == !all.calls.empty());
  return all;
}

struct Case {
  std::string form;
  std::string answer;
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;
  bool is_required = false;
};

std::vector<Case> cases() {
  const std::pair<std::string, std::string> now{"now", "{}"};
  const std::pair<std::string, std::string> room{"room_of", R"({"lamp": "r}]\"ed", "n": 1.50})"};
  const std::string hermes_room =
      R"(<tool_call>
{"name": "room_of", "arguments": {"lamp": "r}]\"ed", "n": 1.50}}
</tool_call>)";
  const std::string hermes_now = R"(<tool_call>{"arguments": {}, "name": "now"}</tool_call>)";
  return {
      {"hermes", "no calls <tool", "no calls <tool", {}},
      {"hermes", hermes_room, "", {room}},
      {"hermes", "I look.\n" + hermes_room + "\n" + hermes_now, "I look.\n", {room, now}},
      {"hermes", hermes_now + "\n then this", "then this", {now}},
      // The closing is missing, or cut.
      {"hermes", R"(<tool_call>{"name": "now", "arguments": {}})", "", {now}},
      {"hermes", R"(<tool_call>{"name": "now", "arguments": {}}</tool)", "", {now}},
      // No calls: an unknown tool, no arguments, no JSON, cut, nothing.
      {"hermes",
       R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
       R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
       {}},
      {"hermes",
       R"(<tool_call>{"name": "now"}</tool_call>)",
       R"(<tool_call>{"name": "now"}</tool_call>)",
       {}},
      {"hermes", "<tool_call>{'name'}</tool_call> x", "<tool_call>{'name'}</tool_call> x", {}},
      {"hermes", "<tool_call> x " + hermes_now, "<tool_call> x ", {now}},
      {"hermes", R"(a <tool_call>{"name": "now", )", R"(a <tool_call>{"name": "now", )", {}},
      {"hermes", "<tool_call>\n", "<tool_call>\n", {}},
      {"hermes", R"({"name": "now", "arguments": {}})", "", {now}, true},
      {"hermes", R"({"name": "now", "argu)", R"({"name": "now", "argu)", {}, true},
      {"llama", R"( {"name": "now", "parameters": {}})", "", {now}},
      {"llama",
       R"({"name": "room_of", "parameters": {"lamp": "r}]\"ed", "n": 1.50}} ; )"
       R"({"name": "now", "parameters": {}})",
       "",
       {room, now}},
      {"llama",
       R"(So: {"name": "now", "parameters": {}})",
       R"(So: {"name": "now", "parameters": {}})",
       {}},
      {"llama", R"({"name": "now", "arguments": {}})", R"({"name": "now", "arguments": {}})", {}},
      {"llama", R"({"a": 1} and {"b": 2})", R"({"a": 1} and {"b": 2})", {}},
      {"llama", R"({"name": "now", "parameters": {}} done)", "done", {now}},
      {"llama", "  \n", "  \n", {}},
      {"mistral",
       R"([TOOL_CALLS] [{"name": "room_of", "arguments": {"lamp": "r}]\"ed", "n": 1.50}, "id": "a"},)"
       R"({"name": "now", "arguments": {}}])",
       "",
       {room, now}},
      {"mistral", R"(Well [TOOL_CALLS][{"name": "now", "arguments": {}}])", "Well ", {now}},
      {"mistral",
       R"([TOOL_CALLS] [{"name": "now", "arguments": {}}, {"name": "rm"}] x)",
       R"([TOOL_CALLS] [{"name": "now", "arguments": {}}, {"name": "rm"}] x)",
       {}},
      {"mistral", "[TOOL_CALLS] []", "[TOOL_CALLS] []", {}},
      {"mistral", R"([TOOL_CALLS] [{"name":"now","arguments":5,"arg\u0075ments":{}}])", "", {now}},
      {"mistral", R"( [{"name": "now", "arguments": {}}])", "", {now}, true},
  };
}

TEST_CASE("serve/tools: a call deeper than any request is text") {
  constexpr std::size_t kDepth = 100'000;
  const std::string answer = R"([TOOL_CALLS] [{"name":"now","arguments":{"a":)" +
                             std::string(kDepth, '[') + std::string(kDepth, ']') + "}}]";
  const Found found = found_in({answer}, "mistral", false);
  CHECK(found.calls.empty());
  CHECK(found.text == answer);
}

TEST_CASE("serve/tools: calls of each form are found, what is none stays text") {
  for (const Case& one : cases()) {
    CAPTURE(one.answer);
    const Found found = found_in({one.answer}, one.form, one.is_required);
    CHECK(found.text == one.text);
    CHECK(found.calls == one.calls);
    for (const auto& [name, arguments] : found.calls) CHECK(json::parse(arguments).is_object());
    for (const std::string& id : found.ids) {
      CHECK(id.size() == 9);
      CHECK(std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c) != 0; }));
    }
    CHECK(std::set<std::string>(found.ids.begin(), found.ids.end()).size() == found.ids.size());
  }
}

TEST_CASE("serve/tools: any pieces of an answer give the same text and calls") {
  std::mt19937 random(5);
  for (const Case& one : cases()) {
    CAPTURE(one.answer);
    const Found whole = found_in({one.answer}, one.form, one.is_required);
    std::vector<std::string> bytes;
    for (const char byte : one.answer) bytes.emplace_back(1, byte);
    CHECK(found_in(bytes, one.form, one.is_required) == whole);
    for (int i = 0; i < 20; ++i) {
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < one.answer.size();) {
        const std::size_t bytes_more = 1 + random() % 9;
        pieces.push_back(one.answer.substr(at, bytes_more));
        at += bytes_more;
      }
      CHECK(found_in(pieces, one.form, one.is_required) == whole);
    }
  }
}

// Whatever a model writes: without calls nothing is lost, and nothing is thrown.
TEST_CASE("serve/tools: text of nearly calls is kept whole unless it has calls") {
  std::mt19937 random(11);
  const std::vector<std::string> words{"<tool_call>",
                                       "</tool_call>",
                                       "[TOOL_CALLS]",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       "\"",
                                       "\\",
                                       ":",
                                       ",",
                                       ";",
                                       " ",
                                       "\n",
                                       "name",
                                       R"("name":"now")",
                                       R"("arguments":{})",
                                       R"("parameters":{})",
                                       R"({"name":"now","arguments":{}})",
                                       "x"};
  int calls = 0;
  for (const ToolForm& form : serve::tool_forms()) {
    for (int i = 0; i < 3000; ++i) {
      std::string answer;
      std::vector<std::string> pieces;
      for (std::size_t k = random() % 12; k > 0; --k) {
        pieces.push_back(words[random() % words.size()]);
        answer += pieces.back();
      }
      CAPTURE(answer);
      const Found found = found_in(pieces, form.name, random() % 4 == 0);
      calls += static_cast<int>(found.calls.size());
      if (found.calls.empty()) CHECK(found.text == answer);
      CHECK(found.text.size() <= answer.size());
    }
  }
  CHECK(calls > 0);
}

}  // namespace
}  // namespace tandem::test::tool_text_test
