#pragma once

// The forms in which models write calls of tools, as their chat templates show them.

#include <span>
#include <string>
#include <string_view>

#include "exec/tokenizer/chat/model_chat.hpp"

namespace tandem::serve {

// A call is an object of JSON with a name and arguments:
//   opening [white space] call [white space] closing, and so on
struct ToolForm {
  std::string_view name;
  std::string_view opening;    // in front of calls; empty: the answer begins with one
  bool is_list = false;        // calls are a list of JSON behind one opening
  std::string_view separator;  // between calls without an opening of their own; empty: none
  std::string_view closing;    // behind each call or list; empty: none
  std::string_view arguments;  // the key of a call's arguments
  // The answer's beginning, up to the call, where one is required.
  std::string_view required;
};

// Returns all forms.
[[nodiscard]] std::span<const ToolForm> tool_forms();
// "hermes, llama, mistral".
[[nodiscard]] std::string tool_form_names();
// Returns the form in which the model's template renders a call that an assistant has made; null:
// in none of these, or not at all.
[[nodiscard]] const ToolForm* tool_form_of(const exec::ModelChat& chat);

}  // namespace tandem::serve
