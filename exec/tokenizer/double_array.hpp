#pragma once

#include <string>
#include <string_view>

namespace tandem::exec {

// SentencePiece's compiled rules of normalisation: four bytes of size, a double array (a trie in
// one table, Aoe, IEEE TSE 15(9), 1989, as Darts-clone packs it), and the replacements, each ended
// by NUL. The library follows offsets in the table without looking at its size. Throws Error
// (`source`) unless no text leads it outside; an empty map is fine.
void check_charsmap(std::string_view charsmap, const std::string& source);

}  // namespace tandem::exec
