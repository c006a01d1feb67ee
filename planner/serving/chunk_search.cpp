#include "planner/serving/chunk_search.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"

namespace tandem::planner {
namespace {

// Tried always; more only while each doubling is the best so far, as a prediction takes time in
// proportion.
constexpr std::int64_t kUsualChunks = 256;
constexpr std::int64_t kUsualChunksOfMany = 32;
constexpr std::int64_t kMostChunks = 8192;
constexpr int kMostWorse = 4;  // counts in a row, each worse than the best so far
constexpr std::int64_t kLongestStep = 512;

class ChunkSearch {
 public:
  using Seconds = std::function<double(std::int64_t chunk)>;

  ChunkSearch(std::int64_t longest, bool many, bool roughly, const Seconds& seconds)
      : longest_(longest), many_(many), roughly_(roughly), seconds_(&seconds) {}

  std::int64_t find() {
    const std::int64_t usual = std::min(many_ ? kUsualChunksOfMany : kUsualChunks, longest_);
    std::vector<std::int64_t> counts;
    std::int64_t power = 1;
    for (; power <= usual; power *= 2) {
      counts.push_back(power);
      if (!many_ && !roughly_ && power > 1 && power * 3 / 2 <= usual)
        counts.push_back(power * 3 / 2);
    }
    std::size_t considered = 0;
    for (int worse = 0; considered < counts.size() && worse < kMostWorse; ++considered) {
      const double before = best_time_;
      const double time = consider(counts[considered]);
      worse = time < before ? 0 : worse + (time < kNever ? 1 : 0);
    }
    counts.resize(considered);
    const std::int64_t most = std::min(longest_, kMostChunks);
    for (; counts.back() < most && may_be_more(counts.back()); power *= 2) {
      counts.push_back(std::min(power, most));
      consider(counts.back());
    }
    if (roughly_) return chunk_of(best_count_);
    const auto at = std::ranges::find(counts, best_count_);
    const std::int64_t from = at == counts.begin() ? 1 : *(at - 1);
    const std::int64_t to = at + 1 < counts.end() ? *(at + 1) : std::min(most, 2 * *at);
    const std::int64_t between = std::max<std::int64_t>(1, (to - from) / (many_ ? 4 : 16));
    for (std::int64_t count = from; count <= to; count += between) consider(count);
    return chunk_of(best_count_);
  }

 private:
  // Whether more chunks than `tried`, the most so far, may be better, or be the first that fit.
  [[nodiscard]] bool may_be_more(std::int64_t tried) const {
    return !search_ended() && (best_time_ == kNever || best_count_ == tried);
  }

  [[nodiscard]] std::int64_t chunk_of(std::int64_t count) const {
    return count == 1 ? 0 : (longest_ + count - 1) / count;
  }

  // Returns the seconds; infinite: they do not fit, or were known.
  double consider(std::int64_t count) {
    const auto [at, is_new] = times_.try_emplace(chunk_of(count), kNever);
    if (!is_new || search_ended()) return kNever;
    at->second = (*seconds_)(at->first);
    if (at->second < best_time_ * kBetter) {
      best_time_ = at->second;
      best_count_ = count;
    }
    return at->second;
  }

  std::int64_t longest_;
  bool many_;
  bool roughly_;
  const Seconds* seconds_;
  std::map<std::int64_t, double> times_;  // by chunk
  double best_time_ = kNever;
  std::int64_t best_count_ = 1;
};

}  // namespace

std::int64_t best_chunk(std::int64_t longest, bool many, bool roughly,
                        const std::function<double(std::int64_t)>& seconds) {
  return ChunkSearch(longest, many, roughly, seconds).find();
}

std::int64_t longest_fitting_step(std::int64_t prompt,
                                  const std::function<bool(std::int64_t)>& fits) {
  if (prompt < 2 || !fits(1)) return 0;
  for (std::int64_t rows = kLongestStep; rows > 1; rows /= 2) {
    if (rows < prompt && fits(rows)) return rows;
  }
  return 1;
}

}  // namespace tandem::planner
