#include "exec/tokenizer/gguf_tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "exec/gguf/gguf_words.hpp"
#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using Kind = SentencePieceModel::Kind;

// Tokens that end a generation of some model. llama.cpp treats each as a control token.
constexpr std::string_view kEnds[] = {"<|eot_id|>",
                                      "<|im_end|>",
                                      "<|end|>",
                                      "<|return|>",
                                      "<|call|>",
                                      "<|flush|>",
                                      "<|calls|>",
                                      "<end_of_turn>",
                                      "<|endoftext|>",
                                      "</s>",
                                      "<|eom_id|>",
                                      "<EOT>",
                                      "_<EOT>",
                                      "[EOT]",
                                      "[EOS]",
                                      "<|end_of_text|>",
                                      "<end_of_utterance>",
                                      "<eos>",
                                      "<turn|>",
                                      "<|tool_response>",
                                      "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                      "[e~["};

// Tokens around a gap to be filled: their texts, and the keys that name them.
struct FillRole {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> texts;
};

const std::vector<FillRole>& fill_roles() {
  static const std::vector<FillRole> roles{
      {{"fim_pre", "prefix"},
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uFF5Cfim\u2581begin\uFF5C>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"}},
      {{"fim_suf", "suffix"},
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uFF5Cfim\u2581hole\uFF5C>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"}},
      {{"fim_mid", "middle"},
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uFF5Cfim\u2581end\uFF5C>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>"}},
      {{"fim_pad"}, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {{"fim_rep"}, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {{"fim_sep"}, {"<|file_sep|>"}}};
  return roles;
}

// Keys that change no token of a text.
bool is_harmless(const std::string& key) {
  constexpr std::string_view kBegins[] = {"tokenizer.chat_template", "tokenizer.huggingface.",
                                          "tokenizer.rwkv."};
  if (std::ranges::any_of(kBegins, [&](std::string_view begin) { return key.starts_with(begin); }))
    return true;
  return key.ends_with("_token_id") || key == "tokenizer.ggml.token_type_count";
}

class VocabularyReader {
 public:
  explicit VocabularyReader(const GgufFile& file) : file_(file) {}

  Vocabulary read() {
    const std::string kind = file_.text("tokenizer.ggml.model").value_or("no_vocab");
    if (kind == "llama" || kind == "gpt2" || kind == "bert") read_tokens();
    if (kind == "llama") {
      read_pieces();
    } else if (kind == "gpt2") {
      read_pairs();
    } else if (kind == "bert") {
      read_words_and_pieces();
    } else if (kind != "no_vocab") {
      file_.fail("tokenizer.ggml.model",
                 "llama (SentencePiece), gpt2 (byte-level BPE) or bert (WordPiece); give token ids "
                 "with --prompt-ids");
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
  // As strict as for a folder's file.
  static void check(const Vocabulary& vocabulary) {
    const auto* pieces = std::get_if<ScoredPieces>(&vocabulary.kind);
    if (pieces == nullptr) return;
    SentencePieceModel model;
    model.pieces = with_one_unknown(*pieces);
    model.algorithm = SentencePieceModel::Algorithm::bpe;
    model.byte_fallback = std::ranges::any_of(
        model.pieces, [](const auto& piece) { return piece.kind == Kind::byte; });
    static_cast<void>(parse_sentencepiece(to_bytes(model), vocabulary.source));
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
    correct_types();
  }

  [[nodiscard]] bool has(std::string_view text) const { return ids_.contains(std::string(text)); }

  void set_type(std::string_view text, Kind kind) {
    const auto found = ids_.find(std::string(text));
    if (found == ids_.end()) return;
    types_[static_cast<std::size_t>(found->second)] = static_cast<std::int64_t>(kind);
  }

  // llama.cpp recognises some tokens by their texts, whatever their types.
  void correct_types() {
    for (const std::string_view text : kEnds) set_type(text, Kind::control);
    for (const FillRole& role : fill_roles()) {
      // Searched unless a key of the file names it.
      const bool said = std::ranges::any_of(role.keys, [this](std::string_view name) {
        const auto id = file_.integer("tokenizer.ggml." + std::string(name) + "_token_id", 0,
                                      std::numeric_limits<std::int64_t>::max());
        return id && static_cast<std::size_t>(*id) < tokens_->size();
      });
      if (said) continue;
      for (const std::string_view text : role.texts) set_type(text, Kind::control);
    }
    for (const std::string_view text : {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})
      set_type(text, Kind::user_defined);
    if ((has("<|call|>") || has("<|calls|>")) && (has("<|return|>") || has("<|flush|>")))
      set_type("<|end|>", Kind::user_defined);
    if (has("<|tool_response>")) set_type("</s>", Kind::normal);
  }

  // Those that are looked for in a text before anything else.
  [[nodiscard]] std::vector<AddedToken> special_tokens() const {
    const std::string name = file_.text("general.name").value_or("");
    std::vector<AddedToken> tokens;
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      const auto kind = static_cast<Kind>(types_[id]);
      if (kind != Kind::control && kind != Kind::unknown && kind != Kind::user_defined) continue;
      tokens.push_back({.text = (*tokens_)[id],
                        .id = static_cast<std::int64_t>(id),
                        .rstrip = gguf_takes_space_behind(name, (*tokens_)[id]),
                        .special = kind != Kind::user_defined});
    }
    return tokens;
  }

  void same_length(const std::string& key, std::size_t length) const {
    if (length != tokens_->size())
      file_.fail(key, std::to_string(tokens_->size()) + " entries, one for each token");
  }

  // Returns the token's text; empty: none. `absent`: the default id if the file has none.
  std::string role(const char* name, std::optional<std::int64_t> absent = std::nullopt) {
    const std::string key = std::string("tokenizer.ggml.") + name;
    auto id = file_.integer(key, 0, std::numeric_limits<std::int32_t>::max());
    if (!id && absent && static_cast<std::size_t>(*absent) < tokens_->size()) id = absent;
    if (!id) return "";
    if (static_cast<std::size_t>(*id) >= tokens_->size())
      file_.fail(key, "a token below " + std::to_string(tokens_->size()));
    return (*tokens_)[static_cast<std::size_t>(*id)];
  }

  void read_settings(bool adds_bos, std::optional<std::int64_t> bos = std::nullopt,
                     std::optional<std::int64_t> eos = std::nullopt) {
    TokenSettings& s = result_.settings;
    s.bos = role("bos_token_id", bos);
    s.eos = role("eos_token_id", eos);
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
    ScoredPieces model;
    const auto* scores = file_.reals("tokenizer.ggml.scores");
    same_length("tokenizer.ggml.scores", scores == nullptr ? 0 : scores->size());
    for (std::size_t id = 0; id < tokens_->size(); ++id)
      model.pieces.push_back({.text = (*tokens_)[id],
                              .score = static_cast<float>((*scores)[id]),
                              .kind = static_cast<Kind>(types_[id])});
    model.tokens = special_tokens();
    // Some files have their padding as unknown tokens, and the unknown one as a control token.
    const auto kind = static_cast<std::int64_t>(Kind::unknown);
    const std::int64_t first = std::ranges::find(types_, kind) - types_.begin();
    const bool is_only = std::ranges::count(types_, kind) == 1;
    const std::string said = role("unknown_token_id", 0);
    model.unknown = is_only ? static_cast<std::int32_t>(first) : ids_.at(said);
    // For kinds of files that have it: llama.cpp's default for this one.
    const std::string pre = file_.text("tokenizer.ggml.pre").value_or("default");
    if (pre != "default") file_.fail("tokenizer.ggml.pre", "'default' of a SentencePiece model");
    model.space_prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
    // llama.cpp does not remove any, and uses the scores alone even if there are merges.
    static_cast<void>(file_.find("tokenizer.ggml.remove_extra_whitespaces"));
    static_cast<void>(file_.find("tokenizer.ggml.merges"));
    read_settings(true, 1, 2);
    result_.kind = std::move(model);
  }

  // A word's first token begins with U+2581, what continues it with nothing.
  void read_words_and_pieces() {
    constexpr std::string_view kWord = "\xE2\x96\x81";
    constexpr std::string_view kContinues = "##";
    WordPieces words;
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      std::string_view token = (*tokens_)[id];
      const bool begins = token.starts_with(kWord);
      if (begins) token.remove_prefix(kWord.size());
      // No text has such a word, as white space and punctuation are words of their own.
      if (token.empty() || token.find('\n') != std::string_view::npos ||
          (begins && token.starts_with(kContinues)))
        file_.fail("tokenizer.ggml.tokens", "words and pieces of words, not " +
                                                shown_token((*tokens_)[id]) + " as token " +
                                                std::to_string(id));
      const bool is_whole = begins || types_[id] != static_cast<std::int64_t>(Kind::normal) ||
                            (token.starts_with('[') && token.ends_with(']'));
      words.lines.append(is_whole ? "" : kContinues).append(token).append("\n");
    }
    read_word_settings();
    result_.kind = std::move(words);
  }

  void read_word_settings() {
    constexpr std::int64_t kUnknown = 100;  // BERT's, where the file does not say them
    constexpr std::int64_t kFront = 101;
    constexpr std::int64_t kBack = 102;
    TokenSettings& s = result_.settings;
    s.unknown = role("unknown_token_id", kUnknown);
    s.front = role(
        "bos_token_id",
        file_.integer("tokenizer.ggml.cls_token_id", 0, std::numeric_limits<std::int32_t>::max())
            .value_or(kFront));
    s.back = role("seperator_token_id", kBack);  // sic
    for (const char* key : {"add_bos_token", "add_sep_token"}) {
      const std::string name = std::string("tokenizer.ggml.") + key;
      if (!file_.boolean(name).value_or(true)) file_.fail(name, "true of a WordPiece vocabulary");
    }
    if (file_.boolean("tokenizer.ggml.add_eos_token").value_or(false) &&
        role("eos_token_id") != s.back)
      file_.fail("tokenizer.ggml.add_eos_token", "false, as a separator is behind each text");
    s.lower_case = file_.boolean("tokenizer.ggml.normalizer.lowercase").value_or(true);
    s.strip_accents =
        file_.boolean("tokenizer.ggml.normalizer.strip_accents").value_or(*s.lower_case);
    s.tokens = special_tokens();
    for (const char* key : {"pre", "scores", "add_space_prefix", "remove_extra_whitespaces"})
      static_cast<void>(file_.find(std::string("tokenizer.ggml.") + key));
    if (const std::string text = role("eos_token_id"); !text.empty())
      s.stops.push_back(ids_.at(text));
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
    // llama.cpp adds no space before a text, whatever the file says.
    static_cast<void>(file_.find("tokenizer.ggml.add_space_prefix"));
    static_cast<void>(file_.find("tokenizer.ggml.scores"));
    for (std::size_t i = 0; i < tokens_->size(); ++i) {
      const std::string& text = (*tokens_)[i];
      const auto id = static_cast<std::int32_t>(i);
      const auto kind = static_cast<Kind>(types_[i]);
      const auto bytes = bytes_of_letters(text);
      const bool is_byte = bytes && bytes->size() == 1 && kind != Kind::control;
      const bool is_text = kind == Kind::normal || kind == Kind::byte || is_byte;
      (is_text ? json.vocab : json.silent).emplace(text, id);
    }
    json.added = special_tokens();
    json.search = TokenSearch::longest;
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

  void check_bytes(const TokenizerJson& json) const {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto one = static_cast<unsigned char>(byte);
      const std::string letter = to_utf8(letter_of(one));
      if (may_lack_token(one) || json.vocab.contains(letter)) continue;
      file_.fail("tokenizer.ggml.tokens", "one for each byte of written text, also " +
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

Vocabulary gguf_vocabulary(const GgufFile& file) { return VocabularyReader(file).read(); }

}  // namespace tandem::exec
