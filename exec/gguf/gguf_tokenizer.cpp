#include "exec/gguf/gguf_tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

using Kind = SentencePieceModel::Kind;

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Keys that change no token of a text.
bool is_harmless(const std::string& key) {
  constexpr std::string_view kBegins[] = {"tokenizer.chat_template", "tokenizer.huggingface.",
                                          "tokenizer.rwkv."};
  if (std::ranges::any_of(kBegins, [&](std::string_view begin) { return key.starts_with(begin); }))
    return true;
  return key.ends_with("_token_id") || key == "tokenizer.ggml.token_type_count";
}

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  Vocabulary read() {
    const std::string kind = file_.text("tokenizer.ggml.model").value_or("no_vocab");
    if (kind == "llama" || kind == "gpt2") read_tokens();
    if (kind == "llama") {
      read_pieces();
    } else if (kind == "gpt2") {
      read_pairs();
    } else if (kind != "no_vocab") {
      file_.fail("tokenizer.ggml.model",
                 "llama (SentencePiece) or gpt2 (byte-level BPE); give token ids with "
                 "--prompt-ids");
    }
    for (const std::string& key : file_.unknown("tokenizer.")) {
      if (is_harmless(key)) continue;
      file_.fail(key,
                 "only keys that tandem knows, as it may change the tokens of a text; give token "
                 "ids with --prompt-ids");
    }
    result_.source = file_.path().string();
    check(result_);
    return std::move(result_);
  }

 private:
  // As strictly as the folder's file is.
  static void check(Vocabulary& vocabulary) {
    if (auto* pieces = std::get_if<SentencePieceModel>(&vocabulary.kind))
      *pieces = parse_sentencepiece(to_bytes(*pieces), vocabulary.source);
  }

  void read_tokens() {
    const std::string key = "tokenizer.ggml.tokens";
    tokens_ = file_.texts(key);
    if (tokens_ == nullptr || tokens_->empty()) file_.fail(key, "an array of texts");
    types_.assign(tokens_->size(), 1);
    if (const auto* types = file_.numbers("tokenizer.ggml.token_type")) {
      same_length("tokenizer.ggml.token_type", types->size());
      types_ = *types;
      if (std::ranges::any_of(types_, [](std::int64_t type) { return type < 1 || type > 6; }))
        file_.fail("tokenizer.ggml.token_type", "an array of types from 1 to 6");
    }
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      const std::string& text = (*tokens_)[id];
      if (text.size() > kMaxTokenBytes || valid_utf8(text) != text)
        file_.fail(key, "UTF-8 of at most " + std::to_string(kMaxTokenBytes) + " bytes as token " +
                            std::to_string(id) + ", not " + shown_token(text));
      const auto [there, is_new] = ids_.emplace(text, static_cast<std::int32_t>(id));
      if (!is_new)
        file_.fail(key, "different tokens; " + std::to_string(there->second) + " and " +
                            std::to_string(id) + " both are " + shown_token(text));
    }
  }

  void same_length(const std::string& key, std::size_t length) const {
    if (length != tokens_->size())
      file_.fail(key, std::to_string(tokens_->size()) + " entries, one for each token");
  }

  // The token's text; empty: none.
  std::string role(const char* name) {
    const std::string key = std::string("tokenizer.ggml.") + name;
    const auto id = file_.integer(key, 0, std::numeric_limits<std::int32_t>::max());
    if (!id) return "";
    if (static_cast<std::size_t>(*id) >= tokens_->size())
      file_.fail(key, "a token below " + std::to_string(tokens_->size()));
    return (*tokens_)[static_cast<std::size_t>(*id)];
  }

  void read_settings(bool adds_bos) {
    TokenSettings& s = result_.settings;
    s.bos = role("bos_token_id");
    s.eos = role("eos_token_id");
    s.add_bos = file_.boolean("tokenizer.ggml.add_bos_token").value_or(adds_bos && !s.bos.empty());
    s.add_eos = file_.boolean("tokenizer.ggml.add_eos_token").value_or(false);
    for (const std::string& text : {s.bos, s.eos}) {
      if (!text.empty()) s.named.push_back(text);
    }
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
      if (const std::string text = role(name); !text.empty()) s.stops.push_back(ids_.at(text));
    }
    if (file_.boolean("tokenizer.ggml.add_sep_token").value_or(false))
      file_.fail("tokenizer.ggml.add_sep_token", "false");
  }

  void read_pieces() {
    SentencePieceModel model;
    const auto* scores = file_.reals("tokenizer.ggml.scores");
    same_length("tokenizer.ggml.scores", scores == nullptr ? 0 : scores->size());
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      const auto kind = static_cast<Kind>(types_[id]);
      model.pieces.push_back(
          {.text = (*tokens_)[id], .score = static_cast<float>((*scores)[id]), .kind = kind});
      if (kind == Kind::byte) model.byte_fallback = true;
      // Looked for before anything else, like special tokens.
      if (kind == Kind::user_defined)
        result_.settings.tokens.push_back(
            {.text = (*tokens_)[id], .id = static_cast<std::int64_t>(id), .special = false});
      if (kind == Kind::unknown) model.unk_piece = (*tokens_)[id];
    }
    // Of files whose kind has it: what llama.cpp takes for granted for this one.
    const std::string pre = file_.text("tokenizer.ggml.pre").value_or("default");
    if (pre != "default") file_.fail("tokenizer.ggml.pre", "'default' of a SentencePiece model");
    model.algorithm = SentencePieceModel::Algorithm::bpe;
    model.add_dummy_prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
    model.remove_extra_whitespaces =
        file_.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    // Pieces that merges would make: llama.cpp goes by the scores alone.
    static_cast<void>(file_.find("tokenizer.ggml.merges"));
    read_settings(true);
    // Text behind a special token begins a new word.
    result_.settings.legacy = true;
    if (!result_.settings.bos.empty()) model.bos_piece = result_.settings.bos;
    if (!result_.settings.eos.empty()) model.eos_piece = result_.settings.eos;
    result_.kind = std::move(model);
  }

  void read_pairs() {
    TokenizerJson json;
    const GgufWords& words = read_words();
    json.ignore_merges = words.ignore_merges;
    for (const std::string_view pattern : words.patterns) {
      json.steps.emplace_back();
      json.steps.back().pattern.emplace(std::string(pattern), false, SplitPattern::Gaps::keep,
                                        file_.path().string());
    }
    if (file_.boolean("tokenizer.ggml.add_space_prefix").value_or(false)) {
      if (json.steps.empty()) json.steps.emplace_back();
      json.steps.front().add_prefix_space = true;
    }
    static_cast<void>(file_.find("tokenizer.ggml.scores"));
    for (std::size_t i = 0; i < tokens_->size(); ++i) {
      const std::string& text = (*tokens_)[i];
      const auto id = static_cast<std::int32_t>(i);
      const auto kind = static_cast<Kind>(types_[i]);
      if (kind == Kind::unused) continue;
      if (kind == Kind::normal || kind == Kind::byte) {
        json.vocab.emplace(text, id);
      } else {
        json.added.push_back({.text = text, .id = id, .special = kind != Kind::user_defined});
      }
    }
    read_merges(json);
    check_bytes(json);
    read_settings(words.adds_bos);
    result_.kind = std::move(json);
  }

  const GgufWords& read_words() const {
    const std::string key = "tokenizer.ggml.pre";
    const std::string pre = file_.text(key).value_or("");
    std::string known;
    for (const GgufWords& words : known_gguf_words()) {
      for (const std::string_view name : words.names) {
        if (pre == name) return words;
        known += (known.empty() ? "" : ", ") + std::string(name);
      }
    }
    file_.fail(key, "one of " + known +
                        ", which say how texts are cut into words; give token ids with "
                        "--prompt-ids");
  }

  void read_merges(TokenizerJson& json) const {
    const std::string key = "tokenizer.ggml.merges";
    const auto* merges = file_.texts(key);
    if (merges == nullptr) file_.fail(key, "an array of texts");
    json.merges.reserve(merges->size());
    for (const std::string& merge : *merges) {
      const std::size_t space = merge.find(' ', 1);
      const auto id_of = [&](const std::string& token) {
        const auto found = ids_.find(token);
        if (found != ids_.end()) return found->second;
        file_.fail(key,
                   "two tokens of the vocabulary that make up a third, with a space between, "
                   "not " +
                       shown_token(merge));
      };
      if (merge.empty() || space == std::string::npos) static_cast<void>(id_of(merge + " "));
      const std::string left = merge.substr(0, space);
      const std::string right = merge.substr(space + 1);
      json.merges.push_back(
          {.left = id_of(left), .right = id_of(right), .merged = id_of(left + right)});
    }
  }

  // Every byte that UTF-8 can have needs a token, or text would be lost.
  void check_bytes(TokenizerJson& json) const {
    for (unsigned byte = 0; byte < 0xF5; ++byte) {
      if (byte == 0xC0 || byte == 0xC1) continue;
      const std::string letter = to_utf8(letter_of(static_cast<unsigned char>(byte)));
      if (json.vocab.contains(letter)) continue;
      file_.fail("tokenizer.ggml.tokens", "one for each byte of UTF-8, also " +
                                              std::to_string(byte) + " (" + shown_token(letter) +
                                              ")");
    }
  }

  const GgufFile& file_;
  const GgufValue::Texts* tokens_ = nullptr;
  GgufValue::Numbers types_;
  std::unordered_map<std::string, std::int32_t> ids_;
  Vocabulary result_;
};

}  // namespace

// Names and what they mean: llama.cpp's src/llama-vocab.cpp; patterns as in the tokenizer.json of
// the models that they stand for.
const std::vector<GgufWords>& known_gguf_words() {
  static const std::vector<GgufWords> known{
      {.names = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "trillion"},
       .patterns = {kGpt2}},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3"},
       .patterns = {kLlama3},
       .ignore_merges = true,
       .adds_bos = true},
      {.names = {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"}, .patterns = {kQwen2}},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"},
       .patterns = {R"(\p{N})", kGpt2}},
      {.names = {"tekken"}, .patterns = {kTekken}, .ignore_merges = true, .adds_bos = true},
      {.names = {"default"},
       .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}}};
  return known;
}

Vocabulary gguf_vocabulary(const GgufFile& file) { return Reader(file).read(); }

}  // namespace tandem::exec
