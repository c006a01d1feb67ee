// Any bytes are the shard of this geometry and share, and then come back equal, or an Error.

#include "exec/weights/shard.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model/error.hpp"

namespace {

tandem::model::Transformer tiny() {
  tandem::model::Transformer t;
  t.name = "tiny";
  t.layers = 1;
  t.hidden = 6;
  t.heads = 3;
  t.kv_heads = 1;
  t.head_dim = 2;
  t.intermediate = 5;
  t.vocab = 7;
  t.max_context = 8;
  return t;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tandem::exec::Shard;
  const tandem::model::Share share{{0, 1}, {1, 3}, {2, 5}, false, false};
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const Shard shard = Shard::parse(bytes, tiny(), share, "fuzz");
    if (!std::ranges::equal(shard.serialize(), bytes)) std::abort();
  } catch (const tandem::Error&) {
  }
  return 0;
}
