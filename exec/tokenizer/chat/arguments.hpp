#pragma once

// Arguments of calls, filters and tests.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

struct Arguments {
  Values places{};
  std::vector<std::pair<std::string, Value>> names{};
};

enum class Naming { allowed, refused };  // arguments by name

// The arguments of one call, in the order of the callee's parameters.
class Bound {
 public:
  Bound(std::string callee, std::vector<std::optional<Value>> values)
      : callee_(std::move(callee)), values_(std::move(values)) {}
  // Nothing if it was not given.
  [[nodiscard]] const std::optional<Value>& operator[](std::size_t place) const {
    return values_[place];
  }
  [[nodiscard]] bool has(std::size_t place) const { return values_[place].has_value(); }
  // Return `otherwise` for an argument that was not given. Throw Error for another kind.
  [[nodiscard]] bool truth(std::size_t place, bool otherwise) const;
  [[nodiscard]] std::int64_t whole(std::size_t place, std::int64_t otherwise) const;
  // Return the argument, which must be given. Throw Error for another kind.
  [[nodiscard]] const std::string& text(std::size_t place) const;

 private:
  std::string callee_;
  std::vector<std::optional<Value>> values_;
};

// Assigns arguments to parameters, as Python does; the first `required` parameters need one. Throws
// Error (callee, argument) for missing, unknown, duplicate or excess arguments.
[[nodiscard]] Bound bind(std::string_view callee, const Arguments& given,
                         std::initializer_list<std::string_view> parameters,
                         std::size_t required = 0, Naming naming = Naming::allowed);

}  // namespace tandem::exec::chat
