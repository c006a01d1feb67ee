#pragma once

#include <filesystem>
#include <string_view>

namespace tandem::cli {

// Draws the figures of `csv` as `stem`.png and `stem`.svg with plots/`script`, by Debian's Python,
// which has matplotlib. Throws Error with the script's last word and the remedy if that fails.
void draw_figure(std::string_view script, const std::filesystem::path& csv,
                 const std::filesystem::path& stem);

}  // namespace tandem::cli
