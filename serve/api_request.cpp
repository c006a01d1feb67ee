#include "serve/api_request.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

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
      json_ = model::parse_json(body, "request", "send the JSON object of OpenAI's API",
                                {.bytes = std::numeric_limits<std::size_t>::max(), .depth = 16});
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

exec::ChatMessage message_of(const std::string& where, const Given& message) {
  if (!message.is_object()) refuse(where, shown(message) + ", expected an object");
  for (const auto& [name, value] : message.items()) {
    if (name != "role" && name != "content" && !value.is_null())
      refuse(where + "." + model::one_line(name, kShown), "not supported here; leave it out",
             "unsupported_parameter");
  }
  const Given role = message.value("role", Given());
  const bool known =
      role == "system" || role == "developer" || role == "user" || role == "assistant";
  if (!known)
    refuse(where + ".role", shown(role) + ", expected system, developer, user or assistant");
  if (!message.contains("content")) refuse(where + ".content", "absent, expected a text");
  // What newer models call a developer's message is a system's.
  return {.role = role == "developer" ? "system" : role.get<std::string>(),
          .content = content_of(where + ".content", message["content"])};
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
  parameters.neutral("tools", Given::array());
  parameters.neutral("parallel_tool_calls", true);
  // Without tools none is called.
  if (const Given* const choice = parameters.find("tool_choice");
      choice != nullptr && *choice != "auto")
    parameters.neutral("tool_choice", "none");
  parameters.neutral("response_format", {{"type", "text"}});
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
