// Any bytes are a safetensors header and an index, or an Error. The first two bytes are how much
// data follows the header.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "exec/weights/source/safetensors.hpp"
#include "model/base/error.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::exec;
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] + 256U * data[1];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::uint64_t file_bytes = 8 + text.size() + data_bytes;
  try {
    std::uint64_t covered = 0;
    for (const auto& [name, tensor] : parse_safetensors_header(text, file_bytes, "fuzz")) {
      if (tensor.offset + tensor.bytes > file_bytes) std::abort();
      covered += tensor.bytes;
    }
    if (covered != data_bytes) std::abort();
  } catch (const tandem::Error&) {
  }
  try {
    for (const auto& [tensor, file] : parse_safetensors_index(text, "fuzz")) {
      if (file.find('/') != std::string::npos || file.starts_with(".")) std::abort();
    }
  } catch (const tandem::Error&) {
  }
  return 0;
}
