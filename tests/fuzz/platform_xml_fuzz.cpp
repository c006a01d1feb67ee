// Any text is a platform or an Error, without SimGrid's part (a process an input).

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/base/error.hpp"
#include "sim/platform/flat_reader.hpp"
#include "sim/platform/graph_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::sim;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const XmlDocument document(text, "fuzz.xml");
    const Profiles profiles(document, "/nonexistent");
    static_cast<void>(hidden_from_simgrid(document, text));
    Defaults defaults;
    if (is_graph(document))
      static_cast<void>(read_graph(document, profiles, {.defaults = &defaults}));
  } catch (const tandem::Error&) {
  }
  return 0;
}
