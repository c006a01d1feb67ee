#include "exec/kernels/thread_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tandem::exec::thread_pool_test {

TEST_CASE("kernels/thread pool: parts cover the range once, at multiples of the granule") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t count : {0, 1, 2, 3, 16, 17, 97}) {
      for (const std::int64_t granule : {1, 4, 16}) {
        CAPTURE(threads);
        CAPTURE(count);
        CAPTURE(granule);
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        std::atomic<int> misplaced{0};
        std::atomic<int> parts{0};
        pool.parallel_for(count, granule, [&](std::int64_t begin, std::int64_t end, int thread) {
          ++parts;
          if (begin % granule != 0 || (end % granule != 0 && end != count)) ++misplaced;
          if (thread < 0 || thread >= threads) ++misplaced;
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        CHECK(misplaced == 0);
        CHECK(parts == std::min<std::int64_t>(threads, (count + granule - 1) / granule));
        for (const auto& hit : hits) CHECK(hit == 1);
      }
    }
  }
}

TEST_CASE("kernels/thread pool: parts differ by at most one granule") {
  ThreadPool pool(3);
  std::mutex mutex;
  std::multiset<std::int64_t> sizes;
  pool.parallel_for(160, 16, [&](std::int64_t begin, std::int64_t end, int) {
    const std::scoped_lock lock(mutex);
    sizes.insert(end - begin);
  });
  CHECK(sizes == std::multiset<std::int64_t>{48, 48, 64});
}

TEST_CASE("kernels/thread pool: one thread is the caller") {
  ThreadPool pool(1);
  std::thread::id seen;
  pool.parallel_for(100, 1,
                    [&](std::int64_t, std::int64_t, int) { seen = std::this_thread::get_id(); });
  CHECK(seen == std::this_thread::get_id());
}

TEST_CASE("kernels/thread pool: writes of one job are seen by the next and by the caller") {
  for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(50)}) {
    ThreadPool pool(3, spin);
    std::vector<int> values(48, 0);
    for (int round = 0; round < 2000; ++round) {
      pool.parallel_for(48, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          // Reads what another thread may have written in the round before.
          values[static_cast<std::size_t>(i)] = round + 1;
        }
      });
      if (values[static_cast<std::size_t>(round % 48)] != round + 1) FAIL("stale value");
      if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(values == std::vector<int>(48, 2000));
  }
}

TEST_CASE("kernels/thread pool: refuses no thread at all") {
  CHECK_THROWS_AS(ThreadPool(0), std::logic_error);
}

}  // namespace tandem::exec::thread_pool_test
