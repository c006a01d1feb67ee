// Requests of the API: what is understood, and that all else is refused by its name.

#include "serve/api_request.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace tandem::test::api_request_test {
namespace {

using serve::ApiError;
using serve::ApiRequest;

// The error of a body; fails the test if there is none.
ApiError error_of(const std::string& body, bool chat = true) {
  try {
    static_cast<void>(chat ? serve::parse_chat_request(body)
                           : serve::parse_completion_request(body));
  } catch (const ApiError& error) {
    return error;
  }
  FAIL("accepted: " << body);
  return {0, ""};
}

std::string chat_with(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) +
         "}";
}

TEST_CASE("serve/request: all parameters of a chat") {
  const ApiRequest request = serve::parse_chat_request(
      R"({"model": "m", "messages": [{"role": "developer", "content": "be brief"},)"
      R"( {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},)"
      R"( {"role": "assistant", "content": "c"}],)"
      R"( "max_completion_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": -3,)"
      R"( "stop": ["x", "yz"], "stream": true, "stream_options": {"include_usage": true},)"
      R"( "n": 3, "presence_penalty": -0.5, "frequency_penalty": 2, "repetition_penalty": 1.5,)"
      R"( "min_p": 0.25, "logprobs": false, "user": "u", "tools": null,)"
      R"( "response_format": {"type": "text"}})");
  CHECK(request.is_chat);
  REQUIRE(request.messages.size() == 3);
  CHECK(request.messages[0].role == "system");
  CHECK(request.messages[1].content == "ab");
  CHECK(request.messages[2].role == "assistant");
  CHECK(request.model == "m");
  CHECK(request.max_tokens == 7);
  CHECK(request.sampling.temperature == 0.5);
  CHECK(request.sampling.top_p == 0.9);
  CHECK(request.sampling.top_k == 40);
  CHECK(request.sampling.presence_penalty == -0.5);
  CHECK(request.sampling.frequency_penalty == 2.0);
  CHECK(request.sampling.repetition_penalty == 1.5);
  CHECK(request.sampling.min_p == 0.25);
  CHECK(request.choices == 3);
  CHECK(request.seed == static_cast<std::uint64_t>(-3));
  CHECK(request.stops == std::vector<std::string>{"x", "yz"});
  CHECK(request.streams);
  CHECK(request.includes_usage);
  const ApiRequest least = serve::parse_chat_request(chat_with(""));
  CHECK(least.sampling.temperature == 1.0);
  CHECK(least.sampling.top_p == 1.0);
  CHECK_FALSE(least.max_tokens);
  CHECK_FALSE(least.seed);
  CHECK_FALSE(least.streams);
}

TEST_CASE("serve/request: values that change nothing are accepted") {
  for (const char* const more :
       {R"("min_p": 0)", R"("min_p": 0.0)", R"("repetition_penalty": 1.0)", R"("top_k": 0)",
        R"("top_k": -1)", R"("store": false)", R"("parallel_tool_calls": true)",
        R"("top_logprobs": 0)", R"("stream": true, "stream_options": {})",
        R"("stream_options": {})", R"("tool_choice": "auto")", R"("tool_choice": "none")",
        R"("tools": [], "tool_choice": "auto")"}) {
    CAPTURE(more);
    const ApiRequest request = serve::parse_chat_request(chat_with(more));
    CHECK(request.sampling.top_k == 0);
    CHECK_FALSE(request.includes_usage);
  }
}

TEST_CASE("serve/request: a text completion's prompt is a text or its tokens") {
  CHECK(std::get<std::string>(serve::parse_completion_request(R"({"prompt": "a"})").prompt) == "a");
  CHECK(std::get<std::vector<std::int32_t>>(
            serve::parse_completion_request(R"({"prompt": [1, 2], "echo": false})").prompt) ==
        std::vector<std::int32_t>{1, 2});
  CHECK(serve::parse_completion_request(R"({"prompt": "a", "stop": "b"})").stops ==
        std::vector<std::string>{"b"});
  for (const char* const bad :
       {R"({"prompt": []})", R"({"prompt": ["a", "b"]})", R"({"prompt": [[1]]})",
        R"({"prompt": [-1]})", R"({"prompt": [1.5]})", R"({"prompt": [3000000000]})",
        R"({"prompt": 7})", R"({})", R"({"prompt": null})"})
    CHECK(error_of(bad, false).param == "prompt");
}

TEST_CASE("serve/request: log-probabilities of chats and of text completions") {
  const auto of_chat = [](const char* more) {
    return serve::parse_chat_request(chat_with(more)).logprobs;
  };
  CHECK_FALSE(of_chat(""));
  CHECK_FALSE(of_chat(R"("logprobs": false)"));
  CHECK(of_chat(R"("logprobs": true)") == 0U);
  CHECK(of_chat(R"("logprobs": true, "top_logprobs": 20)") == 20U);
  const auto of_text = [](const std::string& more) {
    return serve::parse_completion_request(R"({"prompt": "a")" + more + "}").logprobs;
  };
  CHECK_FALSE(of_text(""));
  CHECK_FALSE(of_text(R"(, "logprobs": null)"));
  CHECK(of_text(R"(, "logprobs": 0)") == 0U);
  CHECK(of_text(R"(, "logprobs": 5)") == 5U);
  for (const char* const bad :
       {R"({"prompt": "a", "logprobs": 6})", R"({"prompt": "a", "logprobs": true})",
        R"({"prompt": "a", "logprobs": 1, "top_logprobs": 2})"})
    CHECK(error_of(bad, false).status == 400);
}

TEST_CASE("serve/request: forms of answers, in the order of their schema") {
  const auto schema = [](const std::string& format) {
    return serve::parse_chat_request(chat_with(R"("response_format": )" + format)).schema;
  };
  CHECK_FALSE(schema("null"));
  CHECK_FALSE(schema(R"({"type": "text"})"));
  CHECK(schema(R"({"type": "json_object"})") == R"({"type":"object"})");
  CHECK(schema(R"({"type": "json_schema", "json_schema": {"name": "a", "description": "b", "strict":
                  true, "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}})") ==
        R"({"type":"object","properties":{"z":{},"a":{}}})");
}

TEST_CASE("serve/request: tools and their calls are passed on as templates take them") {
  const ApiRequest request = serve::parse_chat_request(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null,)"
      R"( "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments":)"
      R"( "{\"z\": 1, \"a\": [2]}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "d"},)"
      R"( {"role": "assistant", "content": "e", "tool_calls": null}],)"
      R"( "tools": [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": 2}}}]})");
  CHECK(request.tools.list ==
        R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
  REQUIRE(request.messages.size() == 4);
  CHECK(request.messages[0].fields.empty());
  CHECK(request.messages[1].content.empty());
  CHECK(request.messages[1].fields ==
        R"({"tool_calls":[{"id":"c","type":"function","function":{"name":"f",)"
        R"("arguments":{"z":1,"a":[2]}}}],"content":null})");
  CHECK(request.messages[2].role == "tool");
  CHECK(request.messages[2].fields == R"({"tool_call_id":"c"})");
  CHECK(request.messages[3].fields.empty());
  // A model that is to call none is given none.
  CHECK(serve::parse_chat_request(
            chat_with(R"("tools": [{"type": "function", "function": {"name": "f"}}],)"
                      R"( "tool_choice": "none")"))
            .tools.list.empty());
}

TEST_CASE("serve/request: what is unknown, unsupported or out of range is refused by name") {
  for (const auto& [more, param] : std::vector<std::pair<std::string, std::string>>{
           {R"("frobnicate": 1)", "frobnicate"},
           {R"("n": 0)", "n"},
           {R"("n": 129)", "n"},
           {R"("n": 2, "temperature": 0)", "n"},
           {R"("logprobs": 3)", "logprobs"},
           {R"("top_logprobs": 3)", "top_logprobs"},
           {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
           {R"("presence_penalty": 2.5)", "presence_penalty"},
           {R"("frequency_penalty": -3)", "frequency_penalty"},
           {R"("repetition_penalty": 0)", "repetition_penalty"},
           {R"("min_p": 1.5)", "min_p"},
           {R"("logit_bias": {"5": 1})", "logit_bias"},
           {R"("tools": 5)", "tools"},
           {R"("tools": [{"type": "web_search"}])", "tools[0].type"},
           {R"("tools": [{"type": "function"}])", "tools[0].function"},
           {R"("tools": [{"type": "function", "function": {}}])", "tools[0].function.name"},
           {R"("tools": [{"type": "function", "function": {"name": "a", "strict": true}}])",
            "tools[0].function.strict"},
           {R"("tools": [{"type": "function", "function": {"name": "a", "parameters": 5}}])",
            "tools[0].function.parameters"},
           {R"("tools": [{"type": "function", "function": {"name": "a"}}], "response_format":
               {"type": "json_object"})",
            "response_format"},
           {R"("tool_choice": {"type": "function", "function": {"name": "a"}})", "tool_choice"},
           {R"("tools": [{"type": "function", "function": {"name": "a b"}}])",
            "tools[0].function.name"},
           {R"("tools": [{"type": "function", "function": {"name": "a"}}], "tool_choice": "any")",
            "tool_choice"},
           {R"("tools": [{"type": "function", "function": {"name": "a"}}], "tool_choice":
               {"type": "function", "function": {"name": "b"}})",
            "tool_choice.function.name"},
           {R"("response_format": 5)", "response_format"},
           {R"("response_format": "json_object")", "response_format"},
           {R"("response_format": {"type": "xml"})", "response_format.type"},
           {R"("response_format": {"type": "text", "schema": {}})", "response_format.schema"},
           {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
           {R"("response_format": {"type": "json_schema", "json_schema": {"name": "a"}})",
            "response_format.json_schema.schema"},
           {R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})",
            "response_format.json_schema.name"},
           {R"("response_format": {"type": "json_schema", "json_schema":
               {"name": "a", "schema": {}, "strict": 1}})",
            "response_format.json_schema.strict"},
           {R"("prompt": "x")", "prompt"},
           {R"("temperature": -1)", "temperature"},
           {R"("temperature": "hot")", "temperature"},
           {R"("top_p": 0)", "top_p"},
           {R"("top_p": 1.5)", "top_p"},
           {R"("top_k": -2)", "top_k"},
           {R"("store": true)", "store"},
           {R"("parallel_tool_calls": false)", "parallel_tool_calls"},
           {R"("tool_choice": "required")", "tool_choice"},
           {R"("seed": 1.5)", "seed"},
           {R"("seed": 18446744073709551615)", "seed"},
           {R"("max_tokens": 0)", "max_tokens"},
           {R"("max_tokens": 1e3)", "max_tokens"},
           {R"("max_tokens": 3, "max_completion_tokens": 4)", "max_tokens"},
           {R"("stop": ["a", "b", "c", "d", "e"])", "stop"},
           {R"("stop": "")", "stop"},
           {R"("stop": 5)", "stop"},
           {R"("stream": 1)", "stream"},
           {R"("stream_options": {"include_usage": true})", "stream_options"},
           {R"("stream": true, "stream_options": {"other": true})", "stream_options"},
           {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options"},
           {R"("stream": true, "stream_options": 5)", "stream_options"},
           {R"("stream": true, "stream_options": [])", "stream_options"},
           {R"("stream_options": 5)", "stream_options"},
           {R"("user": 5)", "user"},
           {R"("model": 5)", "model"}}) {
    CAPTURE(more);
    const ApiError error = error_of(chat_with(more));
    CHECK(error.status == 400);
    CHECK(error.param == param);
    CHECK(std::string(error.what()).find("'" + param + "'") == 0);
  }
  for (const auto& [messages, param] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "messages"},
           {"5", "messages"},
           {"null", "messages"},
           {R"([5])", "messages[0]"},
           {R"([{"role": "function", "content": "a"}])", "messages[0].role"},
           {R"([{"role": "tool", "content": "a"}])", "messages[0].tool_call_id"},
           {R"([{"role": "user", "content": "a", "tool_call_id": "b"}])",
            "messages[0].tool_call_id"},
           {R"([{"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function":
                {"name": "f", "arguments": "[1]"}}]}])",
            "messages[0].tool_calls[0].function.arguments"},
           {R"([{"role": "assistant", "tool_calls": [{"type": "function", "function":
                {"name": "f", "arguments": "{}"}}]}])",
            "messages[0].tool_calls[0].id"},
           {R"([{"content": "a"}])", "messages[0].role"},
           {R"([{"role": "user"}])", "messages[0].content"},
           {R"([{"role": "user", "content": 5}])", "messages[0].content"},
           {R"([{"role": "user", "content": [{"type": "image_url"}]}])", "messages[0].content"},
           {R"([{"role": "user", "content": "a", "name": "b"}])", "messages[0].name"},
           {R"([{"role": "assistant", "content": "a", "tool_calls": []}])",
            "messages[0].tool_calls"}}) {
    CAPTURE(messages);
    CHECK(error_of(R"({"messages": )" + messages + "}").param == param);
  }
  for (const char* const bad :
       {"", "x", "[]", "5", "{", R"({"a": 1, "a": 2})", "{\"messages\": \"\xff\"}"})
    CHECK(error_of(bad).status == 400);
  std::string deep = R"({"messages": )" + std::string(100'000, '[');
  CHECK(error_of(deep).status == 400);
}

// Nothing but an ApiError comes of what is nearly a request.
TEST_CASE("serve/request: mutated requests are understood or refused") {
  const std::string good =
      chat_with(R"("max_tokens": 7, "temperature": 0.5, "stop": ["x"], "stream": true, "seed": 1)");
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = good;
    for (int k = 1 + i % 4; k > 0; --k) {
      const std::size_t at = random() % body.size();
      switch (random() % 3) {
        case 0:
          body[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          body.erase(at, 1 + random() % 5);
          break;
        default:
          body.insert(at, body.substr(random() % body.size(), 1 + random() % 9));
          break;
      }
      if (body.empty()) body = "{";
    }
    try {
      static_cast<void>(serve::parse_chat_request(body));
    } catch (const ApiError& error) {
      ++refused;
      CHECK(error.status == 400);
    }
  }
  CHECK(refused > 10'000);
}

}  // namespace
}  // namespace tandem::test::api_request_test
