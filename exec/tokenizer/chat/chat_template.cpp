#include "exec/tokenizer/chat/chat_template.hpp"

#include <cstddef>
#include <utility>

#include "exec/tokenizer/chat/interpreter.hpp"
#include "exec/tokenizer/chat/json_text.hpp"
#include "exec/tokenizer/chat/template_parser.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec {
namespace {

// A parsed template takes up to 200 times its length. Published ones have at most 30 KiB.
constexpr std::size_t kLongestTemplate = std::size_t{1} << 20U;

}  // namespace

std::string apply_chat_template(const std::string& chat_template,
                                const std::vector<ChatMessage>& messages,
                                const ChatSettings& settings, const std::string& tools) {
  if (chat_template.size() > kLongestTemplate)
    chat::fail(std::to_string(chat_template.size()) +
               " bytes, expected at most 1 MiB; use another template");
  if (valid_utf8(chat_template) != chat_template)
    chat::fail("bytes that are no UTF-8, expected UTF-8; save the template in that encoding");
  const chat::Template parsed = chat::parse(chat_template);
  chat::Interpreter interpreter(parsed, settings.date);
  chat::Budget& budget = interpreter.budget();
  const auto text = [&budget](const std::string& given) {
    return chat::text_value(budget, valid_utf8(given));
  };
  chat::Values all;
  for (const ChatMessage& message : messages) {
    std::vector<std::pair<chat::Value, chat::Value>> fields{
        {text("role"), text(message.role)}, {text("content"), text(message.content)}};
    if (!message.fields.empty()) {
      const chat::Value more = chat::from_json(budget, message.fields);
      for (const auto& field : more.mapping()->items) fields.push_back(field);
    }
    all.push_back(chat::mapping_value(budget, std::move(fields)));
  }
  interpreter.give("messages", chat::sequence_value(budget, std::move(all)));
  interpreter.give("add_generation_prompt", chat::Value(true));
  interpreter.give("bos_token", text(settings.bos_token));
  interpreter.give("eos_token", text(settings.eos_token));
  interpreter.give("tools",
                   tools.empty() ? chat::Value(chat::None{}) : chat::from_json(budget, tools));
  interpreter.give("documents", chat::Value(chat::None{}));
  return interpreter.render();
}

}  // namespace tandem::exec
