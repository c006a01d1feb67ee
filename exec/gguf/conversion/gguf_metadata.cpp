#include "exec/gguf/conversion/gguf_metadata.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>

#include "exec/gguf/gguf_geometry.hpp"
#include "exec/gguf/gguf_words.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::Transformer;
using Kind = SentencePieceModel::Kind;

constexpr const char* kTokens = "tokenizer.ggml.tokens";

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// A value of a file as llama.cpp reads its kind: whole numbers of 32 bits, unsigned if alone.
GgufEntry entry_of(const GgufValue& value) {
  struct Entry {
    GgufEntry operator()(std::int64_t number) const {
      if (number < 0) return static_cast<std::int32_t>(number);
      return static_cast<std::uint32_t>(number);
    }
    GgufEntry operator()(double number) const { return static_cast<float>(number); }
    GgufEntry operator()(bool flag) const { return flag; }
    GgufEntry operator()(const std::string& text) const { return text; }
    GgufEntry operator()(const GgufValue::Texts& texts) const { return texts; }
    GgufEntry operator()(const GgufValue::Numbers& numbers) const {
      std::vector<std::int32_t> all;
      for (const std::int64_t number : numbers) all.push_back(static_cast<std::int32_t>(number));
      return all;
    }
    GgufEntry operator()(const GgufValue::Reals& reals) const {
      std::vector<float> all;
      for (const double number : reals) all.push_back(static_cast<float>(number));
      return all;
    }
  };
  return std::visit(Entry(), value.value);
}

class MetadataWriter {
 public:
  MetadataWriter(const Vocabulary& vocabulary, const Transformer& transformer)
      : vocabulary_(vocabulary), transformer_(transformer) {}

  VocabularyEntries write(const std::string& chat_template) {
    if (const auto* pieces = std::get_if<SentencePieceModel>(&vocabulary_.kind)) {
      write_pieces(*pieces);
    } else if (const auto* pairs = std::get_if<TokenizerJson>(&vocabulary_.kind)) {
      write_pairs(*pairs);
    } else {
      add("tokenizer.ggml.model", std::string("no_vocab"));
    }
    write_ids();
    if (!chat_template.empty()) add("tokenizer.chat_template", chat_template);
    return {.entries = std::move(entries_), .name = name(), .lost = std::move(lost_)};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(vocabulary_.source + ": " + what +
                ", which a GGUF file cannot say; convert a model with another tokenizer, or "
                "without its tokenizer's files");
  }

  void add(const char* key, GgufEntry value) { entries_.emplace_back(key, std::move(value)); }

  // A token that a file adds, unless it is there already.
  void set(std::int64_t id, const std::string& text, Kind kind, bool replace) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || id >= transformer_.vocab)
      fail("token " + shown_token(text) + " has id " + std::to_string(id) +
           ", beyond the model's " + std::to_string(transformer_.vocab));
    if (tokens_[index].empty() || replace) {
      tokens_[index] = text;
      types_[index] = static_cast<std::int32_t>(kind);
    }
  }

  void begin() {
    tokens_.assign(static_cast<std::size_t>(transformer_.vocab), "");
    types_.assign(tokens_.size(), static_cast<std::int32_t>(Kind::unused));
  }

  void add_settings(const std::vector<AddedToken>& tokens) {
    for (const AddedToken& token : tokens) {
      if (token.lstrip || token.single_word)
        fail("has token " + shown_token(token.text) +
             ", which takes white space along or stands alone");
      if (token.rstrip) strips_.insert(token.id);
      const auto index = static_cast<std::size_t>(token.id);
      const bool is_piece = index < types_.size() && !tokens_[index].empty() &&
                            types_[index] != static_cast<std::int32_t>(Kind::normal);
      if (is_piece) continue;  // SentencePiece's own kinds stand
      set(token.id, token.text, token.special ? Kind::control : Kind::user_defined, true);
    }
  }

  void finish_tokens() {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) tokens_[id] = "[PAD" + std::to_string(id) + "]";
      ids_.emplace(tokens_[id], static_cast<std::int64_t>(id));
    }
    if (ids_.size() != tokens_.size()) fail("has two tokens of the same text");
    add(kTokens, tokens_);
    add("tokenizer.ggml.token_type", types_);
  }

  // The token whose white space behind it a file of that general.name would have otherwise; "":
  // none.
  [[nodiscard]] std::string stripped_otherwise(const std::string& name) const {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const auto kind = static_cast<Kind>(types_[id]);
      if (kind != Kind::control && kind != Kind::unknown && kind != Kind::user_defined) continue;
      const bool strips = strips_.contains(static_cast<std::int64_t>(id));
      if (strips != gguf_takes_space_behind(name, tokens_[id])) return tokens_[id];
    }
    return "";
  }

  // llama.cpp recognises Phi 3's tokens that absorb the white space behind them by the model's
  // name, and searches four of them.
  [[nodiscard]] std::string name() const {
    const std::string& own = transformer_.name;
    const std::string other = stripped_otherwise(own);
    if (other.empty()) return own;
    std::string called = "Phi-3 " + own;
    constexpr const char* kNeeded[] = {"<unk>", "<s>", "</s>", "<|endoftext|>"};
    if (stripped_otherwise(called).empty() &&
        std::ranges::all_of(kNeeded, [this](const char* text) { return ids_.contains(text); }))
      return called;
    if (gguf_takes_space_behind(own, other))
      fail("has token " + shown_token(other) +
           ", which takes no white space along, as it would in "
           "a model called '" +
           own + "'");
    fail("has token " + shown_token(other) + ", which takes white space along or stands alone");
  }

  void write_pieces(const SentencePieceModel& model) {
    if (model.algorithm != SentencePieceModel::Algorithm::bpe)
      fail("is of another kind than SentencePiece's BPE");
    if (!model.charsmap.empty()) fail("has rules of normalisation");
    if (model.space_as_suffix || !model.escape_whitespaces) fail("marks spaces in another way");
    if (model.remove_extra_whitespaces) fail("removes spaces of texts");
    const TokenSettings& settings = vocabulary_.settings;
    const bool prefix =
        model.add_dummy_prefix && (settings.legacy || settings.prefix_space.value_or(true));
    begin();
    std::vector<float> scores(tokens_.size(), 0.0F);
    const std::vector<bool> merges = mergeable(model.pieces);
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      const SentencePieceModel::Piece& piece = model.pieces[id];
      // SentencePiece splits it up again.
      if (piece.kind == Kind::unused && merges[id])
        fail("has unused piece " + shown_token(piece.text) + ", which merges make");
      if (piece.kind == Kind::user_defined) {
        set_user_defined(static_cast<std::int64_t>(id), piece.text, prefix);
      } else {
        set(static_cast<std::int64_t>(id), piece.text, piece.kind, true);
      }
      scores[id] = model.pieces[id].score;
    }
    if (prefix && !settings.legacy)
      lost_ += std::string(lost_.empty() ? "" : "; ") +
               "text behind special tokens begins a new word in a GGUF file, where the folder's "
               "(legacy is false) does not, which may change its tokens";
    add_settings(settings.tokens);
    add("tokenizer.ggml.model", std::string("llama"));
    add("tokenizer.ggml.pre", std::string("default"));
    finish_tokens();
    add("tokenizer.ggml.scores", scores);
    add("tokenizer.ggml.add_space_prefix", prefix);
    add("tokenizer.ggml.remove_extra_whitespaces", model.remove_extra_whitespaces);
    bos_ = id_of(settings.bos.empty() ? model.bos_piece : settings.bos);
    eos_ = id_of(settings.eos.empty() ? model.eos_piece : settings.eos);
    add("tokenizer.ggml.add_bos_token", settings.add_bos.value_or(true) && bos_ >= 0);
    add("tokenizer.ggml.add_eos_token", settings.add_eos.value_or(false) && eos_ >= 0);
  }

  // A user-defined piece. SentencePiece searches it in texts with U+2581 for their spaces, also the
  // leading one; llama.cpp in the unchanged text, whose pieces never contain a space.
  void set_user_defined(std::int64_t id, const std::string& piece, bool prefix) {
    constexpr std::string_view kSpace = "\xE2\x96\x81";
    if (piece.find(' ') != std::string::npos) return set(id, piece, Kind::unused, true);
    std::string text = piece;
    for (std::size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos; ++at)
      text.replace(at, kSpace.size(), " ");
    if (prefix && text != piece)
      fail("has user-defined piece " + shown_token(piece) +
           " with spaces, and puts a space in front of texts");
    if (prefix)
      lost_ = "text behind user-defined pieces, such as " + shown_token(piece) +
              ", begins a new word in a GGUF file, which may change its tokens";
    set(id, text, Kind::user_defined, true);
  }

  // The row whose patterns and merges are those of `json`.
  const GgufWords& words_of(const TokenizerJson& json) {
    if (json.forms == std::vector{UnicodeForm::nfc}) {
      lost_ =
          "normalisation of texts (NFC) is not written, as GGUF has none: texts that are not in "
          "that form get other tokens";
    } else if (!json.forms.empty()) {
      fail("normalises texts");
    }
    std::vector<std::string_view> patterns;
    for (const TokenizerJson::Step& step : json.steps) {
      if (!step.pattern) continue;
      if (step.pattern->is_literal() || step.pattern->gaps() != SplitPattern::Gaps::keep)
        fail("cuts texts into words in an unknown way");
      patterns.push_back(step.pattern->text());
    }
    for (const GgufWords& words : known_gguf_words()) {
      if (words.patterns == patterns && words.ignore_merges == json.ignore_merges) return words;
    }
    fail("cuts texts into words by " +
         (patterns.empty() ? std::string("no pattern") : shown_token(patterns.front())));
  }

  void write_pairs(const TokenizerJson& json) {
    const GgufWords& words = words_of(json);
    const TokenSettings& settings = vocabulary_.settings;
    if (json.unknown >= 0) fail("has a token for unknown bytes");
    begin();
    for (const auto& [text, id] : json.vocab) set(id, text, Kind::normal, true);
    for (const auto* list : {&json.added, &settings.tokens}) add_settings(*list);
    add("tokenizer.ggml.model", std::string("gpt2"));
    add("tokenizer.ggml.pre", std::string(words.names.front()));
    finish_tokens();
    std::vector<std::string> merges;
    merges.reserve(json.merges.size());
    for (const TokenizerJson::Merge& merge : json.merges)
      merges.push_back(tokens_[static_cast<std::size_t>(merge.left)] + " " +
                       tokens_[static_cast<std::size_t>(merge.right)]);
    add("tokenizer.ggml.merges", merges);
    if (std::ranges::any_of(json.steps, &TokenizerJson::Step::add_prefix_space))
      fail("puts a space in front of texts");
    add("tokenizer.ggml.add_space_prefix", false);
    bos_ = id_of(settings.bos);
    eos_ = id_of(settings.eos);
    const auto edge = [&](const std::vector<std::int32_t>& side, std::int64_t& role,
                          const std::optional<bool>& said) {
      if (side.size() > 1) fail("puts several tokens at an end of each text");
      if (!side.empty() && role < 0) role = side.front();
      if (!side.empty() && role != side.front()) fail("puts another token than bos or eos there");
      return said.value_or(!side.empty());
    };
    add("tokenizer.ggml.add_bos_token", edge(json.front, bos_, settings.add_bos));
    add("tokenizer.ggml.add_eos_token", edge(json.back, eos_, settings.add_eos));
  }

  [[nodiscard]] std::int64_t id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() || text.empty() ? -1 : found->second;
  }

  // Ids of the tokenizer's files take precedence, as they are written around texts; the model's ids
  // in config.json are kept where they differ, for example beyond the vocabulary.
  void write_ids() {
    const auto token = [&](std::int64_t id) { return id < transformer_.vocab ? id : -1; };
    const std::int64_t bos = bos_ >= 0 ? bos_ : token(transformer_.bos_token);
    if (bos >= 0) add("tokenizer.ggml.bos_token_id", u32(bos));
    if (bos != transformer_.bos_token)
      entries_.emplace_back(
          "tandem.bos_token_id",
          std::vector<std::int32_t>{static_cast<std::int32_t>(transformer_.bos_token)});
    std::vector<std::int64_t> ends;
    const auto end = [&](std::int64_t id) {
      if (token(id) >= 0 && std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    };
    end(eos_);
    for (const std::int64_t id : transformer_.eos_tokens) end(id);
    for (const std::int64_t id : vocabulary_.settings.stops) end(id);
    constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
    const std::size_t most = std::min(ends.size(), std::size(kKeys));
    for (std::size_t i = 0; i < most; ++i) add(kKeys[i], u32(ends[i]));
    ends.resize(most);
    if (ends == transformer_.eos_tokens) return;
    const std::vector<std::int64_t>& own = transformer_.eos_tokens;
    entries_.emplace_back("tandem.eos_token_ids",
                          std::vector<std::int32_t>(own.begin(), own.end()));
  }

  const Vocabulary& vocabulary_;
  const Transformer& transformer_;
  GgufEntries entries_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> types_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::set<std::int64_t> strips_;  // tokens that take white space behind them along
  std::string lost_;
  std::int64_t bos_ = -1;
  std::int64_t eos_ = -1;
};

}  // namespace

namespace {

[[noreturn]] void cannot_say(const Transformer& t, const std::string& what) {
  throw Error("model " + t.name + ": " + what +
              ", which a GGUF file of its family cannot say; give a folder for --out");
}

// Every how-many-th layer has no window.
std::int64_t window_period(const Transformer& t) {
  for (std::int64_t every = 1; every <= t.layers + 1; ++every) {
    if (t.windowed == gguf_windowed(t.layers, every)) return every;
  }
  cannot_say(t, "windowed layers in no period");
}

// Adds family-specific keys in addition to sizes and rotation. Values that files imply must be as
// implied.
void add_family(const Transformer& t, const std::string& arch, GgufEntries& entries) {
  using model::Family;
  const auto real = [&](const char* key, double value) {
    entries.emplace_back(arch + key, static_cast<float>(value));
  };
  const bool gemma = t.family == Family::gemma2 || t.family == Family::gemma3;
  if (t.family == Family::granite) {
    real(".attention.scale", t.attention_scale);
    real(".embedding_scale", t.embedding_scale);
    real(".residual_scale", t.residual_scale);
    real(".logit_scale", t.logit_divisor);
    return;
  }
  if (t.family == Family::smollm3 && t.unrotated != gguf_unrotated(t.layers))
    cannot_say(t, "layers without positions that are not every fourth");
  if (!gemma) {
    if (t.window > 0) cannot_say(t, "layers that attend within a window");
    return;
  }
  if (t.attention_scale != gguf_attention_scale(t)) cannot_say(t, "another query_pre_attn_scalar");
  if (t.window == 0) cannot_say(t, "no layer that attends within a window");
  entries.emplace_back(arch + ".attention.sliding_window", u32(t.window));
  if (const std::int64_t every = window_period(t); every != gguf_window_period(t.family))
    entries.emplace_back(arch + ".attention.sliding_window_pattern", u32(every));
  if (t.family == Family::gemma2) {
    if (t.score_cap == 0.0 || t.logit_cap == 0.0) cannot_say(t, "scores or logits without a cap");
    real(".attn_logit_softcapping", t.score_cap);
    real(".final_logit_softcapping", t.logit_cap);
    return;
  }
  if (t.score_cap != 0.0 || t.logit_cap != 0.0) cannot_say(t, "caps of scores or logits");
  real(".rope.freq_base_swa", t.window_rope_theta);
}

}  // namespace

GgufEntries geometry_entries(const Transformer& t, std::optional<model::WeightFormat> format) {
  const std::string arch(t.query_growth > 0.0 ? kMistral3 : gguf_name(t.family));
  if (arch.empty())
    throw Error("model " + t.name + ": family " + std::string(model::to_string(t.family)) +
                ", expected one that GGUF has; give a folder for --out");
  GgufEntries entries;
  const auto add = [&](const std::string& key, GgufEntry value) {
    entries.emplace_back(key, std::move(value));
  };
  add("general.architecture", arch);
  add("general.type", std::string("model"));
  add("general.name", t.name);
  add("general.quantization_version", std::uint32_t{2});
  if (format) add("general.file_type", model::row_of(*format).file_type);
  add(arch + ".block_count", u32(t.layers));
  add(arch + ".context_length", u32(t.max_context));
  add(arch + ".embedding_length", u32(t.hidden));
  add(arch + ".feed_forward_length", u32(t.intermediate));
  add(arch + ".attention.head_count", u32(t.heads));
  add(arch + ".vocab_size", u32(t.vocab));
  const auto epsilon = static_cast<float>(t.norm_epsilon);
  if (t.architecture().learned()) {
    if (t.activation != model::Activation::gelu_tanh)
      throw Error("model " + t.name + ": activation " +
                  std::string(model::to_string(t.activation)) +
                  ", expected gelu_new for a GGUF file; give a folder for --out");
    add(arch + ".attention.layer_norm_epsilon", epsilon);
    return entries;
  }
  add(arch + ".attention.head_count_kv", u32(t.kv_heads));
  add(arch + ".attention.key_length", u32(t.head_dim));
  add(arch + ".attention.value_length", u32(t.head_dim));
  add(arch + ".attention.layer_norm_rms_epsilon", epsilon);
  add(arch + ".rope.dimension_count", u32(t.rotated()));
  add_family(t, arch, entries);
  add(arch + ".rope.freq_base", static_cast<float>(t.rope_theta));
  if (!t.rope_scaling) return entries;
  const model::RopeScaling& scaling = *t.rope_scaling;
  if ((scaling.kind == model::RopeScaling::Kind::longrope) != (t.family == model::Family::phi3))
    cannot_say(t, "rotation scaled as rope_scaling says");
  if (scaling.kind == model::RopeScaling::Kind::linear) {
    add(arch + ".rope.scaling.type", std::string("linear"));
    add(arch + ".rope.scaling.factor", static_cast<float>(scaling.factor));
    return entries;
  }
  if (scaling.kind == model::RopeScaling::Kind::yarn) {
    add(arch + ".rope.scaling.type", std::string("yarn"));
    add(arch + ".rope.scaling.factor", static_cast<float>(scaling.factor));
    add(arch + ".rope.scaling.original_context_length", u32(scaling.original_context));
    if (t.query_growth > 0.0) {
      if (scaling.attention_factor != 1.0F || !scaling.whole_pairs)
        cannot_say(t, "YaRN with growth of its own");
      add(arch + ".rope.scaling.yarn_beta_fast", static_cast<float>(scaling.fast_turns));
      add(arch + ".rope.scaling.yarn_beta_slow", static_cast<float>(scaling.slow_turns));
      add(arch + ".rope.scaling.yarn_log_multiplier", 1.0F);
      add(arch + ".attention.temperature_scale", static_cast<float>(t.query_growth));
      return entries;
    }
    const model::RopeScaling usual;
    if (scaling.fast_turns != usual.fast_turns || scaling.slow_turns != usual.slow_turns ||
        !scaling.whole_pairs)
      cannot_say(t, "YaRN with bounds of its own");
    const double growth = gguf_yarn_growth(scaling.factor);
    if (scaling.attention_factor == static_cast<float>(growth)) return entries;
    // llama.cpp has it in the layers of the window, too.
    if (t.family == model::Family::gemma3) cannot_say(t, "YaRN with growth of its own");
    add(arch + ".rope.scaling.attn_factor",
        static_cast<float>(static_cast<double>(scaling.attention_factor) / growth));
    add(std::string(kRopeAttentionFactor), scaling.attention_factor);  // that was rounded
    return entries;
  }
  if (scaling.kind == model::RopeScaling::Kind::longrope) {  // its lists are tensors
    add(arch + ".rope.scaling.original_context_length", u32(scaling.original_context));
    add(arch + ".rope.scaling.attn_factor", scaling.attention_factor);
    return entries;
  }
  if (!gguf_has_rope_factors(t.family)) cannot_say(t, "Llama 3.1's scaling of rotation");
  // The factors are a tensor; by these they are found again.
  add(arch + ".rope.scaling.original_context_length", u32(scaling.original_context));
  add("tandem.rope.factor", static_cast<float>(scaling.factor));
  add("tandem.rope.low_frequency_factor", static_cast<float>(scaling.low_frequency_factor));
  add("tandem.rope.high_frequency_factor", static_cast<float>(scaling.high_frequency_factor));
  return entries;
}

VocabularyEntries vocabulary_entries(const Vocabulary& vocabulary, const Transformer& transformer,
                                     const std::string& chat_template) {
  return MetadataWriter(vocabulary, transformer).write(chat_template);
}

GgufEntries carried_vocabulary(const GgufFile& file) {
  GgufEntries entries;
  for (const auto& [key, value] : file.values()) {
    const bool is_own = key == "tandem.bos_token_id" || key == "tandem.eos_token_ids";
    if (!is_own && !key.starts_with("tokenizer.")) continue;
    entries.emplace_back(key, entry_of(value));
  }
  if (!file.text("tokenizer.ggml.model"))
    entries.emplace_back("tokenizer.ggml.model", std::string("no_vocab"));
  return entries;
}

}  // namespace tandem::exec
