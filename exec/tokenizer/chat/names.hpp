#pragma once

// Which names of a scope hide outer ones.

#include "exec/tokenizer/chat/syntax.hpp"

namespace tandem::exec::chat {

// Jinja decides when it compiles a template what a name means: one that a scope sets somewhere, and
// does not read before, is undefined there until it is set, also where the template was given a
// value of that name. Fills the `hidden` members with such names, as Jinja's jinja2/idtracking.py
// does. Throws Error (line) for loops that set `loop`.
void hide_names(Template& of);

}  // namespace tandem::exec::chat
