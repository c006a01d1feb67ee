#include "serve/moderate_json.hpp"

#include <vector>

namespace tandem::serve {

bool is_moderate(std::string_view json) {
  std::vector<std::size_t> members;  // of each open object or list
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else
        in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (members.size() == kMostDepth) return false;
      members.push_back(0);
    } else if ((c == '}' || c == ']') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty() && ++members.back() > kMostMembers) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem::serve
