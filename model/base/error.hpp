#pragma once

// The two kinds of failure that the program distinguishes: the world is wrong (`Error`) and the
// caller is wrong (`require`, a std::logic_error). An expected "no" is neither: it is data.

#include <stdexcept>
#include <string>
#include <string_view>

namespace tandem {

// A file, flag, peer or plan is wrong. The message is one line: subject, offending value, what was
// expected, remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws std::logic_error(message) unless `condition`; active in every build.
inline void require(bool condition, std::string_view message) {
  if (!condition) throw std::logic_error(std::string(message));
}

}  // namespace tandem
