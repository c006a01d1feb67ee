#include "exec/tokenizer/byte_level_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/byte_pairs.hpp"
#include "exec/tokenizer/table_tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

class ByteLevelTokenizer final : public TableTokenizer {
 public:
  ByteLevelTokenizer(TokenizerJson json, const std::string& source, const TokenSettings& settings,
                     std::int64_t vocab)
      : TableTokenizer(vocab, source),
        source_(source),
        unknown_(json.unknown),
        forms_(std::move(json.forms)),
        steps_(std::move(json.steps)) {
    front_ = std::move(json.front);
    back_ = std::move(json.back);
    check_prefix(settings, source);
    fill_table(json);
    merges_.reserve(json.merges.size());
    for (std::size_t rank = 0; rank < json.merges.size(); ++rank) {
      const TokenizerJson::Merge& merge = json.merges[rank];
      merges_.add_merge(merge.left, merge.right, merge.merged, static_cast<std::uint32_t>(rank));
    }
    add_tokens(json, settings, source);
    choose_ends(json, settings, source);
  }

  [[nodiscard]] std::string guarded(std::string_view text) const override {
    return normalized_tokens_.guarded(tokens_.guarded(in_forms(text)));
  }

  [[nodiscard]] std::string description() const override {
    return "byte-level BPE, " + std::to_string(table_.count()) + " tokens";
  }

 private:
  using Words = std::unordered_map<std::string, Ids>;  // of one part: most words come again

  // The file that takes precedence depends on the version of Hugging Face's library.
  void check_prefix(const TokenSettings& settings, const std::string& source) const {
    const bool own = std::ranges::any_of(steps_, &TokenizerJson::Step::add_prefix_space);
    if (settings.prefix_space.value_or(own) == own) return;
    throw Error(source + ": add_prefix_space is " + (own ? "true" : "false") +
                ", expected the same as tokenizer_config.json says; correct one of them");
  }

  void fill_table(const TokenizerJson& json) {
    for (unsigned byte = 0; byte < 256; ++byte)
      merges_.set_byte(static_cast<unsigned char>(byte), -1);
    for (const auto& [token, id] : json.vocab) {
      const auto bytes = bytes_of_letters(token);
      table_.set(id, bytes.value_or(token), token);
      if (bytes && bytes->size() == 1)
        merges_.set_byte(static_cast<unsigned char>(bytes->front()), id);
    }
    if (json.ignore_merges) add_whole_words(json);
  }

  // Special tokens are none: where they were not found before, they are text.
  void add_whole_words(const TokenizerJson& json) {
    std::unordered_set<std::int64_t> special;
    for (const AddedToken& token : json.added) {
      if (token.special) special.insert(token.id);
    }
    for (const auto* list : {&json.vocab, &json.silent}) {
      for (const auto& [token, id] : *list) {
        if (special.contains(id)) continue;
        if (auto bytes = bytes_of_letters(token)) whole_words_.emplace(std::move(*bytes), id);
      }
    }
  }

  void add_tokens(TokenizerJson& json, const TokenSettings& settings, const std::string& source) {
    std::unordered_set<std::string> listed;
    for (const AddedToken& token : json.added) {
      listed.insert(token.text);
      json.vocab.emplace(token.text, static_cast<std::int32_t>(token.id));
    }
    for (const AddedToken& token : settings.tokens) {
      const auto [place, is_new] =
          json.vocab.emplace(token.text, static_cast<std::int32_t>(token.id));
      if (place->second != token.id) {
        throw Error(source + ": token " + shown_token(token.text) + " has id " +
                    std::to_string(place->second) + ", expected that of tokenizer_config.json, " +
                    std::to_string(token.id) + "; take both files from one model");
      }
      if (!listed.contains(token.text)) json.added.push_back(token);
    }
    std::vector<AddedToken> raw;
    std::vector<AddedToken> in_form;
    for (AddedToken& token : json.added) {
      table_.set(token.id, token.special ? "" : token.text, token.text);
      if (!token.normalized) {
        raw.push_back(std::move(token));
        continue;
      }
      for (const UnicodeForm form : forms_) token.text = normalized(token.text, form);
      in_form.push_back(std::move(token));
    }
    tokens_ = AddedTokens(std::move(raw), json.search);
    normalized_tokens_ = AddedTokens(std::move(in_form), json.search);
  }

  void choose_ends(const TokenizerJson& json, const TokenSettings& settings,
                   const std::string& source) {
    const auto id_of = [&](const std::string& token) {
      const auto found = json.vocab.find(token);
      return found == json.vocab.end() || token.empty() ? -1 : found->second;
    };
    const std::int32_t bos = id_of(settings.bos);
    const std::int32_t eos = id_of(settings.eos);
    if (settings.add_bos) put(front_, *settings.add_bos, bos, "bos_token", source);
    if (settings.add_eos) put(back_, *settings.add_eos, eos, "eos_token", source);
    for (const Ids& side : {front_, back_}) {
      for (const std::int32_t id : side) check_token(id, table_.vocab());
    }
    eos_ = settings.end_tokens(eos);
  }

  // tokenizer_config.json may add a token at the ends of texts, or remove the template's.
  static void put(Ids& side, bool wanted, std::int32_t id, const char* role,
                  const std::string& source) {
    if (wanted && id < 0) {
      throw Error(source + ": has no " + role +
                  ", expected one as tokenizer_config.json adds it to texts; check that file");
    }
    const auto there = std::ranges::find(side, id);
    if (wanted && there == side.end()) side.push_back(id);
    if (!wanted && there != side.end()) side.erase(there);
  }

  [[nodiscard]] std::string in_forms(std::string_view text) const {
    std::string changed(text);
    for (const UnicodeForm form : forms_) changed = normalized(changed, form);
    return changed;
  }

  void append(std::string_view part, Before /*before*/, WrittenTokens written,
              Ids& ids) const override {
    const std::string text = in_forms(part);
    Words words;
    for (const Fragment& fragment :
         normalized_tokens_.split(text, written != WrittenTokens::text)) {
      if (fragment.id >= 0) {
        ids.push_back(static_cast<std::int32_t>(fragment.id));
      } else {
        encode_text(unguarded(fragment.text, written), words, ids);
      }
    }
  }

  void encode_text(std::string_view text, Words& words, Ids& ids) const {
    std::vector<std::string_view> parts{text};
    std::deque<std::string> changed;  // parts that are not of the text
    for (const TokenizerJson::Step& step : steps_) {
      if (step.add_prefix_space) {
        for (std::string_view& part : parts) {
          if (!part.starts_with(' ')) part = changed.emplace_back(" ").append(part);
        }
      }
      if (step.pattern) parts = step.pattern->split(parts);
    }
    for (const std::string_view part : parts) encode_word(part, words, ids);
  }

  void encode_word(std::string_view word, Words& words, Ids& ids) const {
    const auto [place, is_new] = words.try_emplace(std::string(word));
    Ids& found = place->second;
    if (is_new) {
      const auto whole = whole_words_.find(place->first);
      if (whole != whole_words_.end()) {
        found.push_back(whole->second);
      } else {
        check_bytes(word);
        merges_.encode(word, unknown_, found);
      }
    }
    ids.insert(ids.end(), found.begin(), found.end());
  }

  // Text is never lost silently, although other programs drop characters without a token.
  void check_bytes(std::string_view word) const {
    if (unknown_ >= 0) return;
    for (std::size_t at = 0; at < word.size();) {
      const Utf8Character character = character_at(word, at);
      for (const char byte : word.substr(at, character.bytes)) {
        const auto number = static_cast<unsigned char>(byte);
        if (merges_.has_byte(number)) continue;
        std::array<char, 16> code{};
        std::snprintf(code.data(), code.size(), "U+%04X", static_cast<unsigned>(character.code));
        throw Error("text: has character " + std::string(code.data()) + ", for whose byte " +
                    std::to_string(number) + " the vocabulary of " + source_ +
                    " has no token, expected a text without it; remove the character");
      }
      at += character.bytes;
    }
  }

  std::string source_;
  BytePairs merges_;
  std::unordered_map<std::string, std::int32_t> whole_words_;  // if merges are ignored for them
  std::int32_t unknown_;
  std::vector<UnicodeForm> forms_;
  std::vector<TokenizerJson::Step> steps_;
  AddedTokens normalized_tokens_;  // looked for in normalised text
};

}  // namespace

std::unique_ptr<Tokenizer> byte_level_tokenizer(TokenizerJson json, const std::string& source,
                                                const TokenSettings& settings, std::int64_t vocab) {
  return std::make_unique<ByteLevelTokenizer>(std::move(json), source, settings, vocab);
}

}  // namespace tandem::exec
