#pragma once

#include <filesystem>

namespace tandem::cli {

// Draws the figures of `csv` (what `tandem compare` wrote) as `stem`.png and `stem`.svg with
// plots/compare.py, by Debian's Python, which has matplotlib. Throws Error with the script's last
// word and the remedy if that fails.
void draw_comparison(const std::filesystem::path& csv, const std::filesystem::path& stem);

}  // namespace tandem::cli
