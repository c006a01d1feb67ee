#include "exec/tokenizer/double_array.hpp"

#include <cstdint>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kUnitBytes = 4;

std::uint32_t unit_at(std::string_view bytes, std::size_t index) {
  std::uint32_t unit = 0;
  for (std::size_t i = kUnitBytes; i-- > 0;) {
    unit = (unit << 8U) | static_cast<unsigned char>(bytes[index * kUnitBytes + i]);
  }
  return unit;
}

// A unit's parts: label of the character that leads to it, distance to its children, whether it
// has a value, and that value.
constexpr std::uint32_t label(std::uint32_t unit) { return unit & 0x8000'00FFU; }
constexpr std::uint32_t offset(std::uint32_t unit) {
  return (unit >> 10U) << ((unit & 0x200U) >> 6U);
}
constexpr bool has_value(std::uint32_t unit) { return (unit & 0x100U) != 0; }
constexpr std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFF'FFFFU; }

}  // namespace

void check_charsmap(std::string_view charsmap, const std::string& source) {
  if (charsmap.empty()) return;
  const auto fail = [&](const char* what) {
    throw Error(source + ": its rules of normalisation " + what +
                "; the file is damaged, copy or download it again");
  };
  if (charsmap.size() < kUnitBytes) fail("end early, expected a table");
  const std::uint32_t table_bytes = unit_at(charsmap, 0);
  charsmap.remove_prefix(kUnitBytes);
  if (table_bytes >= charsmap.size() || table_bytes % kUnitBytes != 0 || table_bytes == 0) {
    fail("end early, expected a table and replacements");
  }
  const std::string_view texts = charsmap.substr(table_bytes);
  if (texts.back() != '\0') fail("have an unfinished replacement, expected NUL at the end");

  const std::size_t units = table_bytes / kUnitBytes;
  std::vector<bool> seen(units);
  std::vector<std::size_t> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const std::size_t index = open.back();
    const std::uint32_t unit = unit_at(charsmap, index);
    open.pop_back();
    // The children are at first, first ^ 1, ... first ^ 255; the value is at first itself.
    const std::size_t first = index ^ offset(unit);
    if ((first | 0xFFU) >= units) fail("lead outside their table, expected children within");
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::size_t child = first ^ byte;
      const std::uint32_t led_to = unit_at(charsmap, child);
      if (label(led_to) != byte) continue;
      // The root has no value that is read, unless a child leads back to it.
      const std::size_t value_at = child ^ offset(led_to);
      if (has_value(led_to) &&
          (value_at >= units || value(unit_at(charsmap, value_at)) >= texts.size())) {
        fail("lead outside the replacements, expected a text");
      }
      if (seen[child]) continue;
      seen[child] = true;
      open.push_back(child);
    }
  }
}

}  // namespace tandem::exec
