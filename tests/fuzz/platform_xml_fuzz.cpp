// Any text is a platform or an Error, without SimGrid's part (a process an input).

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/base/error.hpp"
#include "sim/platform/platform_xml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    (void)tandem::sim::parse_platform_xml({reinterpret_cast<const char*>(data), size}, "fuzz.xml");
  } catch (const tandem::Error&) {
  }
  return 0;
}
