#pragma once

#include <string>
#include <string_view>

namespace tandem::exec {

// Checks SentencePiece's compiled rules of normalisation: four bytes of size, a double array (a
// trie in one table, Aoe, IEEE TSE 15(9), 1989, packed as by Darts-clone), and the replacements,
// each ended by NUL. The library follows offsets in the table without bounds checks. Throws Error
// (`source`) unless every text keeps it inside; an empty map is valid.
void check_charsmap(std::string_view charsmap, const std::string& source);

}  // namespace tandem::exec
