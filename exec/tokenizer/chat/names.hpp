#pragma once

// Names of a scope that hide outer ones.

#include "exec/tokenizer/chat/syntax.hpp"

namespace tandem::exec::chat {

// Jinja resolves names when it compiles a template: a name that a scope sets somewhere and does not
// read before is undefined there until it is set, even if the template has a value of that name.
// Fills the `hidden` members with such names, as Jinja's jinja2/idtracking.py does. Throws Error
// (line) for loops that set `loop`.
void hide_names(Template& of);

}  // namespace tandem::exec::chat
