#include "serve/api_error.hpp"

#include <utility>

#include "model/base/plain_text.hpp"
#include "serve/api_answer.hpp"

namespace tandem::serve {

ApiError::ApiError(unsigned its_status, const std::string& message, std::string its_param,
                   std::string its_code)
    : std::runtime_error(message),
      status(its_status),
      param(std::move(its_param)),
      code(std::move(its_code)) {}

HttpAnswer error_answer(const ApiError& error) {
  HttpAnswer answer{.status = error.status,
                    .body = error_json(error.status, error.what(), error.param, error.code)};
  if (error.status == 401) answer.headers = "WWW-Authenticate: Bearer\r\n";
  if (error.status == 429 || error.status == 503) answer.headers = "Retry-After: 1\r\n";
  return answer;
}

ApiError as_api_error(const std::exception& fault) {
  const auto* const known = dynamic_cast<const ApiError*>(&fault);
  return known != nullptr ? *known : ApiError(400, fault.what());
}

ApiError unknown_model(const std::string& named, const std::string& own) {
  return {404,
          "the model '" + model::one_line(named, 100) + "' does not exist, expected '" + own +
              "'; name it, or leave 'model' out",
          "model", "model_not_found"};
}

void check_tokens(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                  const std::string& param) {
  for (const std::int32_t id : ids) {
    if (id < vocabulary) continue;
    throw ApiError(400,
                   "'" + param + "': token " + std::to_string(id) + ", expected less than " +
                       std::to_string(vocabulary),
                   param);
  }
}

}  // namespace tandem::serve
