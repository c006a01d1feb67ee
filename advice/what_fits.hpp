#pragma once

// What would let a request fit that has no plan.

#include <string>

#include "advice/question.hpp"

namespace tandem::study {

// Returns which of these alone lets the request of `question`, which has no plan, fit: its prompt
// in chunks, or fewer devices; in one line, with flags. Empty: neither, or it is of many requests.
[[nodiscard]] std::string what_fits(const Question& question);

}  // namespace tandem::study
