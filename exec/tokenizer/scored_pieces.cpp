#include "exec/tokenizer/scored_pieces.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "exec/tokenizer/table_tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using Kind = SentencePieceModel::Kind;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::string with_space_marks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
  return out;
}

// Part of a text; empty: it became part of the one before.
struct Symbol {
  std::string_view text;
  std::size_t before = kNone;
  std::size_t behind = kNone;
};

// The symbol at `left` with that at `right`, which have `bytes` together.
struct Pair {
  float score = 0.0F;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t bytes = 0;

  bool operator<(const Pair& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

// By a merged symbol's text, how many bytes of it were the left one.
using PieceHalves = std::unordered_map<std::string_view, std::size_t>;

class ScoredPiecesTokenizer final : public TableTokenizer {
 public:
  ScoredPiecesTokenizer(ScoredPieces pieces, const std::string& source,
                        const TokenSettings& settings, std::int64_t vocab)
      : TableTokenizer(vocab, source),
        pieces_(with_one_unknown(pieces)),
        space_prefix_(pieces.space_prefix),
        unknown_(pieces.unknown) {
    tokens_ = AddedTokens(std::move(pieces.tokens), TokenSearch::longest);
    const SentencePieceModel usual;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      table_.set(id, usual.meaning(pieces_[i]), pieces_[i].text);
      ids_.emplace(pieces_[i].text, id);
    }
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::string text{'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
      bytes_.at(byte) = id_of(text);
    }
    choose_ends(settings, source);
  }

  // The space that was put in front of the text is not in it.
  [[nodiscard]] std::string first_piece(std::int32_t id, bool& at_start) const override {
    std::string text = table_.bytes(id);
    const auto index = static_cast<std::size_t>(id);
    const bool is_text = index < pieces_.size() && pieces_[index].is_text();
    if (space_prefix_ && is_text && pieces_[index].text.starts_with(kSpaceMark)) {
      text.erase(0, 1);
      at_start = false;
    }
    if (!text.empty()) at_start = false;
    return text;
  }

  [[nodiscard]] std::string description() const override {
    return "SentencePiece BPE, " + std::to_string(table_.count()) + " tokens";
  }

 private:
  [[nodiscard]] std::int32_t id_of(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

  void choose_ends(const TokenSettings& settings, const std::string& source) {
    const auto put = [&](bool wanted, const std::string& text, const char* key, Ids& side) {
      const std::int32_t id = id_of(text);
      if (wanted && id < 0)
        throw Error(source + ": has no " + key +
                    ", expected one as that token is put around texts; convert the model anew");
      if (wanted) side.push_back(id);
    };
    put(settings.add_bos.value_or(true), settings.bos, "tokenizer.ggml.bos_token_id", front_);
    put(settings.add_eos.value_or(false), settings.eos, "tokenizer.ggml.eos_token_id", back_);
    eos_ = settings.end_tokens(id_of(settings.eos));
  }

  void append(std::string_view part, Before before, WrittenTokens written,
              Ids& ids) const override {
    const std::string prefix(before != Before::text && space_prefix_ ? kSpaceMark : "");
    const std::string text = prefix + with_space_marks(unguarded(part, written));
    append_merged(text, written, ids);
  }

  void append_merged(std::string_view text, WrittenTokens written, Ids& ids) const {
    std::vector<Symbol> symbols;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = character_at(text, at).bytes;
      symbols.push_back({.text = text.substr(at, bytes),
                         .before = symbols.empty() ? kNone : symbols.size() - 1,
                         .behind = at + bytes < text.size() ? symbols.size() + 1 : kNone});
      at += bytes;
    }
    std::priority_queue<Pair> queue;
    PieceHalves halves;
    const auto consider = [&](std::size_t left, std::size_t right) {
      if (left == kNone || right == kNone) return;
      const std::size_t bytes = symbols[left].text.size() + symbols[right].text.size();
      const std::int32_t id = id_of(std::string_view(symbols[left].text.data(), bytes));
      if (id < 0) return;
      queue.push({.score = pieces_[static_cast<std::size_t>(id)].score,
                  .left = left,
                  .right = right,
                  .bytes = bytes});
    };
    for (std::size_t i = 1; i < symbols.size(); ++i) consider(i - 1, i);
    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      Symbol& left = symbols[pair.left];
      Symbol& right = symbols[pair.right];
      // One of them has changed since.
      if (left.text.empty() || right.text.empty() ||
          left.text.size() + right.text.size() != pair.bytes)
        continue;
      halves.insert_or_assign(std::string_view(left.text.data(), pair.bytes), left.text.size());
      left.text = std::string_view(left.text.data(), pair.bytes);
      right.text = {};
      left.behind = right.behind;
      if (left.behind != kNone) symbols[left.behind].before = pair.left;
      consider(left.before, pair.left);
      consider(pair.left, left.behind);
    }
    for (const Symbol& symbol : symbols) {
      if (!symbol.text.empty()) append_symbol(symbol.text, written, halves, ids);
    }
  }

  [[nodiscard]] bool commands(std::int32_t id) const {
    const Kind kind = pieces_[static_cast<std::size_t>(id)].kind;
    return kind == Kind::control || kind == Kind::unknown;
  }

  // Appends the parts from which a special token was merged, if it is to be text.
  void append_symbol(std::string_view text, WrittenTokens written, const PieceHalves& halves,
                     Ids& ids) const {
    const std::int32_t id = id_of(text);
    const bool is_text = written != WrittenTokens::tokens && id >= 0 && commands(id);
    if (id >= 0 && !is_text) {
      ids.push_back(id);
      return;
    }
    if (const auto half = halves.find(text); is_text && half != halves.end()) {
      append_symbol(text.substr(0, half->second), written, halves, ids);
      append_symbol(text.substr(half->second), written, halves, ids);
      return;
    }
    const auto byte_id = [&](char byte) {
      return bytes_.at(static_cast<std::size_t>(static_cast<unsigned char>(byte)));
    };
    if (std::ranges::any_of(text, [&](char byte) { return byte_id(byte) < 0; })) {
      ids.push_back(unknown_);
      return;
    }
    for (const char byte : text) ids.push_back(byte_id(byte));
  }

  std::vector<SentencePieceModel::Piece> pieces_;  // by id
  bool space_prefix_;
  std::int32_t unknown_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // of pieces_
  std::array<std::int32_t, 256> bytes_{};                   // -1: none
};

}  // namespace

std::unique_ptr<Tokenizer> scored_pieces_tokenizer(ScoredPieces pieces, const std::string& source,
                                                   const TokenSettings& settings,
                                                   std::int64_t vocab) {
  return std::make_unique<ScoredPiecesTokenizer>(std::move(pieces), source, settings, vocab);
}

std::vector<SentencePieceModel::Piece> with_one_unknown(const ScoredPieces& pieces) {
  std::vector<SentencePieceModel::Piece> all = pieces.pieces;
  for (SentencePieceModel::Piece& piece : all) {
    if (piece.kind == Kind::unknown) piece.kind = Kind::control;
  }
  SentencePieceModel::Piece& unknown = all.at(static_cast<std::size_t>(pieces.unknown));
  if (unknown.kind == Kind::control) unknown.kind = Kind::unknown;
  return all;
}

std::vector<bool> mergeable(const std::vector<SentencePieceModel::Piece>& pieces) {
  std::unordered_set<std::string_view> texts;
  for (const SentencePieceModel::Piece& piece : pieces) texts.insert(piece.text);
  const auto is_part = [&](std::string_view text) {
    return texts.contains(text) || character_at(text, 0).bytes == text.size();
  };
  std::vector<bool> result;
  result.reserve(pieces.size());
  for (const SentencePieceModel::Piece& piece : pieces) {
    const std::string_view text = piece.text;
    bool found = false;
    std::size_t at = character_at(text, 0).bytes;
    for (; at < text.size() && !found; at += character_at(text, at).bytes)
      found = is_part(text.substr(0, at)) && is_part(text.substr(at));
    result.push_back(found);
  }
  return result;
}

}  // namespace tandem::exec
