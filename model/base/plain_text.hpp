#pragma once

// Text from files that is shown to people: names, and messages that quote them.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::model {

// What is wrong with `name` as one of a device, router, link, platform or model; empty: nothing.
// Names are 1 to 256 bytes of UTF-8 without characters that a terminal obeys or does not show:
// controls (C0, DEL, C1), line and paragraph separators, invisible and zero-width ones, those that
// change the direction of text, and those that Unicode has no meaning for.
[[nodiscard]] std::string fault_of_name(std::string_view name);

// What is wrong with `text`, of any length or none: its first character that a name may not have.
[[nodiscard]] std::string fault_of_text(std::string_view text);

// `text` on one line: what a name may not have, and bytes that are no UTF-8, as spaces or U+FFFD.
[[nodiscard]] std::string one_line(std::string_view text);
// The first `most` bytes of `text` on one line, with "..." behind it if there are more: a hostile
// name must not fill the terminal.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t most);

// The first `most` bytes of `text`, everything but printable ASCII replaced by '?': what a peer or
// a file of addresses says must not command the terminal. "a\x1b[2Jb" becomes "a?[2Jb".
[[nodiscard]] std::string printable(std::string_view text, std::size_t most);

// Returns `text` as a word of a shell's command line, quoted where it has to be.
[[nodiscard]] std::string shell_word(std::string_view text);

// Where the first byte is that is no part of a UTF-8 character; npos: nowhere.
[[nodiscard]] std::size_t not_utf8(std::string_view text);

// The only one of `known` that begins with `word`, of three characters or more; else the one that
// it most resembles (Levenshtein distance at most 2, or a third of the word's length), or empty.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       const std::vector<std::string_view>& known);

}  // namespace tandem::model
