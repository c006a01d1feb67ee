#pragma once

// The parameters of a request of OpenAI's API, and what is refused of them. Private to the parsers.

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/sampling.hpp"
#include "serve/api_error.hpp"

namespace tandem::serve {

using Given = nlohmann::json;            // what a client sent
using Ordered = nlohmann::ordered_json;  // the same, where the order of fields counts

// Throws ApiError 400 that names `param`.
[[noreturn]] void refuse(const std::string& param, const std::string& problem,
                         std::string code = {});
// Returns the beginning of `value` as JSON, for messages.
[[nodiscard]] std::string shown(const Given& value);
// Refuses what is no object, and fields other than `known` that are not null.
void expect_fields(const std::string& where, const Given& object,
                   std::initializer_list<std::string_view> known);
// Returns a field that is a text, and refuses anything else.
[[nodiscard]] std::string text_at(const std::string& where, const Given& object, const char* name);
// Returns `json`, which stands at `param`, in order; refuses what is not moderate. What is no JSON
// is discarded (is_discarded()).
[[nodiscard]] Ordered in_order(const std::string& param, std::string_view json);
// Returns a token id, at `where`, and refuses anything else.
[[nodiscard]] std::int32_t token_id_of(const std::string& where, const Given& id,
                                       const std::string& expected);

// The parameters of one request. Null is the same as absent.
class Parameters {
 public:
  // Throws ApiError 400 unless `body` is an object of JSON.
  explicit Parameters(std::string_view body);

  [[nodiscard]] const Given* find(const std::string& name);
  [[nodiscard]] const Given& at(const std::string& name);
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name, std::int64_t least,
                                                    std::int64_t most);
  // Reads a number of sampling, if it is there.
  void read(const planner::SamplingNumber& number, planner::Sampling& sampling);
  [[nodiscard]] bool boolean(const std::string& name, bool absent = false);
  [[nodiscard]] static std::string text(const std::string& name, const Given& value);
  // A parameter that is not supported, except at a value at which it has no effect.
  void neutral(const std::string& name, const Given& value);
  // Throws for parameters that nothing above asked for.
  void settle() const;

 private:
  Given json_;
  std::vector<std::string> asked_;
};

}  // namespace tandem::serve
