#pragma once

// The best logits: selected by each device from its own, merged by the device that samples.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::exec {

struct Kernels;  // exec/kernels/kernel_table.hpp

struct Candidate {
  std::int32_t id = 0;
  float logit = 0.0F;
  bool operator==(const Candidate&) const = default;
};

// The input of sampling, as a view: the logits of all tokens, or the best of them and the softmax
// denominator of all, the sum of exp(logit - largest).
class Scores {
 public:
  explicit Scores(std::span<const float> logits) : logits_(logits) {}
  // `best`: likeliest first, of equal ones the smaller id.
  Scores(std::span<const Candidate> best, double denominator)
      : best_(best), denominator_(denominator) {}
  [[nodiscard]] bool whole() const { return best_.empty(); }
  // Throws logic_error if only candidates are there.
  [[nodiscard]] std::span<const float> logits() const;
  // The same, implicitly, for callers that need all logits.
  operator std::span<const float>() const {  // NOLINT(google-explicit-constructor)
    return logits();
  }
  [[nodiscard]] std::span<const Candidate> best() const { return best_; }
  [[nodiscard]] double denominator() const { return denominator_; }

 private:
  std::span<const float> logits_{};
  std::span<const Candidate> best_{};
  double denominator_ = 0.0;
};

// best = the `count` largest of `logits`, or all if there are fewer, descending, of equal ones the
// smaller id first; the first logit belongs to token `first`. Throws Error if any is NaN: the
// weights or a message are corrupt.
void find_best(std::span<const float> logits, std::int32_t first, std::size_t count,
               std::vector<Candidate>& best);

// Writes the candidates of `logits` in the layout of model/graph/candidates.hpp, as many as
// `encoded` has columns for. With an infinite maximum the denominator counts the logits equal to
// it; with -infinity it is 0. `scratch` is overwritten. Throws Error if any is NaN.
void tell_candidates(const Kernels& kernels, std::span<const float> logits, std::int32_t first,
                     std::vector<Candidate>& scratch, std::span<float> encoded);

// best = the best of several devices' candidates, `columns` numbers and equally many candidates a
// device; returns the softmax denominator of all devices' logits. Throws Error if a number is not a
// valid candidate: a message is corrupt.
double merge_candidates(std::span<const float> encoded, std::size_t columns,
                        std::vector<Candidate>& best);

}  // namespace tandem::exec
