#include "exec/compute/shortlist.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "exec/kernels/kernel_table.hpp"
#include "model/base/error.hpp"
#include "model/graph/candidates.hpp"

namespace tandem::exec {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// Likeliest first, the smaller id among equals.
bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void check(float logit, std::int32_t id) {
  if (!std::isnan(logit)) return;
  throw Error("sampling: the logit of token " + std::to_string(id) +
              " is NaN, expected a number; the weights or a message are corrupt, make the "
              "weights again");
}

}  // namespace

std::span<const float> Scores::logits() const {
  require(whole(), "scores: candidates are not all logits");
  return logits_;
}

void find_best(std::span<const float> logits, std::int32_t first, std::size_t count,
               std::vector<Candidate>& best) {
  constexpr std::size_t kBlock = 64;  // looked at together: few have one that is good enough
  require(count > 0, "find_best: some candidates");
  best.clear();
  const std::size_t enough = std::min(count, logits.size());
  const auto id_of = [first](std::size_t i) { return first + static_cast<std::int32_t>(i); };
  for (std::size_t i = 0; i < enough; ++i) {
    check(logits[i], id_of(i));
    best.push_back({id_of(i), logits[i]});
  }
  // The worst is on top. Ids ascend, so of equal logits the later one ranks after it.
  std::ranges::make_heap(best, ranks_before);
  for (std::size_t begin = enough; begin < logits.size(); begin += kBlock) {
    const std::size_t end = std::min(logits.size(), begin + kBlock);
    const float least = best.front().logit;
    int any = 0;
    for (std::size_t i = begin; i < end; ++i) any |= static_cast<int>(!(logits[i] <= least));
    if (any == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      check(logits[i], id_of(i));
      if (logits[i] <= best.front().logit) continue;
      std::ranges::pop_heap(best, ranks_before);
      best.back() = {id_of(i), logits[i]};
      std::ranges::push_heap(best, ranks_before);
    }
  }
  std::ranges::sort_heap(best, ranks_before);
}

void tell_candidates(const Kernels& kernels, std::span<const float> logits, std::int32_t first,
                     std::vector<Candidate>& scratch, std::span<float> encoded) {
  const auto count =
      static_cast<std::size_t>(model::candidates_in(static_cast<std::int64_t>(encoded.size())));
  require(encoded.size() ==
              static_cast<std::size_t>(model::candidate_columns(static_cast<std::int32_t>(count))),
          "candidates: a denominator, logits and ids");
  require(!logits.empty(), "candidates: of some logits");
  find_best(logits, first, count, scratch);
  const float largest = scratch.front().logit;
  if (largest == kLeast) {
    encoded[0] = 0.0F;
  } else if (std::isinf(largest)) {
    encoded[0] = static_cast<float>(std::ranges::count(logits, largest));
  } else {
    encoded[0] = kernels.exp_sum(logits.data(), largest, static_cast<std::int64_t>(logits.size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool there = i < scratch.size();
    encoded[1 + i] = there ? scratch[i].logit : kLeast;
    encoded[1 + count + i] = there ? static_cast<float>(scratch[i].id) : -1.0F;
  }
}

double merge_candidates(std::span<const float> encoded, std::size_t columns,
                        std::vector<Candidate>& best) {
  const auto count =
      static_cast<std::size_t>(model::candidates_in(static_cast<std::int64_t>(columns)));
  require(columns >= 3 && encoded.size() % columns == 0, "candidates: of whole devices");
  best.clear();
  float largest = kLeast;
  for (std::size_t part = 0; part < encoded.size(); part += columns) {
    largest = std::max(largest, encoded[part + 1]);
    for (std::size_t i = 0; i < count; ++i) {
      const float id = encoded[part + 1 + count + i];
      if (id == -1.0F) break;
      if (!(id >= 0.0F && id < static_cast<float>(model::kMostCandidateIds)))
        throw Error("sampling: a candidate is token " + std::to_string(id) +
                    ", expected a token of the vocabulary; a message is corrupt, run again");
      best.push_back({static_cast<std::int32_t>(id), encoded[part + 1 + i]});
      check(best.back().logit, best.back().id);
    }
  }
  if (best.empty())
    throw Error("sampling: no candidates, expected some; a message is corrupt, run again");
  const auto kept = best.begin() + static_cast<std::ptrdiff_t>(std::min(count, best.size()));
  std::partial_sort(best.begin(), kept, best.end(), ranks_before);
  best.erase(kept, best.end());
  double denominator = 0.0;
  for (std::size_t part = 0; part < encoded.size(); part += columns) {
    const float own = encoded[part + 1];
    if (own == kLeast) continue;
    // Differences of infinities are not numbers.
    const double weight = own == largest ? 1.0 : std::exp(double{own} - double{largest});
    denominator += weight * double{encoded[part]};
  }
  return denominator;
}

}  // namespace tandem::exec
