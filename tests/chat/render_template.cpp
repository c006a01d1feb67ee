// Renders chat templates for tests/chat/compare_random.py: reads a line of JSON each
// ({"template", "messages"}) and writes one ({"text"} or {"error"}).

#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/chat_template.hpp"

namespace {

nlohmann::json rendered(const nlohmann::json& given) {
  std::vector<tandem::exec::ChatMessage> messages;
  for (const nlohmann::json& one : given.at("messages"))
    messages.push_back({one.at("role"), one.at("content")});
  try {
    return {{"text", tandem::exec::apply_chat_template(
                         given.at("template"), messages,
                         {.bos_token = "<s>", .eos_token = "</s>", .date = "2026-11-23"})}};
  } catch (const std::exception& fault) {
    return {{"error", fault.what()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line))
    std::cout << rendered(nlohmann::json::parse(line)).dump(-1, ' ', true) << std::endl;
}
