#include "exec/tokenizer/chat/model_chat.hpp"

#include <nlohmann/json.hpp>

#include "exec/gguf/conversion/folder_files.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/gguf_tokenizer.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// The settings of a folder. Names that it leaves to Hugging Face's LlamaTokenizer are those of its
// pieces: a template writes the token by its name.
TokenSettings named_settings(const std::filesystem::path& folder) {
  TokenSettings settings = read_token_settings(folder);
  const std::filesystem::path pieces = folder / "tokenizer.model";
  if ((!settings.bos.empty() && !settings.eos.empty()) || !is_present(pieces)) return settings;
  const std::string text = read_text(pieces, kMaxFileBytes);
  if (is_tiktoken(text)) return settings;  // tokenizer.json is read instead
  const SentencePieceModel model = parse_sentencepiece(text, pieces.string());
  if (settings.bos.empty() && model.control(model.bos_piece) >= 0) settings.bos = model.bos_piece;
  if (settings.eos.empty() && model.control(model.eos_piece) >= 0) settings.eos = model.eos_piece;
  return settings;
}

using OrderedJson = nlohmann::ordered_json;

// Every text in `json`, keys included, as Tokenizer::guarded().
OrderedJson guarded_json(const Tokenizer& tokenizer, const OrderedJson& json) {
  if (json.is_string()) return tokenizer.guarded(json.get<std::string>());
  if (!json.is_structured()) return json;
  OrderedJson guarded = json.is_array() ? OrderedJson::array() : OrderedJson::object();
  for (const auto& [key, value] : json.items()) {
    if (json.is_array()) {
      guarded.push_back(guarded_json(tokenizer, value));
    } else {
      guarded[tokenizer.guarded(key)] = guarded_json(tokenizer, value);
    }
  }
  return guarded;
}

std::string guarded_text(const Tokenizer& tokenizer, const std::string& json) {
  return json.empty() ? json : guarded_json(tokenizer, OrderedJson::parse(json)).dump();
}

// A conversation with tools as one template renders it.
struct ToolTexts {
  const ModelChat& chat;
  const std::string& text;

  // Throws Error if the template renders the same without `what`. One that rejects the rest, which
  // may not be a conversation, would have shown it.
  void expect_shown(const char* what, const std::vector<ChatMessage>& messages,
                    const std::string& tools) const {
    try {
      if (apply_chat_template(chat.chat_template, messages, chat.settings, tools) != text) return;
    } catch (const Error&) {
      return;
    }
    throw Error("chat: the model's template does not show " + std::string(what) +
                ", expected one that does; leave them out, or serve a model that calls tools");
  }
};

void check_tools(const ModelChat& chat, const std::string& text,
                 const std::vector<ChatMessage>& messages, const std::string& tools) {
  const ToolTexts texts{chat, text};
  if (!tools.empty()) texts.expect_shown("tools", messages, {});
  std::vector<ChatMessage> without_calls = messages;
  bool calls = false;
  for (ChatMessage& message : without_calls) {
    if (message.role != "assistant" || message.fields.empty()) continue;
    message.fields.clear();
    calls = true;
  }
  if (calls) texts.expect_shown("calls of tools", without_calls, tools);
  std::vector<ChatMessage> without_results = messages;
  if (std::erase_if(without_results,
                    [](const ChatMessage& message) { return message.role == "tool"; }) > 0)
    texts.expect_shown("results of tools", without_results, tools);
}

}  // namespace

ModelChat read_model_chat(const std::filesystem::path& weights) {
  if (is_gguf(weights)) {
    const GgufFile file(weights);
    const TokenSettings settings = gguf_vocabulary(file).settings;
    return {.chat_template = file.text("tokenizer.chat_template").value_or(""),
            .settings = {.bos_token = settings.bos, .eos_token = settings.eos}};
  }
  const std::string chat_template = folder_chat_template(weights);
  const TokenSettings settings =
      chat_template.empty() ? read_token_settings(weights) : named_settings(weights);
  return {.chat_template = chat_template,
          .settings = {.bos_token = settings.bos, .eos_token = settings.eos}};
}

std::vector<std::int32_t> encode_chat(const ModelChat& chat, const Tokenizer& tokenizer,
                                      const std::vector<ChatMessage>& messages,
                                      const std::string& tools, std::string_view begun) {
  if (chat.chat_template.empty())
    throw Error(
        "chat: the model has no chat template, expected one in tokenizer_config.json, "
        "chat_template.jinja or the GGUF file; write the whole text as the prompt");
  std::vector<ChatMessage> guarded = messages;
  for (ChatMessage& message : guarded) {
    message.content = tokenizer.guarded(message.content);
    message.fields = guarded_text(tokenizer, message.fields);
  }
  const std::string shown_tools = guarded_text(tokenizer, tools);
  const std::string text =
      apply_chat_template(chat.chat_template, guarded, chat.settings, shown_tools);
  check_tools(chat, text, guarded, shown_tools);
  std::vector<std::int32_t> ids =
      tokenizer.encode(text + std::string(begun), WrittenTokens::guarded);
  // The tokens that the tokenizer writes around every text.
  const auto around = static_cast<std::ptrdiff_t>(tokenizer.encode("").size());
  const std::ptrdiff_t front = tokenizer.tokens_in_front();
  if (std::ssize(ids) <= around)
    throw Error("chat: the template makes no text of the messages, expected some");
  ids.erase(ids.end() - (around - front), ids.end());
  ids.erase(ids.begin(), ids.begin() + front);
  return ids;
}

}  // namespace tandem::exec
