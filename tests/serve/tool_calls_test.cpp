// Calls of tools through the whole service, where one has to come, and through the writer of
// answers, where the model decides.

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/answer_writer.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/service_bench.hpp"

namespace tandem::test::tool_calls_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::Home;
using testing::HttpReplyText;
using testing::kChat;
using testing::post_text;
using testing::Serving;

// A template that shows tools and renders calls between `begin` and `end`, with `key`.
void write_template(const Home& home, const std::string& begin, const std::string& key,
                    const std::string& end) {
  std::ofstream(home.weights() / "chat_template.jinja")
      << "<s>{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}{{ m.role }}: "
         "{% if m.tool_calls %}"
      << begin << "{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"" << key
      << "\": {{ c.function.arguments | tojson }}}{% endfor %}" << end
      << "{% else %}{{ m.content }}{% endif %}\n{% endfor %}Answer:";
}

// Schemas whose texts end soon, whatever the model.
json tools() {
  return json::array(
      {{{"type", "function"},
        {"function",
         {{"name", "room_of"},
          {"parameters",
           {{"type", "object"},
            {"$defs", {{"lamp", {{"enum", {"red", "blue"}}}}}},
            {"properties", {{"lamp", {{"$ref", "#/$defs/lamp"}}}, {"lit", {{"type", "boolean"}}}}},
            {"required", {"lamp", "lit"}}}}}}},
       {{"type", "function"}, {"function", {{"name", "now"}, {"description", "the time"}}}}});
}

json chat_with(const json& choice, const json& more = json::object()) {
  json body{{"messages", json::array({{{"role", "user"}, {"content", "where is the lamp?"}}})},
            {"max_tokens", 100},
            {"temperature", 0},
            {"tools", tools()},
            {"tool_choice", choice}};
  body.update(more);
  return body;
}

json only(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

void check_call(const json& call) {
  CAPTURE(call.dump());
  CHECK(call["type"] == "function");
  CHECK(call["id"].get<std::string>().size() == 9);
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  if (call["function"]["name"] == "now") {
    CHECK(arguments == json::object());
    return;
  }
  CHECK(call["function"]["name"] == "room_of");
  CHECK(arguments.size() == 2);
  CHECK((arguments["lamp"] == "red" || arguments["lamp"] == "blue"));
  CHECK(arguments["lit"].is_boolean());
}

// The calls of choice `index` of a stream, and its text and reason.
struct StreamedCalls {
  json calls = json::array();
  std::string text;
  std::string reason;
};

StreamedCalls calls_of(const std::vector<std::string>& events, int index = 0) {
  StreamedCalls all;
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const json choice = json::parse(event)["choices"][0];
    if (choice["index"] != index) continue;
    const json delta = choice["delta"];
    all.text += delta.value("content", "");
    for (json call : delta.value("tool_calls", json::array())) {
      CHECK(call["index"] == all.calls.size());
      call.erase("index");
      all.calls.push_back(std::move(call));
    }
    if (!choice["finish_reason"].is_null()) all.reason = choice["finish_reason"];
  }
  return all;
}

TEST_CASE("serve/tools: a call that has to come conforms to its schema, in each form") {
  const Home home;
  for (const auto& [begin, key, end] :
       std::vector<std::array<std::string, 3>>{{"<tool_call>\n", "arguments", "\n</tool_call>"},
                                               {"", "parameters", ""},
                                               {"[TOOL_CALLS] [", "arguments", "]"}}) {
    CAPTURE(begin);
    write_template(home, begin, key, end);
    const Serving serving(home);
    const auto post = [&](const json& body) {
      return ask(serving.port(), post_text(kChat, body.dump()));
    };
    for (const json& choice : {json("required"), only("room_of"), only("now")}) {
      CAPTURE(choice.dump());
      const json answer = post(chat_with(choice)).json();
      REQUIRE(answer.contains("choices"));
      const json& given = answer["choices"][0];
      CHECK(given["finish_reason"] == "tool_calls");
      CHECK(given["message"]["content"].is_null());
      REQUIRE(given["message"]["tool_calls"].size() == 1);
      const json& call = given["message"]["tool_calls"][0];
      check_call(call);
      if (choice.is_object()) CHECK(call["function"]["name"] == choice["function"]["name"]);
      const StreamedCalls stream = calls_of(post(chat_with(choice, {{"stream", true}})).events());
      CHECK(stream.reason == "tool_calls");
      CHECK(stream.text.empty());
      REQUIRE(stream.calls.size() == 1);
      CHECK(stream.calls[0]["function"] == call["function"]);
    }
    // Several answers, random ones; what strict asks for holds.
    json strict = chat_with("required", {{"n", 3},
                                         {"temperature", 1.5},
                                         {"seed", 4},
                                         {"logprobs", true},
                                         {"parallel_tool_calls", false}});
    strict["tools"][0]["function"]["strict"] = true;
    const json several = post(strict).json();
    REQUIRE(several.contains("choices"));
    for (const json& choice : several["choices"]) {
      CHECK(choice["finish_reason"] == "tool_calls");
      check_call(choice["message"]["tool_calls"][0]);
    }
    strict["stream"] = true;
    const auto events = post(strict).events();
    for (int i = 0; i < 3; ++i) {
      const json& whole = several["choices"][static_cast<std::size_t>(i)]["message"]["tool_calls"];
      CHECK(calls_of(events, i).calls[0]["function"] == whole[0]["function"]);
    }
    // One that is cut is text.
    const json cut = post(chat_with("required", {{"max_tokens", 2}})).json();
    CHECK(cut["choices"][0]["finish_reason"] == "length");
    CHECK_FALSE(cut["choices"][0]["message"].contains("tool_calls"));
    CHECK_FALSE(cut["choices"][0]["message"]["content"].get<std::string>().empty());
    // The call and its result go back to the model.
    json next = chat_with("auto", {{"max_tokens", 3}});
    const json answer = post(chat_with("required")).json();
    next["messages"].push_back(answer["choices"][0]["message"]);
    next["messages"].push_back(
        {{"role", "tool"},
         {"tool_call_id", answer["choices"][0]["message"]["tool_calls"][0]["id"]},
         {"content", "attic"}});
    CHECK(post(next).status == 200);
  }
}

// Returns the parameter that the refusal of a chat names.
std::string refused_param(const Serving& serving, const json& body) {
  const HttpReplyText reply = ask(serving.port(), post_text(kChat, body.dump()));
  CHECK(reply.status == 400);
  return reply.json()["error"].value("param", "");
}

TEST_CASE("serve/tools: a call that cannot be made to come is refused by name") {
  const Home home;
  write_template(home, "<tool_call>\n", "arguments", "\n</tool_call>");
  {
    const Serving serving(home);
    const auto refused = [&](const json& body) { return refused_param(serving, body); };
    CHECK(refused(chat_with(only("other"))) == "tool_choice.function.name");
    CHECK(refused(chat_with("must")) == "tool_choice");
    CHECK(refused(chat_with("auto", {{"parallel_tool_calls", false}})) == "parallel_tool_calls");
    json body = chat_with("required");
    body["tools"][0]["function"]["parameters"]["properties"]["lit"] = {{"type", "string"},
                                                                       {"pattern", "^a"}};
    CHECK(refused(body) == "tools[0].function.parameters.properties.lit.pattern");
    // Another tool is not held to it.
    body["tool_choice"] = only("now");
    CHECK(ask(serving.port(), post_text(kChat, body.dump())).status == 200);
    body = chat_with("required");
    body["tools"][1]["function"]["parameters"] = {{"type", "array"}};
    CHECK(refused(body) == "tools[1].function.parameters.type");
    body = chat_with("required");
    body["tools"][1]["function"]["name"] = "room_of";
    CHECK(refused(body) == "tools[1].function.name");
    body["tools"][1]["function"]["name"] = "a b";
    CHECK(refused(body) == "tools[1].function.name");
    CHECK(refused(chat_with(only(""))) == "tool_choice.function.name");
    // Arguments that can be no object; without a type they are one.
    body = chat_with(only("now"));
    body["tools"][1]["function"]["parameters"] = {{"const", 5}};
    CHECK(refused(body) == "tools[1].function.parameters");
    body["tools"][1]["function"]["parameters"] = {{"title", "nothing"}};
    const json untyped = ask(serving.port(), post_text(kChat, body.dump())).json();
    REQUIRE(untyped.contains("choices"));
    CHECK(untyped["choices"][0]["finish_reason"] != "stop");  // as a number would
    // A property may have the name of a keyword.
    body["tools"][1]["function"]["parameters"] = {
        {"type", "object"},
        {"$defs", {{"hue", {{"enum", {"red", "blue"}}}}}},
        {"properties", {{"default", {{"$ref", "#/$defs/hue"}}}}},
        {"required", {"default"}}};
    CHECK(ask(serving.port(), post_text(kChat, body.dump())).status == 200);
  }
  write_template(home, "call:", "args", ";");
  const Serving serving(home);
  const HttpReplyText reply = ask(serving.port(), post_text(kChat, chat_with("required").dump()));
  CHECK(reply.status == 400);
  CHECK(reply.json()["error"]["param"] == "tool_choice");
  CHECK(reply.json()["error"]["message"].get<std::string>().find("hermes, llama, mistral") !=
        std::string::npos);
  CHECK(ask(serving.port(), post_text(kChat, chat_with("auto").dump())).status == 200);
}

TEST_CASE("serve/tools: what is deep or has thousands of members is refused, and harms nobody") {
  const Home home;
  write_template(home, "<tool_call>\n", "arguments", "\n</tool_call>");
  const Serving serving(home);
  constexpr std::size_t kDepth = 30'000;
  json body = chat_with("auto");
  body["messages"].push_back({{"role", "assistant"},
                              {"content", nullptr},
                              {"tool_calls",
                               {{{"id", "a"},
                                 {"type", "function"},
                                 {"function",
                                  {{"name", "now"},
                                   {"arguments", R"({"a":)" + std::string(kDepth, '[') +
                                                     std::string(kDepth, ']') + "}"}}}}}}});
  CHECK(refused_param(serving, body).ends_with("tool_calls[0].function.arguments"));
  body = chat_with("auto");
  json properties;
  for (int i = 0; i < 2000; ++i) properties["p" + std::to_string(i)] = json::object();
  body["tools"][1]["function"]["parameters"] = {{"type", "object"}, {"properties", properties}};
  CHECK(refused_param(serving, body) == "tools");
  body.erase("tools");
  body.erase("tool_choice");
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "x"}, {"schema", {{"type", "object"}, {"properties", properties}}}}}};
  CHECK(refused_param(serving, body) == "response_format");
  CHECK(ask(serving.port(), post_text(kChat, chat_with("auto").dump())).status == 200);
}

// What is sent, without a connection.
class KeptReply final : public serve::HttpReply {
 public:
  void send(serve::HttpAnswer answer) override { whole = json::parse(answer.body); }
  void begin_events() override {}
  void event(std::string_view data) override { events.emplace_back(data); }
  void end() override {}
  void fail() override {}
  void when_gone(std::function<void()> /*gone*/) override {}
  json whole;
  std::vector<std::string> events;
};

TEST_CASE("serve/tools: calls that a model makes by itself, whole and streamed") {
  const auto tokenizer = exec::byte_tokenizer(256);
  const std::string answer =
      "I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"room_of\", \"arguments\": {\"lamp\": \"<b>\"}}\n</tool_call>";
  for (const bool streams : {false, true}) {
    const auto reply = std::make_shared<KeptReply>();
    serve::AnswerWriter writer(
        {.head = {.id = "a", .model = "m", .is_chat = true},
         .prompt_tokens = 3,
         .streams = streams,
         .tools = {.form = serve::tool_forms().data(), .tools = {"now", "room_of"}}},
        *tokenizer, reply);
    writer.begin();
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const bool last = i + 1 == answer.size();
      writer.take(0, {.text = answer.substr(i, 1),
                      .is_last = last,
                      .tokens = static_cast<std::int64_t>(i) + 1});
    }
    const json choice = streams ? json() : reply->whole["choices"][0];
    const StreamedCalls stream = calls_of(reply->events);
    const json calls = streams ? stream.calls : choice["message"]["tool_calls"];
    REQUIRE(calls.size() == 2);
    CHECK(calls[0]["function"] == json{{"name", "now"}, {"arguments", "{}"}});
    CHECK(calls[1]["function"] == json{{"name", "room_of"}, {"arguments", "{\"lamp\": \"<b>\"}"}});
    CHECK((streams ? stream.text : choice["message"]["content"].get<std::string>()) == "I look.\n");
    CHECK((streams ? stream.reason : choice["finish_reason"].get<std::string>()) == "tool_calls");
  }
}

}  // namespace
}  // namespace tandem::test::tool_calls_test
