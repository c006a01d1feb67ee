#include "serve/api_answer.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json head_object(const AnswerHead& head, bool streams) {
  const char* const object = !head.is_chat ? "text_completion"
                             : streams     ? "chat.completion.chunk"
                                           : "chat.completion";
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

// Null without entries, which are of tokens that begin at a number of characters.
Json logprobs_object(const AnswerHead& head, std::span<const TokenEntry> entries,
                     std::int64_t characters) {
  if (entries.empty()) return nullptr;
  return head.is_chat ? chat_logprobs(entries) : text_logprobs(entries, characters);
}

// Of one choice. `delta`: of a chat; `text`: of a text completion.
std::string part_json(const AnswerHead& head, std::size_t index, Json delta,
                      const std::string& text, const Json& reason, Json logprobs = nullptr) {
  Json choice{{"index", index}};
  if (head.is_chat)
    choice["delta"] = std::move(delta);
  else
    choice["text"] = text;
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = reason;
  Json json = head_object(head, true);
  json["choices"] = Json::array({std::move(choice)});
  if (head.includes_usage) json["usage"] = nullptr;
  return text_of(json);
}

Json call_object(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

// The message of a chat. Beside calls, nothing but white space is no content.
Json message_object(const AnswerChoice& own) {
  const bool has_text = own.text.find_first_not_of(" \n\r\t") != std::string::npos;
  Json message{{"role", "assistant"}, {"content", own.text}};
  if (own.calls.empty()) return message;
  if (!has_text) message["content"] = nullptr;
  Json& calls = message["tool_calls"] = Json::array();
  for (const ToolCall& call : own.calls) calls.push_back(call_object(call));
  return message;
}

Json model_object(const std::string& model, std::int64_t created) {
  return {{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "tandem"}};
}

const char* type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

std::string answer_json(const AnswerHead& head, std::span<const AnswerChoice> choices,
                        const Usage& usage) {
  Json json = head_object(head, false);
  json["choices"] = Json::array();
  for (const AnswerChoice& own : choices) {
    Json choice{{"index", json["choices"].size()}};
    if (head.is_chat)
      choice["message"] = message_object(own);
    else
      choice["text"] = own.text;
    choice["logprobs"] = logprobs_object(head, own.entries, 0);
    choice["finish_reason"] = own.reason;
    json["choices"].push_back(std::move(choice));
  }
  json["usage"] = usage_object(usage);
  return text_of(json);
}

std::string role_json(const AnswerHead& head, std::size_t choice) {
  return part_json(head, choice, {{"role", "assistant"}, {"content", ""}}, "", nullptr);
}

std::string text_json(const AnswerHead& head, std::size_t choice, const std::string& text,
                      std::span<const TokenEntry> entries, std::int64_t characters) {
  return part_json(head, choice, {{"content", text}}, text, nullptr,
                   logprobs_object(head, entries, characters));
}

std::string calls_json(const AnswerHead& head, std::size_t choice, std::span<const ToolCall> calls,
                       std::size_t first) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    Json one{{"index", first++}};
    one.update(call_object(call));
    list.push_back(std::move(one));
  }
  return part_json(head, choice, {{"tool_calls", std::move(list)}}, "", nullptr);
}

std::string end_json(const AnswerHead& head, std::size_t choice, std::string_view reason) {
  return part_json(head, choice, Json::object(), "", reason);
}

std::string usage_json(const AnswerHead& head, const Usage& usage) {
  Json json = head_object(head, true);
  json["choices"] = Json::array();
  json["usage"] = usage_object(usage);
  return text_of(json);
}

std::string error_json(unsigned status, const std::string& message, const std::string& param,
                       const std::string& code) {
  Json error{{"message", message}, {"type", type_of(status)}};
  error["param"] = param.empty() ? Json() : Json(param);
  error["code"] = code.empty() ? Json() : Json(code);
  return text_of({{"error", std::move(error)}});
}

std::int64_t unix_time_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string model_json(const std::string& model, std::int64_t created) {
  return text_of(model_object(model, created));
}

std::string models_json(const std::string& model, std::int64_t created) {
  Json json{{"object", "list"}};
  json["data"] = Json::array();
  json["data"].push_back(model_object(model, created));
  return text_of(json);
}

}  // namespace tandem::serve
