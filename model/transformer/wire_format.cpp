#include "model/transformer/wire_format.hpp"

#include <algorithm>
#include <stdexcept>

namespace tandem::model {

std::string_view to_string(WireFormat format) {
  switch (format) {
    case WireFormat::f32:
      return "f32";
    case WireFormat::f16:
      return "f16";
    case WireFormat::bf16:
      return "bf16";
    case WireFormat::q8_0:
      return "q8_0";
  }
  throw std::logic_error("wire format out of range");
}

std::optional<WireFormat> find_wire_format(std::string_view name) {
  const auto found =
      std::ranges::find(kWireFormats, name, [](WireFormat format) { return to_string(format); });
  if (found == kWireFormats.end()) return std::nullopt;
  return *found;
}

std::string wire_format_names() {
  std::string names;
  for (const WireFormat format : kWireFormats)
    names.append(names.empty() ? "" : ", ").append(to_string(format));
  return names;
}

}  // namespace tandem::model
