#include <algorithm>
#include <system_error>
#include <utility>

#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "exec/tokenizer/gguf_tokenizer.hpp"
#include "exec/tokenizer/sentencepiece_tokenizer.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "exec/tokenizer/vocabulary.hpp"
#include "exec/tokenizer/word_piece_tokenizer.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

// The classes of Hugging Face's library that make the same tokens of these files as tandem.
constexpr std::string_view kPieceClasses[] = {"LlamaTokenizer",      "CodeLlamaTokenizer",
                                              "InternLM2Tokenizer",  "YiTokenizer",
                                              "PreTrainedTokenizer", "TokenizersBackend"};
constexpr std::string_view kWordClasses[] = {"BertTokenizer", "DistilBertTokenizer"};
constexpr std::string_view kByteLevelClasses[] = {"PreTrainedTokenizer", "TokenizersBackend",
                                                  "GPT2Tokenizer", "Qwen2Tokenizer",
                                                  "LlamaTokenizer"};
constexpr std::string_view kGpt2Classes[] = {"GPT2Tokenizer"};

// Defaults of GPT2Tokenizer for absent settings.
TokenSettings gpt2_settings(TokenSettings settings) {
  constexpr const char* kEnd = "<|endoftext|>";
  for (std::string* role : {&settings.bos, &settings.eos}) {
    if (role->empty()) *role = kEnd;
    settings.named.push_back(*role);
  }
  std::ranges::sort(settings.named);
  settings.named.erase(std::unique(settings.named.begin(), settings.named.end()),
                       settings.named.end());
  return settings;
}

// Whether tokenizer.json (beside vocab.txt) or tokenizer_config.json decides how words are
// normalised depends on the version of Hugging Face's library.
void check_words(const std::string& text, const std::string& source,
                 const TokenSettings& settings) {
  const model::JsonDocument document(
      text, source, "correct one of them, or leave tokenizer.json out", {.bytes = kMaxFileBytes});
  const auto normalizer = document.root().find("normalizer");
  if (!normalizer)
    document.root().fail("an object with a normalizer, as vocab.txt beside it needs");
  if (const auto type = normalizer->at("type"); type.text() != "BertNormalizer")
    type.fail("\"BertNormalizer\", as vocab.txt beside it needs");
  const bool lower = settings.lower_case.value_or(true);
  const auto same = [&](const char* key, bool absent, bool said) {
    const auto field = normalizer->find(key);
    if ((field ? field->boolean() : absent) == said) return;
    normalizer->at(key).fail(std::string(said ? "true" : "false") +
                             ", as tokenizer_config.json or its absence says");
  };
  same("lowercase", true, lower);
  same("strip_accents", lower, settings.strip_accents.value_or(lower));
  same("handle_chinese_chars", true, settings.chinese_alone);
}

}  // namespace

std::string Tokenizer::first_piece(std::int32_t id, bool& at_start) const {
  at_start = false;
  return piece(id);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                          const model::Transformer& transformer) {
  if (is_gguf(folder)) return make_tokenizer(gguf_vocabulary(GgufFile(folder)), transformer);
  const std::filesystem::path words = folder / "vocab.txt";
  if (is_present(folder / "tokenizer.model") || !is_present(words))
    return make_tokenizer(folder_vocabulary(folder), transformer);
  const TokenSettings settings = read_token_settings(folder);
  settings.expect_class(kWordClasses, "vocab.txt");
  if (const std::filesystem::path other = folder / "tokenizer.json"; is_present(other))
    check_words(read_text(other, kMaxFileBytes), other.string(), settings);
  return word_piece_tokenizer(read_text(words, kMaxFileBytes), words.string(), settings,
                              transformer.vocab);
}

Vocabulary folder_vocabulary(const std::filesystem::path& folder) {
  const std::filesystem::path pieces = folder / "tokenizer.model";
  const std::filesystem::path json = folder / "tokenizer.json";
  const bool has_pieces = is_present(pieces);
  const std::string model = has_pieces ? read_text(pieces, kMaxFileBytes) : "";
  const bool passed_over = is_tiktoken(model);
  if (passed_over && !is_present(json))
    throw Error(pieces.string() +
                ": has tiktoken's lines of base64 and ranks, expected SentencePiece's model; put "
                "the tokenizer.json of the same model in Hugging Face's form beside it");
  if (has_pieces && !passed_over) {
    TokenSettings settings = read_token_settings(folder);
    settings.expect_class(kPieceClasses, "tokenizer.model");
    return {.kind = parse_sentencepiece(model, pieces.string()),
            .settings = std::move(settings),
            .source = pieces.string()};
  }
  if (is_present(json)) {
    TokenSettings settings = read_token_settings(folder);
    settings.expect_class(kByteLevelClasses, "tokenizer.json");
    return {.kind = parse_tokenizer_json(read_text(json, kMaxFileBytes), json.string()),
            .settings = std::move(settings),
            .source = json.string()};
  }
  const std::filesystem::path vocabulary = folder / "vocab.json";
  const std::filesystem::path merges = folder / "merges.txt";
  if (is_present(vocabulary) && is_present(merges)) {
    TokenSettings settings = gpt2_settings(read_token_settings(folder));
    settings.expect_class(kGpt2Classes, "vocab.json and merges.txt");
    TokenizerJson tokens = parse_vocabulary_and_merges(
        read_text(vocabulary, kMaxFileBytes), vocabulary.string(), read_text(merges, kMaxFileBytes),
        merges.string(), settings.prefix_space.value_or(false));
    for (const std::string& text : settings.named) {
      const auto known = tokens.vocab.find(text);
      if (known != tokens.vocab.end()) tokens.added.push_back({.text = text, .id = known->second});
    }
    return {
        .kind = std::move(tokens), .settings = std::move(settings), .source = vocabulary.string()};
  }
  for (const char* other : {"vocab.json", "merges.txt", "tekken.json", "tokenizer_config.json",
                            "special_tokens_map.json", "added_tokens.json"}) {
    if (!is_present(folder / other)) continue;
    throw Error((folder / other).string() +
                ": belongs to a vocabulary that is not here, or of a kind that is not read, "
                "expected tokenizer.model, tokenizer.json, vocab.txt, or vocab.json and merges.txt "
                "beside it; copy them, have Hugging Face's transformers save the tokenizer, or "
                "give token ids with --prompt-ids");
  }
  return {};
}

std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary,
                                          const model::Transformer& transformer) {
  if (const auto* pieces = std::get_if<SentencePieceModel>(&vocabulary.kind))
    return sentencepiece_tokenizer(*pieces, vocabulary.source, vocabulary.settings,
                                   transformer.vocab);
  if (auto* pieces = std::get_if<ScoredPieces>(&vocabulary.kind))
    return scored_pieces_tokenizer(std::move(*pieces), vocabulary.source, vocabulary.settings,
                                   transformer.vocab);
  if (auto* pairs = std::get_if<TokenizerJson>(&vocabulary.kind))
    return byte_level_tokenizer(std::move(*pairs), vocabulary.source, vocabulary.settings,
                                transformer.vocab);
  if (const auto* words = std::get_if<WordPieces>(&vocabulary.kind))
    return word_piece_tokenizer(words->lines, vocabulary.source, vocabulary.settings,
                                transformer.vocab);
  return byte_tokenizer(transformer.vocab, transformer.bos_token);
}

std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::string text;
  bool at_start = true;
  for (const std::int32_t id : ids) {
    text += at_start ? tokenizer.first_piece(id, at_start) : tokenizer.piece(id);
  }
  return text;
}

std::string StreamingDecoder::push(std::int32_t id) {
  pending_ += at_start_ ? tokenizer_->first_piece(id, at_start_) : tokenizer_->piece(id);
  return take_printable(pending_, false);
}

std::string StreamingDecoder::finish() { return take_printable(pending_, true); }

}  // namespace tandem::exec
