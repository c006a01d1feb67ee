// Keys and values kept in Q8_0: what a head has of them, by the definition of the type.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "exec/kernels/cached_row.hpp"
#include "exec/weights/formats/convert.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::q8_0_cache_test {
namespace {

using model::CacheFormat;
using testing::Matrix;
using testing::random_floats;

constexpr std::int64_t kScaled = 32;
constexpr std::int64_t kDim = 96;

// Two blocks of positions, the second first in memory.
struct Head {
  explicit Head(std::int64_t head_dim = kDim)
      : memory(
            static_cast<std::size_t>(2 * block_bytes(CacheFormat::q8_0, kBlockGranule, head_dim)),
            std::byte{0xff}),
        head{memory.data(), order.data(), kBlockGranule, CacheFormat::q8_0} {}
  std::vector<std::int32_t> order{1, 0};
  std::vector<std::byte> memory;
  CachedHead head;
};

float half_of(float x) {
  std::byte bits[2];
  float rounded = 0.0F;
  from_f32(model::DType::f16, {&x, 1}, bits);
  to_f32(model::DType::f16, bits, {&rounded, 1});
  return rounded;
}

// Each 32 numbers are q d, d = max |x| / 127 as F16, q the nearest whole number.
void check_kept(const std::vector<float>& row, const std::vector<float>& kept) {
  for (std::size_t begin = 0; begin < row.size(); begin += kScaled) {
    double most = 0.0;
    for (std::size_t i = begin; i < begin + kScaled; ++i)
      most = std::max(most, std::abs(static_cast<double>(row[i])));
    const double exact = most / 127.0;
    const double d = half_of(static_cast<float>(exact));
    double largest = 0.0;
    for (std::size_t i = begin; i < begin + kScaled; ++i) {
      CAPTURE(i);
      const double x = row[i];
      if (d == 0.0) {
        CHECK(kept[i] == 0.0F);
        continue;
      }
      const double q = static_cast<double>(kept[i]) / d;
      CHECK(q == std::round(q));
      // Half a step, and a rounding of the quotient.
      CHECK(std::abs(q - x / exact) <= 0.5 + 127.0 * 0x1p-22);
      largest = std::max(largest, std::abs(q));
    }
    CHECK(largest == (d == 0.0 ? 0.0 : 127.0));
  }
}

}  // namespace

TEST_CASE("kernels/q8_0 cache: 32 numbers are a scale in F16 and a signed byte each, 34 bytes") {
  CHECK(block_bytes(CacheFormat::q8_0, kBlockGranule, kDim) == 2 * 64 * 3 * 34);
  Head blocks;
  for (const float size : {1e-9F, 1e-5F, 1.0F, 300.0F, 8e6F}) {
    CAPTURE(size);
    for (const std::int64_t position : {0, 1, 15, 16, 63, 64, 127}) {
      std::vector<float> row = random_floats(kDim, static_cast<std::uint32_t>(position));
      for (float& x : row) x *= size;
      std::fill_n(row.begin() + kScaled, kScaled, 0.0F);
      std::vector<float> kept(kDim);
      CHECK(store_key(row.data(), position, blocks.head, kDim));
      load_key(blocks.head, position, kDim, kept.data());
      check_kept(row, kept);
      std::vector<float> again(kDim);
      CHECK(store_value(row.data(), position, blocks.head, kDim));
      load_value(blocks.head, position, kDim, again.data());
      CHECK(again == kept);
      // What is kept, stored again, is the same: moved from device to device it does not change.
      CHECK(store_key(kept.data(), position, blocks.head, kDim));
      load_key(blocks.head, position, kDim, again.data());
      CHECK(again == kept);
    }
  }
}

TEST_CASE("kernels/q8_0 cache: positions do not touch one another") {
  Head blocks;
  constexpr std::int64_t kPositions = 2 * kBlockGranule;
  const std::vector<float> keys = random_floats(kPositions * kDim, 1);
  const std::vector<float> values = random_floats(kPositions * kDim, 2);
  for (std::int64_t p = kPositions - 1; p >= 0; --p) {
    CHECK(store_value(values.data() + p * kDim, p, blocks.head, kDim));
    CHECK(store_key(keys.data() + p * kDim, p, blocks.head, kDim));
  }
  std::vector<float> kept(kDim);
  for (std::int64_t p = 0; p < kPositions; ++p) {
    CAPTURE(p);
    load_key(blocks.head, p, kDim, kept.data());
    check_kept({keys.begin() + p * kDim, keys.begin() + (p + 1) * kDim}, kept);
    load_value(blocks.head, p, kDim, kept.data());
    check_kept({values.begin() + p * kDim, values.begin() + (p + 1) * kDim}, kept);
  }
}

TEST_CASE("kernels/q8_0 cache: numbers that a scale ends at, and beyond") {
  Head blocks;
  std::vector<float> row(kDim, 1.0F);
  for (const std::size_t at : {std::size_t{0}, std::size_t{40}, std::size_t{95}}) {
    CAPTURE(at);
    for (const float good : {8319008.0F, -8319008.0F}) {
      row[at] = good;
      CHECK(store_key(row.data(), 3, blocks.head, kDim));
      CHECK(store_value(row.data(), 3, blocks.head, kDim));
      std::vector<float> kept(kDim);
      load_value(blocks.head, 3, kDim, kept.data());
      CHECK(kept[at] == good);
    }
    for (const float bad : {8.4e6F, -1e30F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      row[at] = bad;
      CHECK(!store_key(row.data(), 3, blocks.head, kDim));
      CHECK(!store_value(row.data(), 3, blocks.head, kDim));
    }
    row[at] = 1.0F;
  }
  CHECK(model::row_of(CacheFormat::q8_0).most == 8319008);
}

// Whole numbers with a 127 among each 32 are kept exactly, so attention over them is known from the
// given numbers alone, without any code that reads a cache.
TEST_CASE("kernels/q8_0 cache: attention over whole numbers is that of the numbers given") {
  for (const std::int64_t head_dim : {32, 64, 96, 128, 256, 512}) {
    for (const auto& [rows, group] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {1, 4}, {1, 8}, {2, 13}, {40, 3}}) {
      CAPTURE(head_dim);
      CAPTURE(rows);
      CAPTURE(group);
      const std::int64_t past = 128 - rows - 3;  // of the last block some positions
      const std::int64_t positions = past + rows;
      const auto whole_numbers = [&](std::uint32_t seed) {
        std::vector<float> numbers = random_floats(positions * head_dim, seed);
        for (float& x : numbers) x = std::round(x * 127.0F);
        for (std::size_t i = seed; i < numbers.size(); i += kScaled) numbers[i] = 127.0F;
        return numbers;
      };
      const std::vector<float> keys = whole_numbers(5);
      const std::vector<float> values = whole_numbers(6);
      std::vector<float> queries = random_floats(rows * group * head_dim, 4);
      for (float& x : queries) x *= 0x1p-7F;
      const Matrix wanted = testing::causal_attention(
          testing::as_matrix(queries, rows, group * head_dim),
          testing::as_matrix(keys, positions, head_dim),
          testing::as_matrix(values, positions, head_dim), head_dim, group, past, {0, 1 << 30});
      Head blocks(head_dim);
      for (std::int64_t p = 0; p < positions; ++p) {
        CHECK(store_key(keys.data() + p * head_dim, p, blocks.head, head_dim));
        CHECK(store_value(values.data() + p * head_dim, p, blocks.head, head_dim));
      }
      std::vector<float> output(queries.size());
      testing::for_every_target([&] {
        attend({.queries = queries.data(),
                .query_stride = group * head_dim,
                .cache = blocks.head,
                .output = output.data(),
                .output_stride = group * head_dim,
                .rows = rows,
                .group = group,
                .head_dim = head_dim,
                .first_key = 0,
                .end_key = positions,
                .past = past});
        testing::check_close(
            output, wanted,
            127.0 * (2.0 * testing::tolerance(head_dim) + testing::tolerance(positions)));
      });
    }
  }
}

}  // namespace tandem::exec::q8_0_cache_test
