#include "serve/tool_request.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/request_parameters.hpp"

namespace tandem::serve {
namespace {

constexpr std::size_t kMostTools = 128;  // as OpenAI's
constexpr std::size_t kMostNameBytes = 64;

// Returns the name of a tool.
std::string check_tool(const std::string& where, const Given& tool) {
  expect_fields(where, tool, {"type", "function"});
  if (tool.value("type", Given()) != "function")
    refuse(where + ".type", shown(tool.value("type", Given())) + ", expected function");
  const Given function = tool.value("function", Given());
  expect_fields(where + ".function", function, {"name", "description", "parameters", "strict"});
  std::string name = text_at(where + ".function", function, "name");
  const bool good =
      !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, [](char c) {
        return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
               c == '_' || c == '-' || c == '.';
      });
  if (!good)
    refuse(where + ".function.name",
           shown(name) + ", expected 1 to 64 letters, digits, '_', '-' and '.'");
  if (!function.value("description", Given()).is_null())
    static_cast<void>(text_at(where + ".function", function, "description"));
  const Given strict = function.value("strict", Given());
  if (!strict.is_null() && !strict.is_boolean())
    refuse(where + ".function.strict", shown(strict) + ", expected true or false");
  const Given schema = function.value("parameters", Given());
  if (!schema.is_null() && !schema.is_object())
    refuse(where + ".function.parameters", shown(schema) + ", expected a JSON schema");
  return name;
}

void read_choice(const Given& choice, ToolRequest& request) {
  if (choice == "auto" || choice == "none") return;
  request.is_required = true;
  if (choice == "required") return;
  const std::string where = "tool_choice";
  if (!choice.is_object())
    refuse(where, shown(choice) +
                      ", expected auto, none, required or {\"type\": \"function\", \"function\": "
                      "{\"name\": ...}}");
  expect_fields(where, choice, {"type", "function"});
  if (choice.value("type", Given()) != "function")
    refuse(where + ".type", shown(choice.value("type", Given())) + ", expected function");
  const Given function = choice.value("function", Given());
  expect_fields(where + ".function", function, {"name"});
  request.only = text_at(where + ".function", function, "name");
  if (request.only.empty()) refuse(where + ".function.name", "\"\", expected the name of a tool");
}

// What only a call that has to come is held to.
void check_held(const Given& list, Parameters& parameters) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i]["function"].value("strict", Given()) == true)
      refuse("tools[" + std::to_string(i) + "].function.strict",
             "true, expected with \"tool_choice\": \"required\" or a function's name only");
  }
  if (!parameters.boolean("parallel_tool_calls", true))
    refuse("parallel_tool_calls",
           "false, expected with \"tool_choice\": \"required\" or a function's name only; leave it "
           "out");
}

// Moves references within `schema` to where it is in another one, at `base`.
void rebase(Ordered& schema, const std::string& base) {
  constexpr std::array<std::string_view, 4> kData{"const", "default", "enum", "examples"};
  constexpr std::array<std::string_view, 3> kNamed{"properties", "$defs", "definitions"};
  if (schema.is_array()) {
    for (Ordered& part : schema) rebase(part, base);
  } else if (schema.is_object()) {
    for (auto& [key, value] : schema.items()) {
      if (key == "$ref" && value.is_string()) {
        const std::string target = value.get<std::string>();
        if (target.starts_with('#')) value = "#" + base + target.substr(1);
      } else if (std::ranges::find(kNamed, key) != kNamed.end() && value.is_object()) {
        for (auto& [name, part] : value.items()) rebase(part, base);  // a name is no keyword
      } else if (std::ranges::find(kData, key) == kData.end()) {
        rebase(value, base);
      }
    }
  }
}

// The schema of a tool's arguments, which are an object where it does not state their type.
Ordered arguments_schema(const Ordered& function) {
  const auto found = function.find("parameters");
  if (found == function.end() || found->is_null())
    return {{"type", "object"}, {"additionalProperties", false}};
  Ordered schema = *found;
  constexpr std::array kDecide{"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"};
  const auto decides = [&](const char* key) { return schema.contains(key); };
  if (std::ranges::none_of(kDecide, decides)) schema["type"] = "object";
  return schema;
}

struct ToolPlace {
  std::size_t number = 0;  // in the list
  Ordered function{};
};

std::vector<ToolPlace> callable(const ToolRequest& request) {
  std::vector<ToolPlace> tools;
  const Ordered list = Ordered::parse(request.list);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Ordered& function = list[i]["function"];
    if (request.only.empty() || function["name"] == request.only)
      tools.push_back({.number = i, .function = function});
  }
  return tools;
}

}  // namespace

ToolRequest tool_request_of(Parameters& parameters, std::string_view body) {
  ToolRequest request;
  const Given* const list = parameters.find("tools");
  const Given* const choice = parameters.find("tool_choice");
  if (choice != nullptr) read_choice(*choice, request);
  const bool none = list == nullptr || *list == Given::array();
  if (none && request.is_required) refuse("tool_choice", "without tools, expected some in 'tools'");
  if (none) {
    parameters.neutral("parallel_tool_calls", true);
    return request;
  }
  if (!list->is_array() || list->size() > kMostTools)
    refuse("tools", "expected a list of at most " + std::to_string(kMostTools) + " tools");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    std::string name = check_tool(where, (*list)[i]);
    if (std::ranges::find(request.names, name) != request.names.end())
      refuse(where + ".function.name",
             shown(name) + ", which an earlier tool has; expected another");
    request.names.push_back(std::move(name));
  }
  if (!request.only.empty() &&
      std::ranges::find(request.names, request.only) == request.names.end())
    refuse("tool_choice.function.name", shown(request.only) + ", expected the name of a tool");
  if (request.is_required)
    static_cast<void>(parameters.boolean("parallel_tool_calls", true));  // there is one call
  else
    check_held(*list, parameters);
  // A model that is to call none is given none.
  if (choice != nullptr && *choice == "none") return {};
  request.list = in_order("tools", body)["tools"].dump();
  return request;
}

std::vector<ToolSchema> tool_schemas(const ToolRequest& request) {
  std::vector<ToolSchema> schemas;
  for (const ToolPlace& tool : callable(request)) {
    const std::string place = "tools[" + std::to_string(tool.number) + "].function.parameters";
    const Ordered schema = arguments_schema(tool.function);
    if (const auto type = schema.find("type"); type != schema.end() && *type != "object")
      refuse(place + ".type", shown(Given(*type)) + ", expected object");
    for (const char* const key : {"const", "enum"}) {
      if (schema.contains(key) && !schema.contains("type"))
        refuse(place, std::string("'") + key +
                          "' without \"type\": \"object\", expected the "
                          "schema of an object");
    }
    schemas.push_back({.place = place, .schema = schema.dump()});
  }
  return schemas;
}

std::string call_schema(const ToolRequest& request, const ToolForm& form) {
  const std::vector<ToolPlace> tools = callable(request);
  const std::string key(form.arguments);
  Ordered calls = Ordered::array();
  for (const ToolPlace& tool : tools) {
    const std::string base = (form.is_list ? "/items" : "") +
                             (tools.size() > 1 ? "/anyOf/" + std::to_string(calls.size()) : "") +
                             "/properties/" + key;
    Ordered arguments = arguments_schema(tool.function);
    rebase(arguments, base);
    Ordered call{{"type", "object"}};
    call["properties"]["name"]["const"] = tool.function["name"];
    call["properties"][key] = std::move(arguments);
    call["required"] = {"name", key};
    calls.push_back(std::move(call));
  }
  Ordered one = calls.size() == 1 ? calls[0] : Ordered{{"anyOf", calls}};
  if (!form.is_list) return one.dump();
  return Ordered{{"type", "array"}, {"items", std::move(one)}, {"minItems", 1}, {"maxItems", 1}}
      .dump();
}

}  // namespace tandem::serve
