#include "model/predict/page_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tandem::model::page_cache_test {
namespace {

constexpr CacheRule kRules[] = {CacheRule::least_recent, CacheRule::retaining};

// Counts the pages that the last of many passes reads, page by page. `pages` is ordered by use,
// the most recent one last.
int pages_read(int file, int cache, CacheRule rule) {
  constexpr int kPasses = 40;
  std::vector<int> pages;
  int read = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    read = 0;
    for (int page = 0; page < file; ++page) {
      const auto found = std::find(pages.begin(), pages.end(), page);
      if (found != pages.end()) {
        pages.erase(found);
      } else {
        ++read;
        if (static_cast<int>(pages.size()) == cache)
          pages.erase(rule == CacheRule::least_recent ? pages.begin() : pages.end() - 1);
      }
      pages.push_back(page);
    }
  }
  return read;
}

}  // namespace

TEST_CASE("model/page cache: a page-by-page cache reads as much") {
  for (const CacheRule rule : kRules) {
    for (const int file : {1, 2, 7, 20, 33}) {
      for (int cache = 1; cache <= file + 2; ++cache) {
        CAPTURE(file);
        CAPTURE(cache);
        const double expected =
            repeated_read(
                {.file = Bytes{double(file)}, .cache = Bytes{double(cache)}, .rule = rule})
                .value();
        // The page that is just read takes a place: one more in some passes.
        const int counted = pages_read(file, cache, rule);
        CHECK(counted >= expected);
        CHECK(counted <= expected + (rule == CacheRule::retaining && cache < file ? 1 : 0));
      }
    }
  }
}

TEST_CASE("model/page cache: 10 GB at 2 GB/s beside 4 GB of cache, copies at 8 GB/s") {
  const PageCacheRates rates{.disk = BytesPerSecond{2e9}, .memory = BytesPerSecond{16e9}};
  CachedFile cached{.file = Bytes{10e9}, .cache = Bytes{4e9}};
  SUBCASE("least recent: all of it, 5 s") {
    CHECK(repeated_rate(cached, rates).value() == doctest::Approx(2e9));
  }
  SUBCASE("retaining: 6 GB in 3 s and 4 GB in 0.5 s") {
    cached.rule = CacheRule::retaining;
    CHECK(repeated_read(cached).value() == doctest::Approx(6e9));
    CHECK(repeated_rate(cached, rates).value() == doctest::Approx(10e9 / 3.5));
  }
  SUBCASE("both: nothing of what fits, at the rate of copies") {
    for (const CacheRule rule : kRules) {
      cached = {.file = Bytes{10e9}, .cache = Bytes{10e9}, .rule = rule};
      CHECK(repeated_read(cached).value() == 0.0);
      CHECK(repeated_rate(cached, rates).value() == doctest::Approx(8e9));
    }
  }
}

TEST_CASE("model/page cache: more memory never reads more, and least recent is never better") {
  for (double cache = 0.0; cache <= 12.0; cache += 0.5) {
    CAPTURE(cache);
    double read[2] = {};
    for (const CacheRule rule : kRules) {
      const auto bytes = [&](double of) {
        return repeated_read({.file = Bytes{10.0}, .cache = Bytes{of}, .rule = rule}).value();
      };
      CHECK(bytes(cache + 0.5) <= bytes(cache));
      read[static_cast<int>(rule)] = bytes(cache);
    }
    CHECK(read[1] <= read[0]);
  }
}

TEST_CASE("model/page cache: negative sizes and rates of 0 are the caller's fault") {
  CHECK_THROWS_AS(static_cast<void>(repeated_read({.file = Bytes{-1.0}})), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(repeated_rate({.file = Bytes{}}, {})), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(repeated_rate({.file = Bytes{1.0}}, {})), std::logic_error);
}

}  // namespace tandem::model::page_cache_test
