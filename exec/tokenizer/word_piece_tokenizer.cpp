#include "exec/tokenizer/word_piece_tokenizer.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "exec/tokenizer/table_tokenizer.hpp"
#include "exec/tokenizer/unicode_form.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kContinues = "##";
// Longer words are unknown, as in the original: mostly garbage, and the search is quadratic.
constexpr std::size_t kMostCharacters = 100;

bool is_space(std::int32_t c) { return u_isUWhiteSpace(c) != 0; }

// Category C of Unicode, but for tab and line ends, which are white space.
bool is_control(std::int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const std::uint32_t other = U_GC_C_MASK;
  return (U_GET_GC_MASK(c) & other) != 0;
}

// Unicode's punctuation, and what else in ASCII is neither letter, digit nor space.
bool is_punctuation(std::int32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                     (c >= 123 && c <= 126);
  return ascii || u_ispunct(c) != 0;
}

// The CJK ideographs, which are words of their own: not Hangul, Hiragana or Katakana. U+2B820 to
// U+2B91F are not among them in Hugging Face's library, nor in llama.cpp.
bool is_chinese(std::int32_t c) {
  constexpr std::pair<std::int32_t, std::int32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(
      kBlocks, [c](const auto& block) { return block.first <= c && c <= block.second; });
}

template <class Use>
void for_characters(std::string_view text, const Use& use) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = character_at(text, at);
    use(character.code, text.substr(at, character.bytes));
    at += character.bytes;
  }
}

class WordPieceTokenizer final : public TableTokenizer {
 public:
  WordPieceTokenizer(std::string_view vocabulary, const std::string& source,
                     const TokenSettings& settings, std::int64_t vocab)
      : TableTokenizer(vocab, source),
        lower_case_(settings.lower_case.value_or(true)),
        strip_accents_(settings.strip_accents.value_or(lower_case_)),
        chinese_alone_(settings.chinese_alone) {
    read(vocabulary, source);
    const auto special = [&](const std::string& said, const char* usual) {
      const std::string text = said.empty() ? usual : said;
      const auto found = ids_.find(text);
      if (found != ids_.end()) return found->second;
      throw Error(source + ": no token " + shown_token(text) +
                  ", expected one, as every text needs it; take vocab.txt and "
                  "tokenizer_config.json from one model");
    };
    unknown_ = special(settings.unknown, "[UNK]");
    front_ = {special(settings.front, "[CLS]")};
    back_ = {special(settings.back, "[SEP]")};
    add_special(settings, source);
    eos_ = settings.end_tokens(-1);
  }

  // A word is written behind a space, so that words and pieces follow each other as they should.

  [[nodiscard]] std::string piece(std::int32_t id) const override {
    std::string text = table_.bytes(id);
    if (text.empty()) return text;
    if (text.starts_with(kContinues)) return text.substr(kContinues.size());
    return " " + text;
  }
  [[nodiscard]] std::string first_piece(std::int32_t id, bool& at_start) const override {
    const std::string text = piece(id);
    at_start = text.empty();
    return text.starts_with(' ') ? text.substr(1) : text;
  }
  [[nodiscard]] std::string description() const override {
    return "WordPiece, " + std::to_string(table_.count()) + " tokens";
  }

 private:
  void read(std::string_view vocabulary, const std::string& source) {
    std::int64_t id = 0;
    for (std::size_t at = 0; at < vocabulary.size(); ++id) {
      const std::size_t end = std::min(vocabulary.find('\n', at), vocabulary.size());
      std::string_view line = vocabulary.substr(at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      at = end + 1;
      const std::string token(line.substr(0, kMaxTokenBytes));
      if (line.size() > kMaxTokenBytes || valid_utf8(token) != token) {
        throw Error(source + ": line " + std::to_string(id + 1) + ": " + shown_token(token) +
                    ", expected a token of UTF-8; the file is damaged, copy or download it again");
      }
      table_.set(id, token, token);
      ids_.insert_or_assign(token, static_cast<std::int32_t>(id));  // the later, as the original
    }
    lines_ = id;
  }

  // Tokens that are searched in the unchanged text, and print as nothing.
  void add_special(const TokenSettings& settings, const std::string& source) {
    std::vector<AddedToken> tokens = settings.tokens;
    for (const AddedToken& token : tokens) {
      const auto known = ids_.find(token.text);
      const bool taken = token.id < lines_ && known == ids_.end();
      if (!taken && (known == ids_.end() || known->second == token.id)) continue;
      throw Error(source + ": token " + shown_token(token.text) +
                  (taken ? " is not on line " + std::to_string(token.id + 1)
                         : " has id " + std::to_string(known->second)) +
                  ", expected id " + std::to_string(token.id) +
                  " as tokenizer_config.json says; take both files from one model");
    }
    std::vector<std::string> named = settings.named;
    for (const char* usual : {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"}) named.push_back(usual);
    for (const std::string& text : named) {
      const auto known = ids_.find(text);
      const bool listed =
          std::ranges::any_of(tokens, [&](const AddedToken& token) { return token.text == text; });
      if (known != ids_.end() && !listed) tokens.push_back({.text = text, .id = known->second});
    }
    for (const AddedToken& token : tokens)
      table_.set(token.id, token.special ? "" : token.text, token.text);
    tokens_ = AddedTokens(std::move(tokens));
  }

  [[nodiscard]] std::string normalised(std::string_view text) const {
    std::string clean;
    for_characters(text, [&](std::int32_t c, std::string_view bytes) {
      if (c == 0 || c == 0xFFFD || is_control(c)) return;
      if (is_space(c)) {
        clean += ' ';
      } else if (chinese_alone_ && is_chinese(c)) {
        clean.append(" ").append(bytes).append(" ");
      } else {
        clean += bytes;
      }
    });
    if (strip_accents_) {
      std::string stripped;
      for_characters(normalized(clean, UnicodeForm::nfd),
                     [&](std::int32_t c, std::string_view bytes) {
                       if (u_charType(c) != U_NON_SPACING_MARK) stripped += bytes;
                     });
      clean = std::move(stripped);
    }
    if (!lower_case_) return clean;
    std::string lower;
    for_characters(clean, [&](std::int32_t c, std::string_view) {
      constexpr std::int32_t kDottedI = 0x130;  // the only one whose lower case is two characters
      lower += c == kDottedI ? "i\u0307" : to_utf8(static_cast<char32_t>(u_tolower(c)));
    });
    return lower;
  }

  void append(std::string_view part, Before /*before*/, WrittenTokens written,
              Ids& ids) const override {
    const std::string text = normalised(unguarded(part, written));
    encode_words(text, ids);
  }

  void encode_words(std::string_view text, Ids& ids) const {
    std::size_t begin = 0;
    const auto word = [&](std::size_t end) {
      if (begin < end) encode_word(text.substr(begin, end - begin), ids);
    };
    for_characters(text, [&](std::int32_t c, std::string_view bytes) {
      const auto at = static_cast<std::size_t>(bytes.data() - text.data());
      const bool space = is_space(c);
      if (!space && !is_punctuation(c)) return;
      word(at);
      if (!space) encode_word(bytes, ids);
      begin = at + bytes.size();
    });
    word(text.size());
  }

  void encode_word(std::string_view word, Ids& ids) const {
    std::size_t characters = 0;
    for_characters(word, [&](std::int32_t, std::string_view) { ++characters; });
    Ids pieces;
    std::string wanted;
    std::size_t at = 0;
    while (at < word.size() && characters <= kMostCharacters) {
      std::size_t end = word.size();
      auto found = ids_.end();
      while (end > at) {
        wanted = at > 0 ? kContinues : "";
        wanted += word.substr(at, end - at);
        found = ids_.find(wanted);
        if (found != ids_.end()) break;
        end -= character_before(word, end).bytes;
      }
      if (found == ids_.end()) break;
      pieces.push_back(found->second);
      at = end;
    }
    if (at < word.size()) pieces.assign(1, unknown_);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  std::unordered_map<std::string, std::int32_t> ids_;
  std::int64_t lines_ = 0;  // of the vocabulary's file
  bool lower_case_;
  bool strip_accents_;
  bool chinese_alone_;
  std::int32_t unknown_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> word_piece_tokenizer(std::string_view vocabulary,
                                                const std::string& source,
                                                const TokenSettings& settings, std::int64_t vocab) {
  return std::make_unique<WordPieceTokenizer>(vocabulary, source, settings, vocab);
}

}  // namespace tandem::exec
