// Any bytes are the label of a block, and then come back equal and can be walked, or are none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "exec/weights/store/block_label.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tandem::exec::BlockLabel;
  using tandem::exec::PieceSource;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto label = BlockLabel::parse(bytes);
  if (!label) return 0;
  if (!std::ranges::equal(label->serialize(), bytes)) std::abort();
  constexpr int kMost = 1000;  // a label of few bytes may describe terabytes
  tandem::exec::PieceWalk walk(label->pieces());
  for (int i = 0; i < kMost && walk.here().bytes > 0; ++i) {
    if (walk.here().offset + walk.here().bytes > label->pieces().bytes) std::abort();
    walk.advance(walk.here().bytes);
  }
  for (std::uint32_t piece = 0; piece < std::min<std::uint32_t>(label->pieces().count, 8);
       ++piece) {
    PieceSource source(label->pieces(), piece);
    for (int i = 0; i < kMost && source.here().bytes > 0; ++i) {
      if (source.here().offset + source.here().bytes > label->pieces().bytes) std::abort();
      source.advance(source.here().bytes);
    }
  }
  return 0;
}
