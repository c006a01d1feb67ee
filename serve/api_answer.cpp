#include "serve/api_answer.hpp"

#include <nlohmann/json.hpp>

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

// `delta`: of a chat; `text`: of a text completion.
std::string part_json(const AnswerHead& head, Json delta, const std::string& text,
                      const Json& reason) {
  Json choice{{"index", 0}};
  if (head.is_chat)
    choice["delta"] = std::move(delta);
  else
    choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason;
  Json json = head_object(head, true);
  json["choices"] = Json::array({std::move(choice)});
  if (head.includes_usage) json["usage"] = nullptr;
  return text_of(json);
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

std::string answer_json(const AnswerHead& head, const std::string& text, std::string_view reason,
                        const Usage& usage) {
  Json choice{{"index", 0}};
  if (head.is_chat)
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  else
    choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason;
  Json json = head_object(head, false);
  json["choices"] = Json::array({std::move(choice)});
  json["usage"] = usage_object(usage);
  return text_of(json);
}

std::string role_json(const AnswerHead& head) {
  return part_json(head, {{"role", "assistant"}, {"content", ""}}, "", nullptr);
}

std::string text_json(const AnswerHead& head, const std::string& text) {
  return part_json(head, {{"content", text}}, text, nullptr);
}

std::string end_json(const AnswerHead& head, std::string_view reason) {
  return part_json(head, Json::object(), "", reason);
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
