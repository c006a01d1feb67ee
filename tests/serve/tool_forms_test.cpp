// The form of a model's calls, by its chat template.

#include "serve/tool_forms.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tandem::test::tool_forms_test {
namespace {

std::string form_by(const std::string& chat_template) {
  const serve::ToolForm* const form = serve::tool_form_of(
      {.chat_template = chat_template, .settings = {.bos_token = "<s>", .eos_token = "</s>"}});
  return form == nullptr ? "" : std::string(form->name);
}

// After the manner of Qwen 2.5's, Llama 3.1's and Mistral 7B v0.3's.
constexpr const char* kHermes = R"(
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
        {%- endfor %}
    {%- else %}{{- message.content }}{%- endif %}
{%- endfor %})";
constexpr const char* kLlama = R"(
{%- for message in messages %}
    {%- if 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at once") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", ' + '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
    {%- else %}{{- message.content }}{%- endif %}
{%- endfor %})";
constexpr const char* kMistral = R"(
{%- for message in messages %}
    {%- if message.tool_calls is defined %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}{{- out[:-1] }}
            {%- if tool_call.id|length != 9 %}{{- raise_exception("nine characters") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
        {%- endfor %}{{- "]" + eos_token }}
    {%- elif message.role == "tool" %}{{- '[TOOL_RESULTS] ' + message.content }}
    {%- else %}{{- message.content }}{%- endif %}
{%- endfor %})";

TEST_CASE("serve/tools: the form of calls is that of the template") {
  CHECK(form_by(kHermes) == "hermes");
  CHECK(form_by(kLlama) == "llama");
  CHECK(form_by(kMistral) == "mistral");
  // None, calls that are not shown, other forms, and a template that rejects them.
  CHECK(form_by("").empty());
  CHECK(form_by("{% for m in messages %}{{ m.content }}{% endfor %}").empty());
  CHECK(form_by("{% for m in messages %}{% for c in m.tool_calls or [] %}"
                "<tool_call>\n<function={{ c.function.name }}></function>\n</tool_call>"
                "{% endfor %}{% endfor %}")
            .empty());
  CHECK(form_by(
            "{% for m in messages %}{% for c in m.tool_calls or [] %}[TOOL_CALLS]"
            "{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}")
            .empty());
  CHECK(form_by("{{ raise_exception('no tools') }}").empty());
}

}  // namespace
}  // namespace tandem::test::tool_forms_test
