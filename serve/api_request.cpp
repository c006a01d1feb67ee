#include "serve/api_request.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/grammar/token_grammars.hpp"
#include "serve/request_parameters.hpp"

namespace tandem::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;
constexpr std::size_t kMostStops = 4;
constexpr std::int64_t kMostChoices = 128;  // as OpenAI's
constexpr std::size_t kMostStopBytes = 256;

// A content is a text, or a list of parts that are texts.
std::string content_of(const std::string& where, const Given& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(where, shown(content) + ", expected a text or a list of parts of type 'text'");
  std::string text;
  for (const Given& part : content) {
    const bool is_text = part.is_object() && part.value("type", Given()) == "text" &&
                         part.size() == 2 && part.value("text", Given()).is_string();
    if (!is_text) refuse(where, shown(part) + ", expected parts of type 'text' only");
    text += part["text"].get<std::string>();
  }
  return text;
}

// A call of a tool as templates take it: its arguments, a text in the API, are an object.
Ordered call_of(const std::string& where, const Given& call) {
  expect_fields(where, call, {"id", "type", "function"});
  if (call.value("type", Given()) != "function")
    refuse(where + ".type", shown(call.value("type", Given())) + ", expected function");
  const Given function = call.value("function", Given());
  expect_fields(where + ".function", function, {"name", "arguments"});
  const std::string text = text_at(where + ".function", function, "arguments");
  const Ordered arguments = in_order(where + ".function.arguments", text);
  if (!arguments.is_object())
    refuse(where + ".function.arguments", shown(text) + ", expected an object of JSON in a text");
  return {{"id", text_at(where, call, "id")},
          {"type", "function"},
          {"function",
           {{"name", text_at(where + ".function", function, "name")}, {"arguments", arguments}}}};
}

// The fields of a message beside role and content, for ChatMessage::fields.
Ordered tool_fields_of(const std::string& where, const Given& message, const Given& role) {
  Ordered fields = Ordered::object();
  if (role == "tool") {
    fields["tool_call_id"] = text_at(where, message, "tool_call_id");
    if (!message.value("name", Given()).is_null()) fields["name"] = text_at(where, message, "name");
  }
  const Given calls = message.value("tool_calls", Given());
  if (calls.is_null()) return fields;
  if (!calls.is_array() || calls.empty())
    refuse(where + ".tool_calls", shown(calls) + ", expected a list of calls");
  fields["tool_calls"] = Ordered::array();
  for (const Given& call : calls)
    fields["tool_calls"].push_back(
        call_of(where + ".tool_calls[" + std::to_string(fields["tool_calls"].size()) + "]", call));
  if (message.value("content", Given()).is_null()) fields["content"] = nullptr;
  return fields;
}

exec::ChatMessage message_of(const std::string& where, const Given& message) {
  if (!message.is_object()) refuse(where, shown(message) + ", expected an object");
  const Given role = message.value("role", Given());
  if (role == "assistant") {
    expect_fields(where, message, {"role", "content", "tool_calls"});
  } else if (role == "tool") {
    expect_fields(where, message, {"role", "content", "tool_call_id", "name"});
  } else if (role == "system" || role == "developer" || role == "user") {
    expect_fields(where, message, {"role", "content"});
  } else {
    refuse(where + ".role", shown(role) + ", expected system, developer, user, assistant or tool");
  }
  const Ordered fields = tool_fields_of(where, message, role);
  const bool calls = fields.contains("content");  // null
  if (!calls && !message.contains("content")) refuse(where + ".content", "absent, expected a text");
  // What newer models call a developer's message is a system's.
  return {.role = role == "developer" ? "system" : role.get<std::string>(),
          .content = calls ? "" : content_of(where + ".content", message["content"]),
          .fields = fields.empty() ? "" : fields.dump()};
}

std::vector<exec::ChatMessage> messages_of(const Given& list) {
  if (!list.is_array() || list.empty() || list.size() > kMostMessages)
    refuse("messages", "expected a list of 1 to " + std::to_string(kMostMessages) + " messages");
  std::vector<exec::ChatMessage> messages;
  for (const Given& message : list)
    messages.push_back(message_of("messages[" + std::to_string(messages.size()) + "]", message));
  return messages;
}

std::variant<std::string, std::vector<std::int32_t>> prompt_of(const Given& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  std::vector<std::int32_t> ids;
  for (const Given& id : prompt.is_array() ? prompt : Given::array())
    ids.push_back(token_id_of("prompt", id,
                              "one text, or the token ids of one; several prompts are several "
                              "requests"));
  if (ids.empty()) refuse("prompt", shown(prompt) + ", expected a text or a list of token ids");
  return ids;
}

std::vector<std::string> stops_of(Parameters& parameters) {
  const Given* const given = parameters.find("stop");
  if (given == nullptr) return {};
  const Given list = given->is_array() ? *given : Given::array({*given});
  std::vector<std::string> stops;
  for (const Given& stop : list) {
    if (stops.size() == kMostStops) refuse("stop", "expected at most 4 texts");
    stops.push_back(parameters.text("stop", stop));
    if (stops.back().empty() || stops.back().size() > kMostStopBytes)
      refuse("stop", "a text of " + std::to_string(stops.back().size()) + " bytes, expected 1 to " +
                         std::to_string(kMostStopBytes));
  }
  return stops;
}

// What both kinds of requests have.
ApiRequest common(Parameters& parameters) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
  ApiRequest request;
  if (const Given* const model = parameters.find("model"))
    request.model = parameters.text("model", *model);
  request.max_tokens = parameters.integer("max_tokens", 1, kMostTokens);
  for (const planner::SamplingNumber& number : planner::sampling_numbers())
    parameters.read(number, request.sampling);
  // Of both 0 and -1 clients mean all.
  request.sampling.top_k = std::max<std::int64_t>(
      0, parameters.integer("top_k", -1, std::numeric_limits<std::int32_t>::max()).value_or(0));
  if (const auto seed = parameters.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::int64_t>::max()))
    request.seed = static_cast<std::uint64_t>(*seed);
  request.stops = stops_of(parameters);
  request.streams = parameters.boolean("stream");
  if (const Given* const options = parameters.find("stream_options")) {
    if (!request.streams && !options->empty())
      refuse("stream_options", "expected with \"stream\": true only");
    const auto usage = options->is_object() ? options->find("include_usage") : options->end();
    const bool given = options->is_object() && usage != options->end();
    const bool good = options->is_object() && options->size() == (given ? 1 : 0) &&
                      (!given || usage->is_boolean());
    if (!good) refuse("stream_options", shown(*options) + ", expected {\"include_usage\": true}");
    request.includes_usage = given && usage->get<bool>();
  }
  // A name of the user for the server's records, of which there are none.
  if (const Given* const user = parameters.find("user"))
    static_cast<void>(parameters.text("user", *user));
  request.choices = parameters.integer("n", 1, kMostChoices).value_or(1);
  if (request.choices > 1 && request.sampling.temperature == 0.0)
    refuse("n", std::to_string(request.choices) +
                    " at temperature 0, where all answers are equal; expected 1, or a temperature");
  parameters.neutral("logit_bias", Given::object());
  parameters.neutral("store", false);
  return request;
}

}  // namespace

namespace {

// The schema of `response_format`; nothing for texts.
std::optional<std::string> schema_of(const Given& format, std::string_view body) {
  const std::string where = "response_format";
  if (!format.is_object()) refuse(where, shown(format) + ", expected an object with a type");
  const Given type = format.value("type", Given());
  if (type == "text" || type == "json_object") {
    expect_fields(where, format, {"type"});
    return type == "text" ? std::nullopt : std::optional<std::string>(exec::kAnyObject);
  }
  if (type != "json_schema")
    refuse(where + ".type", shown(type) + ", expected text, json_object or json_schema");
  expect_fields(where, format, {"type", "json_schema"});
  const std::string place = where + ".json_schema";
  const Given json = format.value("json_schema", Given());
  expect_fields(place, json, {"name", "description", "schema", "strict"});
  for (const char* const text : {"name", "description"}) {
    const Given value = json.value(text, Given());
    if (!value.is_string() && (!value.is_null() || text == std::string_view("name")))
      refuse(place + "." + text, shown(value) + ", expected a text");
  }
  // What is answered conforms either way.
  const Given strict = json.value("strict", Given());
  if (!strict.is_null() && !strict.is_boolean())
    refuse(place + ".strict", shown(strict) + ", expected true or false");
  if (!json.value("schema", Given()).is_object())
    refuse(place + ".schema", shown(json.value("schema", Given())) + ", expected a JSON schema");
  // Once more, as the order of its properties counts.
  return in_order(where, body)[where]["json_schema"]["schema"].dump();
}

}  // namespace

ApiRequest parse_chat_request(std::string_view body) {
  Parameters parameters(body);
  ApiRequest request = common(parameters);
  request.is_chat = true;
  request.messages = messages_of(parameters.at("messages"));
  const auto tokens = parameters.integer("max_completion_tokens", 1, std::int64_t{1} << 30);
  if (tokens && request.max_tokens && tokens != request.max_tokens)
    refuse("max_tokens", "differs from 'max_completion_tokens'; give one");
  if (tokens) request.max_tokens = tokens;
  const bool logprobs = parameters.boolean("logprobs");
  const std::int64_t best = parameters.integer("top_logprobs", 0, 20).value_or(0);
  if (best > 0 && !logprobs) refuse("top_logprobs", "expected with \"logprobs\": true only");
  if (logprobs) request.logprobs = static_cast<std::size_t>(best);
  request.tools = tool_request_of(parameters, body);
  if (const Given* const format = parameters.find("response_format"))
    request.schema = schema_of(*format, body);
  if (request.schema && !request.tools.list.empty())
    refuse("response_format", "JSON, which cannot call 'tools'; give one of them");
  parameters.settle();
  return request;
}

ApiRequest parse_completion_request(std::string_view body) {
  Parameters parameters(body);
  ApiRequest request = common(parameters);
  request.prompt = prompt_of(parameters.at("prompt"));
  if (const auto logprobs = parameters.integer("logprobs", 0, 5))
    request.logprobs = static_cast<std::size_t>(*logprobs);
  // The best of as many answers as are returned are all of them.
  parameters.neutral("best_of", request.choices);
  parameters.neutral("echo", false);
  parameters.neutral("suffix", "");
  parameters.settle();
  return request;
}

}  // namespace tandem::serve
