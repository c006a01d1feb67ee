#include "exec/tokenizer/chat/arguments.hpp"

#include <algorithm>

namespace tandem::exec::chat {

bool Bound::truth(std::size_t place, bool otherwise) const {
  return has(place) ? is_true(*values_[place]) : otherwise;
}

std::int64_t Bound::whole(std::size_t place, std::int64_t otherwise) const {
  if (!has(place)) return otherwise;
  const std::optional<std::int64_t> number = values_[place]->whole();
  if (!number) fail("'" + callee_ + "': " + kind_of(*values_[place]) + ", expected a whole number");
  return *number;
}

const std::string& Bound::text(std::size_t place) const {
  if (!values_[place]->is_text())
    fail("'" + callee_ + "': " + kind_of(*values_[place]) + ", expected a text");
  return values_[place]->text();
}

Bound bind(std::string_view callee, const Arguments& given,
           std::initializer_list<std::string_view> parameters, std::size_t required,
           Naming naming) {
  const std::string subject = "'" + std::string(callee) + "': ";
  if (given.places.size() > parameters.size())
    fail(subject + std::to_string(given.places.size()) + " arguments, expected at most " +
         std::to_string(parameters.size()));
  std::vector<std::optional<Value>> values(parameters.size());
  std::ranges::copy(given.places, values.begin());
  for (const auto& [name, value] : given.names) {
    const auto fail_argument = [&, &of = name](std::string_view fault) {
      fail(std::string(subject).append("argument '").append(of).append("' ").append(fault));
    };
    const auto* const found = std::ranges::find(parameters, name);
    if (naming == Naming::refused || found == parameters.end())
      fail_argument("is not known, expected another one");
    std::optional<Value>& place = values[static_cast<std::size_t>(found - parameters.begin())];
    if (place) fail_argument("is given twice, expected it once");
    place = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values[i])
      fail(subject + "argument '" + std::string(parameters.begin()[i]) + "' is missing");
  }
  return {std::string(callee), std::move(values)};
}

}  // namespace tandem::exec::chat
