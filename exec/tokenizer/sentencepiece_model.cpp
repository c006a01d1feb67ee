#include "exec/tokenizer/sentencepiece_model.hpp"

#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "exec/tokenizer/double_array.hpp"
#include "exec/tokenizer/protobuf_wire.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Numbers of fields in sentencepiece_model.proto.
namespace field {
constexpr std::uint32_t kPieces = 1;
constexpr std::uint32_t kTrainer = 2;
constexpr std::uint32_t kNormalizer = 3;
constexpr std::uint32_t kPieceText = 1;
constexpr std::uint32_t kPieceScore = 2;
constexpr std::uint32_t kPieceKind = 3;
constexpr std::uint32_t kAlgorithm = 3;
constexpr std::uint32_t kVocabSize = 4;
constexpr std::uint32_t kSpaceAsSuffix = 24;
constexpr std::uint32_t kByteFallback = 35;
constexpr std::uint32_t kUnkSurface = 44;
constexpr std::uint32_t kUnkPiece = 45;
constexpr std::uint32_t kBosPiece = 46;
constexpr std::uint32_t kEosPiece = 47;
constexpr std::uint32_t kCharsmap = 2;
constexpr std::uint32_t kDummyPrefix = 3;
constexpr std::uint32_t kExtraSpaces = 4;
constexpr std::uint32_t kEscapeSpaces = 5;
}  // namespace field

constexpr std::size_t kMaxPieces = 1U << 24U;

class PieceModelParser {
 public:
  explicit PieceModelParser(const std::string& source) : source_(source) {}

  SentencePieceModel parse(std::string_view bytes) {
    each(bytes, [this](const WireField& f) {
      if (f.number == field::kPieces) return piece(bytes_of(f));
      if (f.number == field::kTrainer) return trainer(bytes_of(f));
      if (f.number == field::kNormalizer) normalizer(bytes_of(f));
    });
    if (model_.pieces.empty()) fail("no pieces, expected a vocabulary");
    if (!has_trainer_ || !has_normalizer_) {
      fail("ends early, expected how it was trained and how it normalises");
    }
    check_special_pieces();
    check_charsmap(model_.charsmap, source_);
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(source_ + ": " + what +
                "; the file is damaged or of another kind, copy or download it again");
  }

  template <class Use>
  void each(std::string_view message, Use use) {
    WireReader reader(message, source_);
    while (const auto f = reader.next()) use(*f);
  }

  std::string_view bytes_of(const WireField& f) const {
    if (f.type == WireField::Type::bytes) return f.bytes;
    fail("field " + std::to_string(f.number) + " is a number, expected bytes");
  }

  std::string text_of(const WireField& f) const {
    const std::string_view text = bytes_of(f);
    if (text.size() > kMaxTokenBytes || valid_utf8(text) != text ||
        text.find('\0') != std::string_view::npos) {
      fail("piece " + shown_token(text) + ", expected UTF-8 of at most " +
           std::to_string(kMaxTokenBytes) + " bytes without NUL");
    }
    return std::string(text);
  }

  std::uint64_t number_of(const WireField& f, std::uint64_t max) const {
    if (f.type == WireField::Type::varint && f.value <= max) return f.value;
    fail("field " + std::to_string(f.number) + " is " +
         (f.type == WireField::Type::varint ? std::to_string(f.value) : "of another type") +
         ", expected a number of at most " + std::to_string(max));
  }

  bool flag_of(const WireField& f) const { return number_of(f, 1) != 0; }

  void piece(std::string_view message) {
    SentencePieceModel::Piece piece;
    each(message, [&](const WireField& f) {
      if (f.number == field::kPieceText) piece.text = text_of(f);
      if (f.number == field::kPieceScore) {
        if (f.type != WireField::Type::fixed32) fail("a score of another type, expected a float");
        piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(f.value));
      }
      if (f.number == field::kPieceKind) {
        piece.kind = static_cast<SentencePieceModel::Kind>(number_of(f, 6));
      }
    });
    const std::string name = "piece " + std::to_string(model_.pieces.size());
    if (piece.text.empty()) fail(name + " is empty, expected text");
    if (static_cast<int>(piece.kind) == 0) fail(name + " is of kind 0, expected 1 to 6");
    if (!std::isfinite(piece.score)) fail(name + " has no finite score, expected one");
    if (!texts_.insert(piece.text).second) {
      fail(name + " is " + shown_token(piece.text) +
           ", which came before, expected different pieces");
    }
    if (model_.pieces.size() == kMaxPieces) fail("more than 2^24 pieces, expected fewer");
    model_.pieces.push_back(std::move(piece));
  }

  void trainer(std::string_view message) {
    has_trainer_ = true;
    each(message, [this](const WireField& f) {
      if (f.number == field::kAlgorithm) {
        const std::uint64_t algorithm = number_of(f, 4);
        if (algorithm == 0) fail("algorithm 0, expected 1 (unigram) to 4");
        model_.algorithm = static_cast<SentencePieceModel::Algorithm>(algorithm);
      }
      if (f.number == field::kByteFallback) model_.byte_fallback = flag_of(f);
      if (f.number == field::kSpaceAsSuffix) model_.space_as_suffix = flag_of(f);
      if (f.number == field::kUnkSurface) model_.unk_surface = text_of(f);
      if (f.number == field::kUnkPiece) model_.unk_piece = text_of(f);
      if (f.number == field::kBosPiece) model_.bos_piece = text_of(f);
      if (f.number == field::kEosPiece) model_.eos_piece = text_of(f);
    });
  }

  void normalizer(std::string_view message) {
    has_normalizer_ = true;
    each(message, [this](const WireField& f) {
      if (f.number == field::kCharsmap) model_.charsmap = bytes_of(f);
      if (f.number == field::kDummyPrefix) model_.add_dummy_prefix = flag_of(f);
      if (f.number == field::kExtraSpaces) model_.remove_extra_whitespaces = flag_of(f);
      if (f.number == field::kEscapeSpaces) model_.escape_whitespaces = flag_of(f);
    });
  }

  // Requires one unknown piece and, with byte fallback, one for each byte.
  void check_special_pieces() const {
    std::size_t unknown = 0;
    std::size_t bytes = 0;
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      if (piece.kind == SentencePieceModel::Kind::unknown) ++unknown;
      if (piece.kind != SentencePieceModel::Kind::byte) continue;
      ++bytes;
      if (byte_of(piece.text) < 0) {
        fail("byte piece " + shown_token(piece.text) + ", expected <0x00> to <0xFF>");
      }
    }
    if (unknown != 1) {
      fail(std::to_string(unknown) + " pieces for unknown characters, expected one");
    }
    const std::size_t expected = model_.byte_fallback ? 256 : 0;
    if (bytes != expected) {
      fail(std::to_string(bytes) + " byte pieces, expected " + std::to_string(expected) +
           (model_.byte_fallback ? " with byte fallback" : " without byte fallback"));
    }
  }

  const std::string& source_;
  SentencePieceModel model_;
  bool has_trainer_ = false;
  bool has_normalizer_ = false;
  std::unordered_set<std::string> texts_;
};

}  // namespace

int byte_of(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const std::size_t high = kDigits.find(piece[3]);
  const std::size_t low = kDigits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}

std::int64_t SentencePieceModel::control(std::string_view text) const {
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].kind == Kind::control && pieces[id].text == text) {
      return static_cast<std::int64_t>(id);
    }
  }
  return -1;
}

std::string SentencePieceModel::meaning(const Piece& piece) const {
  if (piece.kind == Kind::control) return "";
  if (piece.kind == Kind::unknown) return unk_surface;
  if (piece.kind == Kind::byte) return {static_cast<char>(byte_of(piece.text))};
  std::string text = piece.text;
  for (std::size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at)
    text.replace(at, kSpaceMark.size(), " ");
  return text;
}

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& source) {
  return PieceModelParser(source).parse(bytes);
}

std::string to_bytes(const SentencePieceModel& model) {
  std::string out;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    std::string message;
    append_bytes(message, field::kPieceText, piece.text);
    append_float(message, field::kPieceScore, piece.score);
    append_varint(message, field::kPieceKind, static_cast<std::uint64_t>(piece.kind));
    append_bytes(out, field::kPieces, message);
  }
  std::string trainer;
  append_varint(trainer, field::kAlgorithm, static_cast<std::uint64_t>(model.algorithm));
  append_varint(trainer, field::kVocabSize, model.pieces.size());
  append_varint(trainer, field::kSpaceAsSuffix, model.space_as_suffix ? 1 : 0);
  append_varint(trainer, field::kByteFallback, model.byte_fallback ? 1 : 0);
  append_bytes(trainer, field::kUnkSurface, model.unk_surface);
  append_bytes(trainer, field::kUnkPiece, model.unk_piece);
  append_bytes(trainer, field::kBosPiece, model.bos_piece);
  append_bytes(trainer, field::kEosPiece, model.eos_piece);
  append_bytes(out, field::kTrainer, trainer);
  std::string normalizer;
  append_bytes(normalizer, field::kCharsmap, model.charsmap);
  append_varint(normalizer, field::kDummyPrefix, model.add_dummy_prefix ? 1 : 0);
  append_varint(normalizer, field::kExtraSpaces, model.remove_extra_whitespaces ? 1 : 0);
  append_varint(normalizer, field::kEscapeSpaces, model.escape_whitespaces ? 1 : 0);
  append_bytes(out, field::kNormalizer, normalizer);
  return out;
}

bool is_tiktoken(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space % 4 != 0) return false;
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kBase64 =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  const std::string_view rank = line.substr(space + 1);
  return !rank.empty() && rank.find_first_not_of(kDigits) == std::string_view::npos &&
         line.substr(0, space).find_first_not_of(kBase64) == std::string_view::npos;
}

}  // namespace tandem::exec
