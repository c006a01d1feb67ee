// How long chunks of prompts are best, by a clock.

#include "planner/serving/chunk_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem::test::chunk_search_test {

// With k chunks, each of which takes `each` beside its part of the prompt: (k + S - 1) (1 / k +
// each), which is least for k = sqrt((S - 1) / each).
TEST_CASE("planner/chunk: the best number of chunks of a pipeline by its closed form") {
  for (const std::int64_t rows : {48, 500, 4000, 60000}) {
    for (const double each : {0.3, 0.01, 0.002, 2e-5, 1e-6}) {
      for (const bool many : {false, true}) {
        CAPTURE(rows);
        CAPTURE(each);
        const auto seconds = [&](std::int64_t chunk) {
          const double count =
              chunk == 0 ? 1.0 : std::ceil(static_cast<double>(rows) / static_cast<double>(chunk));
          return (count + 3.0) * (1.0 / count + each);
        };
        double least = seconds(0);
        for (std::int64_t chunk = 1; chunk <= rows; ++chunk)
          least = std::min(least, seconds(chunk));
        CHECK(seconds(planner::best_chunk(rows, many, false, seconds)) <=
              least * (many ? 1.02 : 1.001));
      }
    }
  }
}

TEST_CASE("planner/chunk: more chunks than usual are predicted only while they are better") {
  for (const std::int64_t best : {1, 40, 300, 1500}) {
    CAPTURE(best);
    std::int64_t most = 0;
    static_cast<void>(planner::best_chunk(60000, false, false, [&](std::int64_t chunk) {
      const std::int64_t count = chunk == 0 ? 1 : (60000 + chunk - 1) / chunk;
      most = std::max(most, count);
      return std::abs(std::log(static_cast<double>(count) / static_cast<double>(best)));
    }));
    CHECK(most <= std::max<std::int64_t>(260, 4 * best));
  }
}

TEST_CASE("planner/chunk: what does not fit is not chosen") {
  const auto fits_in_short_steps = [](std::int64_t chunk) {
    return chunk == 0 || chunk > 20 ? std::numeric_limits<double>::infinity()
                                    : 1.0 / static_cast<double>(chunk);
  };
  const std::int64_t chunk = planner::best_chunk(100, false, false, fits_in_short_steps);
  CHECK(chunk > 16);
  CHECK(chunk <= 20);
}

TEST_CASE("planner/chunk: the longest step that fits is asked for, the shortest first") {
  for (const std::int64_t prompt : {1, 2, 5, 64, 65, 600, 5000}) {
    for (std::int64_t most = 0; most <= 1200; most = most * 2 + (most < 8 ? 1 : 3)) {
      CAPTURE(prompt);
      CAPTURE(most);
      std::int64_t expected = 0;
      for (std::int64_t rows = 1; rows <= 512; rows *= 2) {
        if (rows < prompt && rows <= most) expected = rows;
      }
      std::vector<std::int64_t> asked;
      const auto fits = [&](std::int64_t rows) {
        asked.push_back(rows);
        return rows <= most;
      };
      CHECK(planner::longest_fitting_step(prompt, fits) == expected);
      if (most == 0) CHECK(asked.size() <= 1);
    }
  }
}

}  // namespace tandem::test::chunk_search_test
