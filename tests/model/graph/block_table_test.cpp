#include "model/graph/block_table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/memory.hpp"

namespace tandem::model::block_table_test {
namespace {

constexpr auto kBlock = static_cast<std::int32_t>(kCacheBlock);

CacheOp freed(std::int32_t sequence) { return {.kind = CacheOpKind::free, .sequence = sequence}; }
CacheOp forked(std::int32_t sequence, std::int32_t from, std::int32_t positions) {
  return {.kind = CacheOpKind::fork, .sequence = sequence, .from = from, .positions = positions};
}
CacheOp truncated(std::int32_t sequence, std::int32_t positions) {
  return {.kind = CacheOpKind::truncate, .sequence = sequence, .positions = positions};
}

std::vector<std::int32_t> blocks_of(const BlockTable& table, std::int32_t sequence) {
  const auto blocks = table.blocks(sequence);
  return {blocks.begin(), blocks.end()};
}

}  // namespace

TEST_CASE("model/block table: a sequence takes whole blocks in order as it grows") {
  BlockTable table(4);
  CHECK(table.append(3, {0, 1}).empty());
  CHECK(table.append(3, {1, kBlock}).empty());
  CHECK(table.free_blocks() == 3);
  CHECK(table.append(3, {kBlock, 2 * kBlock + 1}).empty());
  CHECK(blocks_of(table, 3) == std::vector<std::int32_t>{0, 1, 2});
  CHECK(table.length(3) == 2 * kBlock + 1);
  CHECK(table.holds(3, {0, 2 * kBlock + 1}));
  CHECK_FALSE(table.holds(3, {0, 2 * kBlock + 2}));
  CHECK_FALSE(table.holds(4, {0, 1}));
  SUBCASE("freed blocks are taken again, in order") {
    table.apply(freed(3));
    CHECK(table.free_blocks() == 4);
    CHECK(table.length(3) == 0);
    CHECK(table.append(1000000, {0, 2 * kBlock}).empty());
    CHECK(blocks_of(table, 1000000) == std::vector<std::int32_t>{0, 1});
    table.apply(freed(3));  // has nothing
    CHECK(table.free_blocks() == 2);
  }
  SUBCASE("truncation gives back whole blocks and keeps the partly filled one") {
    table.apply(truncated(3, kBlock + 1));
    CHECK(blocks_of(table, 3) == std::vector<std::int32_t>{0, 1});
    CHECK_FALSE(table.holds(3, {kBlock + 1, kBlock + 2}));
    CHECK(table.append(3, {kBlock + 1, kBlock + 2}).empty());
    table.apply(truncated(3, 0));
    CHECK(table.free_blocks() == 4);
    CHECK(table.append(3, {0, 1}).empty());
  }
}

TEST_CASE("model/block table: a fork shares blocks, who writes beside another's positions copies") {
  BlockTable table(4);
  static_cast<void>(table.append(0, {0, kBlock + 5}));
  table.apply(forked(1, 0, kBlock + 3));
  CHECK(blocks_of(table, 1) == blocks_of(table, 0));
  CHECK(table.free_blocks() == 2);
  CHECK(table.references(1) == 2);
  CHECK(table.length(1) == kBlock + 3);
  CHECK(table.needs(1, {kBlock + 3, kBlock + 4}) == 1);
  using Copies = std::vector<BlockTable::Copy>;
  CHECK(table.append(1, {kBlock + 3, kBlock + 4}) == Copies{{.from = 1, .to = 2, .positions = 3}});
  CHECK(blocks_of(table, 1) == std::vector<std::int32_t>{0, 2});
  CHECK(table.append(0, {kBlock + 5, kBlock + 6}).empty());  // alone in its last block now
  SUBCASE("the first to write copies, whoever it is") {
    table.apply(forked(2, 0, kBlock + 6));
    CHECK(table.append(0, {kBlock + 6, kBlock + 7}) ==
          Copies{{.from = 1, .to = 3, .positions = 6}});
    CHECK(table.append(2, {kBlock + 6, kBlock + 7}).empty());
  }
  SUBCASE("at a block's edge nothing is copied") {
    table.apply(forked(2, 0, kBlock));
    CHECK(table.append(2, {kBlock, kBlock + 9}).empty());
    CHECK(table.references(0) == 3);
  }
  SUBCASE("a truncated sequence copies what it still shares") {
    table.apply(truncated(1, 7));
    CHECK(table.append(1, {7, 8}) == Copies{{.from = 0, .to = 2, .positions = 7}});
  }
  SUBCASE("blocks are free when the last of their sequences is") {
    table.apply(freed(0));
    CHECK(table.free_blocks() == 2);
    CHECK(table.holds(1, {0, kBlock + 4}));
    table.apply(freed(1));
    CHECK(table.free_blocks() == 4);
  }
}

TEST_CASE("model/block table: steps of one pass have the same positions, others continue") {
  BlockTable table(4);
  static_cast<void>(table.append(0, {0, 5}));
  CHECK(table.append(0, {0, 5}).empty());  // other layers
  static_cast<void>(table.append(0, {5, 6}));
  CHECK(table.append(0, {5, 6}).empty());
  CHECK_THROWS_AS(static_cast<void>(table.append(0, {0, 5})), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(table.append(0, {7, 8})), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(table.append(0, {6, 5})), std::logic_error);
  SUBCASE("other layers of a position that was shared meanwhile are kept") {
    table.apply(forked(1, 0, 6));
    CHECK(table.append(0, {5, 6}) ==
          std::vector<BlockTable::Copy>{{.from = 0, .to = 1, .positions = 6}});
  }
  SUBCASE("not after the sequence was cut") {
    table.apply(truncated(0, 6));
    CHECK_THROWS_AS(static_cast<void>(table.append(0, {5, 6})), std::logic_error);
  }
}

TEST_CASE("model/block table: positions that another device has leave a gap without blocks") {
  BlockTable table(4);
  static_cast<void>(table.append(0, {0, 10}));
  table.skip(0, {10, 3 * kBlock});
  static_cast<void>(table.append(0, {3 * kBlock, 3 * kBlock + 2}));
  const std::int32_t none = BlockTable::kNoBlock;
  CHECK(blocks_of(table, 0) == std::vector<std::int32_t>{0, none, none, 1});
  CHECK(table.length(0) == 3 * kBlock + 2);
  CHECK(table.holds(0, {0, 10}));
  CHECK(table.holds(0, {3 * kBlock + 1, 3 * kBlock + 2}));
  CHECK_FALSE(table.holds(0, {9, 11}));
  CHECK_FALSE(table.holds(0, {0, 3 * kBlock + 1}));
  CHECK_THROWS_AS(table.skip(0, {0, 1}), std::logic_error);
  table.apply(forked(1, 0, 2 * kBlock));
  CHECK(blocks_of(table, 1) == std::vector<std::int32_t>{0, none});
  CHECK(table.length(1) == 2 * kBlock);
  table.apply(freed(0));
  CHECK(table.free_blocks() == 3);
}

TEST_CASE("model/block table: misuse is a logic error, too few blocks an Error, nothing changes") {
  BlockTable table(2);
  static_cast<void>(table.append(0, {0, kBlock}));
  CHECK_THROWS_AS(static_cast<void>(table.append(1, {0, kBlock + 1})), Error);
  CHECK(table.length(1) == 0);
  CHECK(table.free_blocks() == 1);
  CHECK_THROWS_AS(table.apply(forked(1, 0, kBlock + 1)), std::logic_error);
  CHECK_THROWS_AS(table.apply(forked(1, 2, 1)), std::logic_error);
  CHECK_THROWS_AS(table.apply(truncated(0, kBlock + 1)), std::logic_error);
  CHECK_THROWS_AS(table.apply(truncated(5, 1)), std::logic_error);
  table.apply(forked(1, 0, 3));
  CHECK_THROWS_AS(table.apply(forked(1, 0, 3)), std::logic_error);
  CHECK_THROWS_AS(BlockTable(-1), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(table.references(2)), std::logic_error);
}

TEST_CASE("model/block table: after any operations blocks are shared as positions are") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<std::int32_t>(random() % unsigned(n)); };
    BlockTable table(40);
    for (int i = 0; i < 200; ++i) {
      const std::int32_t sequence = below(6);
      const std::int32_t other = below(6);
      const std::int32_t length = table.length(sequence);
      switch (below(4)) {
        case 0:
          table.apply(freed(sequence));
          break;
        case 1:
          if (length == 0) table.apply(forked(sequence, other, below(table.length(other) + 1)));
          break;
        case 2:
          table.apply(truncated(sequence, below(length + 1)));
          break;
        default: {
          const Range positions{length, length + 1 + below(100)};
          const std::int64_t needed = table.needs(sequence, positions);
          const std::int64_t had = table.free_blocks();
          if (needed > had) {
            CHECK_THROWS_AS(static_cast<void>(table.append(sequence, positions)), Error);
            break;
          }
          static_cast<void>(table.append(sequence, positions));
          CHECK(had - table.free_blocks() <= needed);  // a copied block may be another's last use
          for (std::int32_t b = positions.begin / kBlock; b * kBlock < positions.end; ++b)
            CHECK(table.references(table.blocks(sequence)[static_cast<std::size_t>(b)]) == 1);
          break;
        }
      }
      std::map<std::int32_t, std::int32_t> uses;
      for (std::int32_t s = 0; s < 6; ++s) {
        CHECK(static_cast<std::int64_t>(table.blocks(s).size()) == cache_blocks(table.length(s)));
        CHECK(table.holds(s, {0, table.length(s)}));
        for (const std::int32_t block : table.blocks(s)) ++uses[block];
      }
      CHECK(table.free_blocks() == table.size() - static_cast<std::int64_t>(uses.size()));
      for (const auto& [block, count] : uses) CHECK(table.references(block) == count);
    }
  }
}

}  // namespace tandem::model::block_table_test
