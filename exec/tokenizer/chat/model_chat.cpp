#include "exec/tokenizer/chat/model_chat.hpp"

#include "exec/gguf/folder_files.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_tokenizer.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "model/error.hpp"

namespace tandem::exec {

ModelChat read_model_chat(const std::filesystem::path& weights) {
  if (is_gguf(weights)) {
    const GgufFile file(weights);
    const TokenSettings settings = gguf_vocabulary(file).settings;
    return {.chat_template = file.text("tokenizer.chat_template").value_or(""),
            .settings = {.bos_token = settings.bos, .eos_token = settings.eos}};
  }
  const TokenSettings settings = read_token_settings(weights);
  return {.chat_template = folder_chat_template(weights),
          .settings = {.bos_token = settings.bos, .eos_token = settings.eos}};
}

std::vector<std::int32_t> encode_chat(const ModelChat& chat, const Tokenizer& tokenizer,
                                      const std::vector<ChatMessage>& messages) {
  if (chat.chat_template.empty())
    throw Error(
        "chat: the model has no chat template, expected one in tokenizer_config.json, "
        "chat_template.jinja or the GGUF file; write the whole text as the prompt");
  const std::string text = apply_chat_template(chat.chat_template, messages, chat.settings);
  std::vector<std::int32_t> ids = tokenizer.encode(text);
  // What the tokenizer puts around every text.
  const auto around = static_cast<std::ptrdiff_t>(tokenizer.encode("").size());
  const std::ptrdiff_t front = tokenizer.tokens_in_front();
  if (std::ssize(ids) < around)
    throw Error("chat: the template makes no text of the messages, expected some");
  ids.erase(ids.end() - (around - front), ids.end());
  ids.erase(ids.begin(), ids.begin() + front);
  return ids;
}

}  // namespace tandem::exec
