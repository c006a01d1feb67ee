#pragma once

// A refusal of OpenAI's API.

#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>

#include "serve/http_exchange.hpp"

namespace tandem::serve {

// A request that is refused: a status and the fields of the API's error object.
class ApiError : public std::runtime_error {
 public:
  ApiError(unsigned status, const std::string& message, std::string param = {},
           std::string code = {});
  unsigned status;
  std::string param;  // the parameter; empty: none
  std::string code;   // empty: none
};

// Returns the answer that states `error`.
[[nodiscard]] HttpAnswer error_answer(const ApiError& error);
// Returns `fault` as a refusal: 400 unless it is one already.
[[nodiscard]] ApiError as_api_error(const std::exception& fault);
// 404: a request names another model than the server's.
[[nodiscard]] ApiError unknown_model(const std::string& named, const std::string& own);
// Throws ApiError 400 that names `param` for an id that is not below `vocabulary`.
void check_tokens(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                  const std::string& param);

}  // namespace tandem::serve
