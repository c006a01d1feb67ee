#pragma once

// The tools of a chat, and whether one has to be called.

#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_forms.hpp"

namespace tandem::serve {

class Parameters;

struct ToolRequest {
  // In JSON as templates take it; empty: none.
  std::string list{};
  std::vector<std::string> names{};
  bool is_required = false;  // the answer is one call
  std::string only{};        // of this tool; empty: of any
};

// Reads `tools`, `tool_choice` and `parallel_tool_calls` of a request with `body`. Throws ApiError
// 400 naming the parameter.
[[nodiscard]] ToolRequest tool_request_of(Parameters& parameters, std::string_view body);

// One of the tools that may be called where one has to be.
struct ToolSchema {
  std::string place{};   // in the request: "tools[0].function.parameters"
  std::string schema{};  // of its arguments, JSON
};
[[nodiscard]] std::vector<ToolSchema> tool_schemas(const ToolRequest& request);
// Returns the JSON schema of one call in `form` of a tool that may be called.
[[nodiscard]] std::string call_schema(const ToolRequest& request, const ToolForm& form);

}  // namespace tandem::serve
