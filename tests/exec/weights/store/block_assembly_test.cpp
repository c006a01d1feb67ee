// Blocks that are put together from pieces of others and from what is sent.

#include "exec/weights/store/block_assembly.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::block_assembly_test {
namespace {

using model::Share;
using model::Transformer;
using namespace testing;

// A master's store and a worker's.
struct Pair {
  Pair() {
    t.intermediate = 300;
    write_random_weights(t, 7, model::DType::f32, weights);
  }
  [[nodiscard]] std::vector<MadeBlock> blocks(const Share& share) {
    return blocks_of(weights, t, share, master);
  }
  // Brings `share` to the worker as a session does; returns the bytes that were sent.
  std::uint64_t bring(const Share& share, std::size_t portion = 1000) {
    PieceIndex index(worker);
    std::uint64_t sent = 0;
    for (const MadeBlock& block : blocks(share)) {
      while (!worker.find(block.label) || !worker.check(*worker.find(block.label), block.label)) {
        const auto wanted = index.lacking(block.label);
        BlockAssembly assembly(index, block.label, wanted);
        assembly.append({});
        send_pieces(block.file, block.label.pieces(), wanted, portion, [&](auto bytes) {
          CHECK(bytes.size() <= portion);
          CHECK(assembly.append(bytes) == bytes.size());
          sent += bytes.size();
        });
        CHECK(assembly.complete());
        CHECK(assembly.append(std::vector<std::byte>(7)) == 0);
        static_cast<void>(assembly.finish());
      }
      CHECK(read_all(worker.find(block.label)->path) == read_all(block.file.path));
    }
    return sent;
  }
  TemporaryFolder folder;
  Transformer t = small_llama();
  std::filesystem::path weights = folder.path() / "weights";
  BlockStore master{folder.path() / "master"};
  BlockStore worker{folder.path() / "worker"};
};

TEST_CASE("exec/block assembly: what is there is copied, the rest is sent, and nothing twice") {
  for (const std::size_t portion : {std::size_t{1}, std::size_t{777}, std::size_t{1} << 20U}) {
    Pair pair;
    const Transformer& t = pair.t;
    const auto head = static_cast<std::uint64_t>(2 * t.head_dim * t.hidden) * sizeof(float);
    const auto column = static_cast<std::uint64_t>(3 * t.hidden) * sizeof(float);
    const Share first{{0, 3}, {2, 4}, {64, 192}, false, false};
    CHECK(pair.bring(first, portion) > 0);
    CHECK(pair.bring(first, portion) == 0);
    const std::uint64_t kv = head * static_cast<std::uint64_t>(t.kv_heads_for({1, 4}).size() -
                                                               t.kv_heads_for({2, 4}).size());
    CHECK(pair.bring({{0, 3}, {1, 4}, {64, 192}, false, false}, portion) == 3 * (head + kv));
    CHECK(pair.bring({{0, 3}, {3, 4}, {64, 197}, false, false}, portion) == 3 * 5 * column);
    CHECK(pair.bring({{1, 3}, {2, 4}, {128, 192}, false, false}, portion) == 0);
    // The embedding is sent once, as the head is; its rows come in groups.
    const std::uint64_t ends = pair.bring({{0, 0}, {0, 0}, {0, 0}, true, true}, portion);
    CHECK(ends > 0);
    CHECK(pair.bring({{0, 1}, {2, 4}, {64, 128}, true, true}, portion) == 0);
  }
}

TEST_CASE("exec/block assembly: a damaged donor is removed, and what it gave is asked for") {
  Pair pair;
  const Share first{{0, 1}, {2, 4}, {64, 192}, false, false};
  const Share second{{0, 1}, {2, 4}, {64, 256}, false, false};
  pair.bring(first);
  const auto donor = pair.worker.folder() / "blocks" / pair.blocks(first)[1].label.id();
  const auto bytes = std::filesystem::file_size(donor);
  SUBCASE("altered") {
    std::fstream file(donor, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes / 2));
    file.put('!');
  }
  SUBCASE("cut short") { std::filesystem::resize_file(donor, bytes / 2); }
  const std::uint64_t sent = pair.bring(second);
  CHECK(sent > 64U * 3U * static_cast<std::uint64_t>(pair.t.hidden) * sizeof(float));
  CHECK_FALSE(std::filesystem::exists(donor));
}

TEST_CASE("exec/block assembly: bytes with another digest are refused, and not kept") {
  Pair pair;
  const MadeBlock block = pair.blocks({{0, 1}, {2, 4}, {64, 192}, false, false})[1];
  PieceIndex index(pair.worker);
  const auto wanted = index.lacking(block.label);
  CHECK(wanted.size() == block.label.pieces().count);
  {
    BlockAssembly assembly(index, block.label, wanted);
    const std::vector<std::byte> zeros(block.file.bytes);
    assembly.append(zeros);
    REQUIRE(assembly.complete());
    CHECK(has(error_of([&] { static_cast<void>(assembly.finish()); }), "announced as"));
  }
  {
    BlockAssembly half(index, block.label, wanted);
    half.append(std::vector<std::byte>(100));
    CHECK_FALSE(half.complete());
  }
  CHECK(names_in(pair.worker.folder()).empty());
}

}  // namespace
}  // namespace tandem::exec::block_assembly_test
