#include "cli/flags/prompt.hpp"

#include <iostream>
#include <limits>
#include <sstream>

#include "cli/files/files.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::cli {
namespace {

std::vector<std::int32_t> read_ids(const std::string& path) {
  constexpr std::size_t kShown = 40;
  std::istringstream words(read_file(path));
  std::vector<std::int32_t> ids;
  for (std::string word; words >> word;) {
    std::size_t used = 0;
    long long id = -1;
    try {
      id = std::stoll(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      throw Error(path + ": '" + model::one_line(word, kShown) +
                  "', expected token ids, whole numbers from 0, separated by spaces or lines");
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.empty()) throw Error(path + ": no token ids, expected at least one; write the prompt");
  return ids;
}

}  // namespace

std::unique_ptr<exec::Tokenizer> tokenizer_of(const Options& options,
                                              const model::Transformer& model,
                                              const std::filesystem::path& weights, bool ids_only) {
  try {
    return exec::load_tokenizer(weights, model);
  } catch (const Error& error) {
    if (!ids_only) throw;
    if (!options.has("quiet")) std::cerr << "tandem: " << error.what() << "; printing token ids\n";
    return exec::number_tokenizer(model.vocab);
  }
}

namespace {

// As many tokens as were planned, of a text that says what it is.
std::vector<std::int32_t> default_prompt(const exec::Tokenizer& tokenizer, std::int64_t tokens) {
  std::string text;
  std::vector<std::int32_t> ids;
  while (static_cast<std::int64_t>(ids.size()) < tokens) {
    text += "Many devices of one home share the work of one model. ";
    ids = tokenizer.encode(text);
  }
  ids.resize(static_cast<std::size_t>(tokens));
  return ids;
}

}  // namespace

exec::WrittenTokens written_tokens(const Options& options) {
  return options.has("raw-prompt") ? exec::WrittenTokens::text : exec::WrittenTokens::tokens;
}

std::vector<std::int32_t> encoded_prompt(const exec::Tokenizer& tokenizer, const std::string& text,
                                         exec::WrittenTokens written, const std::string& subject) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, written);
  if (ids.empty())
    throw Error(subject +
                (text.empty() ? ": empty, and the model's tokenizer puts no token before a "
                                "text"
                              : ": no tokens") +
                ", expected at least one token; write a prompt");
  return ids;
}

std::vector<std::int32_t> spoken_prompt(const Options& options, const exec::Tokenizer& tokenizer,
                                        const std::filesystem::path& weights,
                                        const std::string& text) {
  if (!options.has("chat")) {
    options.refuse({"system"}, "without '--chat', whose template it is for");
    return encoded_prompt(tokenizer, text, written_tokens(options), "flag '--prompt'");
  }
  options.refuse({"raw-prompt"},
                 "with '--chat', whose template writes special tokens around the prompt");
  std::vector<exec::ChatMessage> messages;
  if (const auto system = options.text("system")) messages.push_back({"system", *system});
  messages.push_back({"user", text});
  return exec::encode_chat(exec::read_model_chat(weights), tokenizer, messages);
}

std::vector<std::int32_t> prompt_of(const Options& options, const exec::Tokenizer& tokenizer,
                                    const std::filesystem::path& weights,
                                    std::optional<std::int64_t> planned) {
  const auto text = options.text("prompt");
  const auto file = options.text("prompt-ids");
  if (text && file)
    throw Usage("flags '--prompt' and '--prompt-ids' contradict each other; give one");
  if (!text)
    options.refuse({"raw-prompt", "chat", "system"},
                   "without '--prompt', the text that it is about");
  if (!text && !file) {
    if (!planned)
      throw Usage(
          "flag '--prompt' or '--prompt-ids' is required without a plan; see 'tandem help "
          "run'");
    return default_prompt(tokenizer, *planned);
  }
  std::vector<std::int32_t> ids =
      text ? spoken_prompt(options, tokenizer, weights, *text) : read_ids(*file);
  if (text && !options.has("chat") && !options.has("raw-prompt") && !options.has("quiet") &&
      !exec::read_model_chat(weights).chat_template.empty())
    std::cerr << "tandem: the model has a chat template, which '--chat' puts around the prompt\n";
  for (const std::int32_t id : ids) {
    if (id < tokenizer.vocab()) continue;
    throw Error((text ? "flag '--prompt'" : *file) + ": token " + std::to_string(id) +
                ", expected less than the vocabulary's " + std::to_string(tokenizer.vocab()) +
                "; use ids of this model");
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  if (planned && count != *planned && !options.has("quiet")) {
    std::cerr << "tandem: the prompt has " << count << " tokens, the plan was made for " << *planned
              << "; predictions of the plan do not apply\n";
  }
  return ids;
}

}  // namespace tandem::cli
