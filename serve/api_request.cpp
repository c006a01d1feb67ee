#include "serve/api_request.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/grammar/token_grammars.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::serve {
namespace {

using Given = nlohmann::json;  // what a client sent

constexpr std::size_t kMostMessages = 4096;
constexpr std::size_t kMostStops = 4;
constexpr std::int64_t kMostChoices = 128;  // as OpenAI's
constexpr std::size_t kMostStopBytes = 256;
constexpr std::size_t kShown = 60;
constexpr int kDepth = 64;  // a level of a schema is two of JSON

[[noreturn]] void refuse(const std::string& param, const std::string& problem,
                         std::string code = {}) {
  throw ApiError(400, "'" + param + "': " + problem, param, std::move(code));
}

std::string shown(const Given& value) {
  return model::one_line(value.dump(-1, ' ', true, Given::error_handler_t::replace), kShown);
}

// The parameters of one request. Null is the same as absent.
class Parameters {
 public:
  explicit Parameters(std::string_view body) {
    try {
      json_ =
          model::parse_json(body, "request", "send the JSON object of OpenAI's API",
                            {.bytes = std::numeric_limits<std::size_t>::max(), .depth = kDepth});
    } catch (const Error& error) {
      throw ApiError(400, error.what());
    }
  }

  [[nodiscard]] const Given* find(const std::string& name) {
    asked_.push_back(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] const Given& at(const std::string& name) {
    const Given* const value = find(name);
    if (value == nullptr) refuse(name, "absent, expected this parameter");
    return *value;
  }
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name, std::int64_t least,
                                                    std::int64_t most) {
    const Given* const value = find(name);
    if (value == nullptr) return std::nullopt;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most)
      refuse(name, shown(*value) + ", expected a whole number from " + std::to_string(least) +
                       " to " + std::to_string(most));
    return value->get<std::int64_t>();
  }
  // Reads a number of sampling, if it is there.
  void read(const planner::SamplingNumber& number, planner::Sampling& sampling) {
    const std::string name(number.name);
    const Given* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_number() || !number.allows(value->get<double>()))
      refuse(name, shown(*value) + ", expected " + std::string(number.expected));
    sampling.*number.value = value->get<double>();
  }
  [[nodiscard]] bool boolean(const std::string& name) {
    const Given* const value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(name, shown(*value) + ", expected true or false");
    return value->get<bool>();
  }
  [[nodiscard]] std::string text(const std::string& name, const Given& value) const {
    if (!value.is_string()) refuse(name, shown(value) + ", expected a text");
    return value.get<std::string>();
  }
  // A parameter that is not supported, except at a value at which it has no effect.
  void neutral(const std::string& name, const Given& value) {
    const Given* const given = find(name);
    if (given == nullptr || *given == value) return;
    refuse(name, shown(*given) + ", not supported here but for " + shown(value) + "; leave it out");
  }
  // Throws for parameters that nothing above asked for.
  void settle() const {
    for (const auto& [name, value] : json_.items()) {
      if (value.is_null() || std::ranges::find(asked_, name) != asked_.end()) continue;
      throw ApiError(400,
                     "'" + model::one_line(name, kShown) + "': not supported here; leave it out",
                     model::one_line(name, kShown), "unsupported_parameter");
    }
  }

 private:
  Given json_;
  std::vector<std::string> asked_;
};

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

using Ordered = nlohmann::ordered_json;  // the order of fields is the template's

void expect_fields(const std::string& where, const Given& object,
                   std::initializer_list<std::string_view> known) {
  if (!object.is_object()) refuse(where, shown(object) + ", expected an object");
  for (const auto& [name, value] : object.items()) {
    if (value.is_null() || std::ranges::find(known, name) != known.end()) continue;
    refuse(where + "." + model::one_line(name, kShown), "not supported here; leave it out",
           "unsupported_parameter");
  }
}

std::string text_at(const std::string& where, const Given& object, const char* name) {
  const Given value = object.value(name, Given());
  if (!value.is_string()) refuse(where + "." + name, shown(value) + ", expected a text");
  return value.get<std::string>();
}

// A call of a tool as templates take it: its arguments, a text in the API, are an object.
Ordered call_of(const std::string& where, const Given& call) {
  expect_fields(where, call, {"id", "type", "function"});
  if (call.value("type", Given()) != "function")
    refuse(where + ".type", shown(call.value("type", Given())) + ", expected function");
  const Given function = call.value("function", Given());
  expect_fields(where + ".function", function, {"name", "arguments"});
  const std::string text = text_at(where + ".function", function, "arguments");
  const Ordered arguments = Ordered::parse(text, nullptr, /*allow_exceptions=*/false);
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

// The tools of a chat, for ApiRequest::tools.
std::string tools_of(Parameters& parameters, std::string_view body) {
  constexpr std::size_t kMostTools = 128;  // as OpenAI's
  const Given* const list = parameters.find("tools");
  const Given* const choice = parameters.find("tool_choice");
  if (choice != nullptr && *choice != "auto" && *choice != "none")
    refuse("tool_choice", shown(*choice) + ", not supported here but for \"auto\" and \"none\"");
  if (list == nullptr || *list == Given::array()) return {};
  if (!list->is_array() || list->size() > kMostTools)
    refuse("tools", "expected a list of at most " + std::to_string(kMostTools) + " tools");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    const Given& tool = (*list)[i];
    expect_fields(where, tool, {"type", "function"});
    if (tool.value("type", Given()) != "function")
      refuse(where + ".type", shown(tool.value("type", Given())) + ", expected function");
    const Given function = tool.value("function", Given());
    expect_fields(where + ".function", function, {"name", "description", "parameters", "strict"});
    static_cast<void>(text_at(where + ".function", function, "name"));
    if (!function.value("description", Given()).is_null())
      static_cast<void>(text_at(where + ".function", function, "description"));
    const Given strict = function.value("strict", Given());
    if (!strict.is_null() && strict != false)
      refuse(where + ".function.strict", shown(strict) + ", not supported here but for false");
    const Given schema = function.value("parameters", Given());
    if (!schema.is_null() && !schema.is_object())
      refuse(where + ".function.parameters", shown(schema) + ", expected a JSON schema");
  }
  // A model that is to call none is given none.
  if (choice != nullptr && *choice == "none") return {};
  return Ordered::parse(body)["tools"].dump();
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
  for (const Given& id : prompt.is_array() ? prompt : Given::array()) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
      refuse("prompt", shown(id) +
                           " in a list, expected one text, or the token ids of one; several "
                           "prompts are several requests");
    ids.push_back(id.get<std::int32_t>());
  }
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

ApiError::ApiError(unsigned its_status, const std::string& message, std::string its_param,
                   std::string its_code)
    : std::runtime_error(message),
      status(its_status),
      param(std::move(its_param)),
      code(std::move(its_code)) {}

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
  return Ordered::parse(body)[where]["json_schema"]["schema"].dump();
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
  request.tools = tools_of(parameters, body);
  parameters.neutral("parallel_tool_calls", true);
  if (const Given* const format = parameters.find("response_format"))
    request.schema = schema_of(*format, body);
  if (request.schema && !request.tools.empty())
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
