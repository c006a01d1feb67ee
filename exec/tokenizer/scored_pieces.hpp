#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// SentencePiece's BPE as llama.cpp has it: a list of pieces and their scores.
struct ScoredPieces {
  std::vector<SentencePieceModel::Piece> pieces;  // by id; texts differ
  std::vector<AddedToken> tokens;                 // looked for in a text before anything else
  std::int32_t unknown = 0;                       // the piece for characters without one
  bool space_prefix = true;  // in front of a text, and of text behind one of `tokens`
};

// Text between `tokens` (TokenSearch::longest) has U+2581 for its spaces. Of two neighbours that
// together are a piece, of whatever kind, those of the highest score become it, the leftmost of
// several, until there are none. Characters that are no piece are the pieces "<0x00>" to "<0xFF>"
// of their bytes, or the unknown piece if one of these is missing, where llama.cpp gives up. Of
// `settings` the ends count; `vocab`: of the model. Throws Error (`source`) as load_tokenizer does.
[[nodiscard]] std::unique_ptr<Tokenizer> scored_pieces_tokenizer(ScoredPieces pieces,
                                                                 const std::string& source,
                                                                 const TokenSettings& settings,
                                                                 std::int64_t vocab);

// Returns the pieces with `unknown` as the only one of its kind: others of that kind, with which
// some files pad their vocabulary, are control pieces. A piece with text is left as it is.
[[nodiscard]] std::vector<SentencePieceModel::Piece> with_one_unknown(const ScoredPieces& pieces);

// By id, whether two other pieces, or characters, together have the piece's text: merges may make
// it of a text. The others are never made.
[[nodiscard]] std::vector<bool> mergeable(const std::vector<SentencePieceModel::Piece>& pieces);

}  // namespace tandem::exec
