#include "study/swap.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

namespace tandem::test::swap_test {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using study::swap_time;

constexpr study::SwapSpace kSpace{
    .memory = Bytes{8e9}, .swap = Bytes{4e9}, .rate = BytesPerSecond{5e8}};

}  // namespace

TEST_CASE("study/swap: what fits the memory costs nothing, also if what is not touched does not") {
  for (const double needed : {1e9, 8e9, 8.5e9, 12e9}) {
    CAPTURE(needed);
    const auto time = swap_time({.needed = Bytes{needed}, .touched = Bytes{8e9}}, kSpace);
    REQUIRE(time);
    CHECK(time->first_pass.value() == 0.0);
    CHECK(time->later_pass.value() == 0.0);
  }
}

TEST_CASE("study/swap: 10 GB touched at 0.5 GB/s take 20 s a pass, 40 s the first") {
  const auto time = swap_time({.needed = Bytes{11e9}, .touched = Bytes{10e9}}, kSpace);
  REQUIRE(time);
  CHECK(time->later_pass.value() == doctest::Approx(20.0));
  CHECK(time->first_pass.value() == doctest::Approx(40.0));
}

TEST_CASE("study/swap: more than memory and swap is out of memory") {
  CHECK(swap_time({.needed = Bytes{12e9}, .touched = Bytes{1e9}}, kSpace));
  CHECK(!swap_time({.needed = Bytes{12e9 + 1}, .touched = Bytes{1e9}}, kSpace));
}

TEST_CASE("study/swap: more memory is never slower") {
  double last = 1e9;
  for (double memory = 1e9; memory <= 12e9; memory += 1e9) {
    CAPTURE(memory);
    study::SwapSpace space = kSpace;
    space.memory = Bytes{memory};
    space.swap = Bytes{20e9};
    const auto time = swap_time({.needed = Bytes{11e9}, .touched = Bytes{10e9}}, space);
    REQUIRE(time);
    CHECK(time->later_pass.value() <= last);
    last = time->later_pass.value();
  }
  CHECK(last == 0.0);
}

TEST_CASE("study/swap: a rate of 0 is the caller's fault") {
  study::SwapSpace space = kSpace;
  space.rate = BytesPerSecond{0.0};
  CHECK_THROWS_AS(static_cast<void>(swap_time({}, space)), std::logic_error);
}

}  // namespace tandem::test::swap_test
