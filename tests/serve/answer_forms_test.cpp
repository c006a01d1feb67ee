// Answers of a given form, and tools, through the whole service.

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/serve/http_client.hpp"
#include "tests/serve/service_bench.hpp"

namespace tandem::test::answer_forms_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::Home;
using testing::HttpReplyText;
using testing::kChat;
using testing::post_text;
using testing::Serving;
using testing::streamed;

json chat_of(const json& format, const json& more = json::object()) {
  json body{{"messages", json::array({{{"role", "user"}, {"content", "where is the lamp?"}}})},
            {"max_tokens", 100},
            {"temperature", 0},
            {"response_format", format}};
  body.update(more);
  return body;
}

// Ends soon, whatever the model.
json lamp_schema() {
  return {{"type", "object"},
          {"properties",
           {{"room", {{"enum", {"hall", "attic"}}}},
            {"lit", {{"type", "boolean"}}},
            {"count", {{"type", "array"}, {"items", {{"const", 1}}}, {"maxItems", 2}}}}},
          {"required", {"room", "lit", "count"}}};
}

json schema_format(const json& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "lamp"}, {"schema", schema}}}};
}

void check_lamp(const std::string& text) {
  CAPTURE(text);
  const json answer = json::parse(text);
  CHECK(answer.size() == 3);
  CHECK((answer["room"] == "hall" || answer["room"] == "attic"));
  CHECK(answer["lit"].is_boolean());
  CHECK(answer["count"].size() <= 2);
}

TEST_CASE("serve/api: answers have the form that is asked for, whole, streamed and several") {
  const Home home;
  const Serving serving(home);
  const auto post = [&](const json& body) {
    return ask(serving.port(), post_text(kChat, body.dump()));
  };
  const json format = schema_format(lamp_schema());
  const json greedy = post(chat_of(format)).json();
  CHECK(greedy["choices"][0]["finish_reason"] == "stop");
  check_lamp(greedy["choices"][0]["message"]["content"]);
  const auto stream = streamed(post(chat_of(format, {{"stream", true}})));
  CHECK(stream.text == greedy["choices"][0]["message"]["content"]);
  CHECK(stream.reason == "stop");
  for (const json& more :
       {json{{"temperature", 1.5}, {"n", 4}, {"seed", 3}}, json{{"temperature", 2}, {"top_k", 5}},
        json{{"temperature", 2}, {"top_p", 0.9}}, json{{"repetition_penalty", 2}},
        json{{"logprobs", true}, {"top_logprobs", 2}}}) {
    const json answer = post(chat_of(format, more)).json();
    REQUIRE(answer.contains("choices"));
    for (const json& choice : answer["choices"]) {
      CHECK(choice["finish_reason"] == "stop");
      check_lamp(choice["message"]["content"]);
    }
  }
  // Others at the same time, without a form, are as before.
  json plain = chat_of({{"type", "text"}}, {{"max_tokens", 5}});
  CHECK(post(plain).json()["choices"][0]["message"]["content"].get<std::string>().find('{') ==
        std::string::npos);
  const json cut = post(chat_of(format, {{"max_tokens", 3}})).json();
  CHECK(cut["choices"][0]["finish_reason"] == "length");
  CHECK(cut["usage"]["completion_tokens"] == 3);
  const json object = post(chat_of({{"type", "json_object"}}, {{"max_tokens", 300}})).json();
  const std::string text = object["choices"][0]["message"]["content"];
  CHECK(text.find_first_not_of(" \n\t") == text.find('{'));
  if (object["choices"][0]["finish_reason"] == "stop") CHECK(json::accept(text));
}

TEST_CASE("serve/api: a schema that is not supported is refused by its keyword") {
  const Home home;
  const Serving serving(home);
  json schema = lamp_schema();
  schema["properties"]["room"] = {{"type", "string"}, {"pattern", "^a"}};
  const HttpReplyText reply =
      ask(serving.port(), post_text(kChat, chat_of(schema_format(schema)).dump()));
  CHECK(reply.status == 400);
  const json error = reply.json()["error"];
  CHECK(error["param"] == "response_format.json_schema.schema.properties.room.pattern");
  CHECK(error["message"].get<std::string>().find("not supported, expected type, ") !=
        std::string::npos);
  const HttpReplyText embeddings =
      ask(serving.port(), post_text("/v1/embeddings", R"({"input": "a", "model": "tiny"})"));
  CHECK(embeddings.status == 400);
  CHECK(embeddings.json()["error"]["param"] == "model");
}

TEST_CASE("serve/api: tools are given to a template that shows them, and else refused") {
  const Home home;
  json body = chat_of({{"type", "text"}}, {{"max_tokens", 1}});
  body["tools"] = {
      {{"type", "function"}, {"function", {{"name", "room_of"}, {"description", "finds a lamp"}}}}};
  {
    const Serving serving(home);
    const HttpReplyText reply = ask(serving.port(), post_text(kChat, body.dump()));
    CHECK(reply.status == 400);
    CHECK(reply.json()["error"]["message"].get<std::string>().find("does not show tools") !=
          std::string::npos);
    body["tool_choice"] = "none";
    CHECK(ask(serving.port(), post_text(kChat, body.dump())).status == 200);
    body.erase("tool_choice");
  }
  std::ofstream(home.weights() / "chat_template.jinja")
      << "<s>{% if tools %}{{ tools[0].function.name }}: {{ tools[0].function.description }}\n"
         "{% endif %}{% for m in messages %}{{ m.role }}: {% for c in m.tool_calls or [] %}"
         "{{ c.function.arguments.lamp }}{% endfor %}{{ m.content }}\n{% endfor %}Answer:";
  const Serving serving(home);
  // Without the <s> that the tokenizer writes; the template writes one.
  const auto tokens = [&](const std::string& text) {
    return home.tokenizer->encode("<s>" + text).size() - 1;
  };
  const json answer = ask(serving.port(), post_text(kChat, body.dump())).json();
  CHECK(answer["usage"]["prompt_tokens"] ==
        tokens("room_of: finds a lamp\nuser: where is the lamp?\nAnswer:"));
  body["messages"].push_back(
      {{"role", "assistant"},
       {"content", ""},
       {"tool_calls",
        {{{"id", "c"},
          {"type", "function"},
          {"function", {{"name", "room_of"}, {"arguments", R"({"lamp": "red"})"}}}}}}});
  body["messages"].push_back({{"role", "tool"}, {"content", "attic"}, {"tool_call_id", "c"}});
  const json second = ask(serving.port(), post_text(kChat, body.dump())).json();
  CHECK(second["usage"]["prompt_tokens"] ==
        tokens("room_of: finds a lamp\nuser: where is the lamp?\nassistant: red\ntool: attic\n"
               "Answer:"));
}

}  // namespace
}  // namespace tandem::test::answer_forms_test
