#include "planner/serving/dispatch/dispatch.hpp"

#include <string>

#include "model/base/error.hpp"

namespace tandem::planner {

const Dispatch& find_dispatch(std::string_view name) {
  std::string known;
  for (const Dispatch& dispatch : dispatches()) {
    if (dispatch.name == name) return dispatch;
    if (!known.empty()) known += ", ";
    known += dispatch.name;
  }
  throw Error("dispatch '" + std::string(name) + "': unknown, expected one of " + known);
}

}  // namespace tandem::planner
