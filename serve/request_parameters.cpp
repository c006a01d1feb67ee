#include "serve/request_parameters.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/plain_text.hpp"
#include "serve/moderate_json.hpp"

namespace tandem::serve {
namespace {

constexpr std::size_t kShownCharacters = 60;

}  // namespace

void refuse(const std::string& param, const std::string& problem, std::string code) {
  throw ApiError(400, "'" + param + "': " + problem, param, std::move(code));
}

std::string shown(const Given& value) {
  return model::one_line(value.dump(-1, ' ', true, Given::error_handler_t::replace),
                         kShownCharacters);
}

void expect_fields(const std::string& where, const Given& object,
                   std::initializer_list<std::string_view> known) {
  if (!object.is_object()) refuse(where, shown(object) + ", expected an object");
  for (const auto& [name, value] : object.items()) {
    if (value.is_null() || std::ranges::find(known, name) != known.end()) continue;
    refuse(where + "." + model::one_line(name, kShownCharacters),
           "not supported here; leave it out", "unsupported_parameter");
  }
}

std::string text_at(const std::string& where, const Given& object, const char* name) {
  const Given value = object.value(name, Given());
  if (!value.is_string()) refuse(where + "." + name, shown(value) + ", expected a text");
  return value.get<std::string>();
}

Ordered in_order(const std::string& param, std::string_view json) {
  if (!is_moderate(json)) {
    refuse(param, "more than " + std::to_string(kMostMembers) + " members of an object, or " +
                      std::to_string(kMostDepth) + " levels, expected fewer");
  }
  return Ordered::parse(json, nullptr, /*allow_exceptions=*/false);
}

std::int32_t token_id_of(const std::string& where, const Given& id, const std::string& expected) {
  if (!id.is_number_unsigned() ||
      id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
    refuse(where, shown(id) + " in a list, expected " + expected);
  return id.get<std::int32_t>();
}

Parameters::Parameters(std::string_view body) {
  try {
    json_ =
        model::parse_json(body, "request", "send the JSON object of OpenAI's API",
                          {.bytes = std::numeric_limits<std::size_t>::max(), .depth = kMostDepth});
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

const Given* Parameters::find(const std::string& name) {
  asked_.push_back(name);
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Given& Parameters::at(const std::string& name) {
  const Given* const value = find(name);
  if (value == nullptr) refuse(name, "absent, expected this parameter");
  return *value;
}

std::optional<std::int64_t> Parameters::integer(const std::string& name, std::int64_t least,
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

void Parameters::read(const planner::SamplingNumber& number, planner::Sampling& sampling) {
  const std::string name(number.name);
  const Given* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !number.allows(value->get<double>()))
    refuse(name, shown(*value) + ", expected " + std::string(number.expected));
  sampling.*number.value = value->get<double>();
}

bool Parameters::boolean(const std::string& name, bool absent) {
  const Given* const value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(name, shown(*value) + ", expected true or false");
  return value->get<bool>();
}

std::string Parameters::text(const std::string& name, const Given& value) {
  if (!value.is_string()) refuse(name, shown(value) + ", expected a text");
  return value.get<std::string>();
}

void Parameters::neutral(const std::string& name, const Given& value) {
  const Given* const given = find(name);
  if (given == nullptr || *given == value) return;
  refuse(name, shown(*given) + ", not supported here but for " + shown(value) + "; leave it out");
}

void Parameters::settle() const {
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null() || std::ranges::find(asked_, name) != asked_.end()) continue;
    throw ApiError(
        400, "'" + model::one_line(name, kShownCharacters) + "': not supported here; leave it out",
        model::one_line(name, kShownCharacters), "unsupported_parameter");
  }
}

}  // namespace tandem::serve
