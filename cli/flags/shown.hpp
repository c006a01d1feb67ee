#pragma once

// What a command that makes a result prints, and where the result goes: --out, --json and --quiet
// mean the same everywhere.

#include <optional>
#include <ostream>
#include <string>

#include "cli/flags/options.hpp"

namespace tandem::cli {

struct Shown {
  std::optional<std::string> file{};  // of the result: --out, unless it is "-"
  bool to_output = false;             // `--out -`: the result on standard output, and no table
  bool json = false;
  bool quiet = false;
  [[nodiscard]] bool table() const { return !json && !quiet && !to_output; }
};

// Throws Usage if both are given.
void refuse_json_with_quiet(const Options& options);

// Throws Usage for flags of the three that contradict each other.
[[nodiscard]] Shown shown(const Options& options);

// Writes a result, `text`, where --out says, if anywhere.
void deliver(const Shown& shown, const std::string& text, std::ostream& out);

}  // namespace tandem::cli
