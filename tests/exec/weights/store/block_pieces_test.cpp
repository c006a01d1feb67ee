#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_label.hpp"
#include "model/base/digest.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::block_pieces_test {
namespace {

using model::Share;
using model::Transformer;
using testing::small_llama;
using testing::TemporaryFolder;

Transformer wide() {
  Transformer t = small_llama();
  t.intermediate = 300;  // five groups of columns
  return t;
}

// The digests of all pieces of the weights of `share`, with how many bytes each has.
std::map<model::Digest, std::uint64_t> pieces_of_share(const std::filesystem::path& weights,
                                                       const Transformer& t, const Share& share) {
  const TemporaryFolder folder;
  BlockStore store(folder.path());
  std::map<model::Digest, std::uint64_t> pieces;
  for (const MadeBlock& block : testing::blocks_of(weights, t, share, store)) {
    const auto sizes = block.label.pieces().piece_bytes();
    for (std::size_t i = 0; i < sizes.size(); ++i) pieces[block.label.digests()[i]] = sizes[i];
  }
  return pieces;
}

std::uint64_t bytes_missing(const std::map<model::Digest, std::uint64_t>& wanted,
                            const std::map<model::Digest, std::uint64_t>& there) {
  std::uint64_t bytes = 0;
  for (const auto& [digest, size] : wanted) bytes += there.contains(digest) ? 0 : size;
  return bytes;
}

TEST_CASE("exec/block pieces: every byte is of one piece or padding, in order") {
  for (const model::Family family :
       {model::Family::llama, model::Family::gpt2, model::Family::opt, model::Family::bert}) {
    Transformer t = wide();
    t.family = family;
    t.token_types = family == model::Family::bert ? 2 : 0;
    if (family != model::Family::llama) {
      t.kv_heads = t.heads;
      t.hidden = t.heads * t.head_dim;
    }
    const Share share{{0, 3}, {1, 5}, {60, 200}, true, true};
    for (const LayoutBlock& block : layout_of(t, share).blocks) {
      CAPTURE(static_cast<int>(family));
      CAPTURE(static_cast<int>(block.kind));
      const BlockPieces pieces = pieces_of(t, block);
      std::vector<std::uint64_t> walked(pieces.count);
      std::uint64_t at = 0;
      std::uint64_t padding = 0;
      PieceWalk walk(pieces);
      for (auto here = walk.here(); here.bytes > 0; here = walk.here()) {
        CHECK(here.offset == at);
        if (here.piece) walked.at(*here.piece) += here.bytes;
        if (!here.piece) padding += here.bytes;
        at += here.bytes;
        walk.advance(here.bytes);
      }
      CHECK(at == pieces.bytes);
      CHECK(walked == pieces.piece_bytes());
      std::uint64_t sliced = 0;
      for (const TensorSlice& slice : block.slices) sliced += slice.elements() * sizeof(float);
      CHECK(sliced + padding == pieces.bytes);
      for (std::uint32_t piece = 0; piece < pieces.count; ++piece) {
        std::uint64_t bytes = 0;
        PieceSource source(pieces, piece);
        for (auto here = source.here(); here.bytes > 0; here = source.here()) {
          bytes += here.bytes;
          source.advance(here.bytes);
        }
        CHECK(bytes == walked[piece]);
      }
    }
  }
}

TEST_CASE(
    "exec/block pieces: a share that differs by a head or by columns differs in these alone") {
  const Transformer t = wide();
  const TemporaryFolder folder;
  write_random_weights(t, 7, model::DType::f32, folder.path());
  const auto head_bytes =
      static_cast<std::uint64_t>(2 * t.head_dim * t.hidden) * sizeof(float);  // query and out
  const auto column_bytes = static_cast<std::uint64_t>(3 * t.hidden) * sizeof(float);
  const auto before = pieces_of_share(folder.path(), t, {{0, 3}, {2, 4}, {64, 192}, false, false});
  const auto missing = [&](const Share& share) {
    return bytes_missing(pieces_of_share(folder.path(), t, share), before);
  };
  CHECK(missing({{0, 3}, {2, 4}, {64, 192}, false, false}) == 0);
  CHECK(missing({{1, 3}, {3, 4}, {128, 192}, false, false}) == 0);  // less of everything
  SUBCASE("another query head of a group that is there") {
    const Share more{{0, 3}, {2, 4}, {64, 192}, false, false};
    REQUIRE(t.kv_heads_for({1, 4}).size() > 0);
    Share share = more;
    share.heads = {1, 4};
    const auto kv =
        static_cast<std::uint64_t>(t.kv_heads_for({1, 4}).size() - t.kv_heads_for({2, 4}).size()) *
        head_bytes;
    CHECK(missing(share) == 3 * (head_bytes + kv));
  }
  SUBCASE("64 columns more") {
    CHECK(missing({{0, 3}, {2, 4}, {64, 256}, false, false}) == 3 * 64 * column_bytes);
  }
  SUBCASE("a boundary off the grid: the rest of its group of 64 is sent") {
    CHECK(missing({{0, 3}, {2, 4}, {64, 197}, false, false}) == 3 * 5 * column_bytes);
    CHECK(missing({{0, 3}, {2, 4}, {69, 192}, false, false}) == 3 * 59 * column_bytes);
  }
}

TEST_CASE("exec/block label: comes back from its bytes, other bytes are none") {
  const Transformer t = wide();
  const Share share{{0, 1}, {1, 4}, {5, 150}, false, false};
  for (const LayoutBlock& block : layout_of(t, share).blocks) {
    const BlockPieces pieces = pieces_of(t, block);
    const BlockLabel label(pieces, std::vector<model::Digest>(pieces.count));
    const std::vector<std::byte> bytes = label.serialize();
    CHECK(label.id() == model::sha256_hex(bytes));
    const auto again = BlockLabel::parse(bytes);
    REQUIRE(again);
    CHECK(again->pieces() == pieces);
    CHECK(again->id() == label.id());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(BlockLabel::parse(std::span(bytes).first(size)));
    }
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_FALSE(BlockLabel::parse(longer));
    for (std::size_t i = 0; i < bytes.size(); ++i) {  // no altered byte breaks anything
      std::vector<std::byte> altered = bytes;
      altered[i] ^= std::byte{0x81};
      const auto parsed = BlockLabel::parse(altered);
      if (parsed) CHECK(parsed->id() != label.id());
    }
    std::vector<model::Digest> other(pieces.count);
    other.back()[31] = std::byte{1};
    CHECK(BlockLabel(pieces, other).id() != label.id());
  }
}

}  // namespace
}  // namespace tandem::exec::block_pieces_test
