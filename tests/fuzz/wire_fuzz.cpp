// The control protocol's parser: any bytes, cut in two anywhere, are messages or one Error; what
// was accepted encodes to bytes that are accepted again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "exec/transport/frame_reader.hpp"
#include "exec/transport/wire.hpp"
#include "model/base/error.hpp"

namespace {

void check_again(const tandem::exec::Message& message) {
  const std::vector<std::byte> frame = tandem::exec::encode(message);
  tandem::exec::FrameReader reader;
  std::span<const std::byte> rest(frame);
  const auto again = reader.next(rest);
  if (!again || *again != message || !rest.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const std::size_t cut = size == 0 ? 0 : data[0] % (size + 1);
  try {
    tandem::exec::FrameReader reader;
    for (std::span<const std::byte> piece : {bytes.first(cut), bytes.subspan(cut)}) {
      while (const auto message = reader.next(piece)) check_again(*message);
    }
  } catch (const tandem::Error&) {
    // The expected answer to garbage.
  }
  return 0;
}
