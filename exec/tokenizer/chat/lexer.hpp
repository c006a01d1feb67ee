#pragma once

// The tokens of a template.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec::chat {

struct Token {
  enum class Kind {
    data,  // text outside of tags, with white space trimmed by trim_blocks and lstrip_blocks
    output_begin,  // {{
    output_end,    // }}
    block_begin,   // {%
    block_end,     // %}
    name,
    text,         // without quotes and escapes
    whole,        // a number as it is written
    real,         // a number with a point or an exponent
    sign,         // an operator or bracket
    unsupported,  // text: the fault of an expression that Python can read but tandem cannot
    end
  };
  Kind kind = Kind::end;
  std::string text{};
  int line = 1;
};

// Returns tokens as Jinja's lexer does. `source` must be valid UTF-8. The last token is an end.
// Throws Error (line, finding) for tags that do not end, brackets that do not match, and characters
// that are not allowed in expressions.
[[nodiscard]] std::vector<Token> tokens_of(std::string_view source);

// Throws Error("chat template, line " ...).
[[noreturn]] void fail_at(int line, const std::string& fault);

}  // namespace tandem::exec::chat
