#include "serve/tool_forms.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::serve {
namespace {

constexpr std::array kForms{
    // Hermes 2 Pro, Qwen 2.5 and 3, SmolLM3.
    ToolForm{.name = "hermes",
             .opening = "<tool_call>",
             .is_list = false,
             .separator = "",
             .closing = "</tool_call>",
             .arguments = "arguments",
             .required = "<tool_call>\n"},
    // Llama 3.1 to 3.3.
    ToolForm{.name = "llama",
             .opening = "",
             .is_list = false,
             .separator = ";",
             .closing = "",
             .arguments = "parameters",
             .required = ""},
    // Mistral 7B v0.3, Nemo, Small; not the later form [TOOL_CALLS]name[ARGS]{...}.
    ToolForm{.name = "mistral",
             .opening = "[TOOL_CALLS]",
             .is_list = true,
             .separator = "",
             .closing = "",
             .arguments = "arguments",
             .required = "[TOOL_CALLS]"},
};

constexpr std::string_view kTool = "probe_tool";

// How a text has the call below, without its white space: up to the arguments' end.
std::string call_in(const ToolForm& form) {
  return std::string(form.opening) + (form.is_list ? "[" : "") + R"({"name":")" +
         std::string(kTool) + R"(",")" + std::string(form.arguments) + R"(":{"probe":"value"})";
}

// A conversation with a call; ids have the nine characters that Mistral's templates demand.
std::vector<exec::ChatMessage> probe_messages() {
  const std::string name(kTool);
  return {{.role = "user", .content = "question"},
          {.role = "assistant",
           .content = "",
           .fields = R"({"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":")" +
                     name + R"(","arguments":{"probe":"value"}}}]})"},
          {.role = "tool",
           .content = "result",
           .fields = R"({"tool_call_id":"abcdefghi","name":")" + name + R"("})"}};
}

std::string probe_tools() {
  return R"([{"type":"function","function":{"name":")" + std::string(kTool) +
         R"(","description":"probe","parameters":{"type":"object","properties":{"probe":)"
         R"({"type":"string","description":"probe"}},"required":["probe"]}}}])";
}

}  // namespace

std::span<const ToolForm> tool_forms() { return kForms; }

std::string tool_form_names() {
  std::string names;
  for (const ToolForm& form : kForms) names += (names.empty() ? "" : ", ") + std::string(form.name);
  return names;
}

const ToolForm* tool_form_of(const exec::ModelChat& chat) {
  if (chat.chat_template.empty()) return nullptr;
  std::string text;
  try {
    text = exec::apply_chat_template(chat.chat_template, probe_messages(), chat.settings,
                                     probe_tools());
  } catch (const Error&) {
    return nullptr;  // it rejects calls
  }
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; });
  const auto* const found = std::ranges::find_if(
      kForms, [&](const ToolForm& form) { return text.find(call_in(form)) != std::string::npos; });
  return found == kForms.end() ? nullptr : found;
}

}  // namespace tandem::serve
