#pragma once

// The best of logits: chosen by each device of its own, merged by who samples.

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

// What a token is chosen from: the logits of all tokens, or the best of them and the denominator of
// the softmax of all, the sum of exp(logit - largest). A view.
class Scores {
 public:
  explicit Scores(std::span<const float> logits) : logits_(logits) {}
  // `best`: likeliest first, the smaller id among equals.
  Scores(std::span<const Candidate> best, double denominator)
      : best_(best), denominator_(denominator) {}
  [[nodiscard]] bool whole() const { return best_.empty(); }
  // Throws logic_error unless whole.
  [[nodiscard]] std::span<const float> logits() const;
  // Likewise: whoever needs all logits takes nothing else.
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

// best = the `count` largest of `logits`, descending, the smaller id first among equals, or all if
// there are fewer; the first logit is of token `first`. Throws Error if any is NaN: the weights or
// a message are corrupt.
void find_best(std::span<const float> logits, std::int32_t first, std::size_t count,
               std::vector<Candidate>& best);

// Writes what model/graph/candidates.hpp says of `logits`, as many candidates as `told` has columns
// for. An infinite maximum: the denominator counts the logits that are as large; 0 of -infinity.
// `scratch` is overwritten. Throws Error if any is NaN.
void tell_candidates(const Kernels& kernels, std::span<const float> logits, std::int32_t first,
                     std::vector<Candidate>& scratch, std::span<float> told);

// best = the best candidates of what several devices tell, `columns` numbers each, as many as each
// tells; returns the denominator of the softmax of all logits of all devices. Throws Error if a
// number is no candidate: a message is corrupt.
double merge_candidates(std::span<const float> told, std::size_t columns,
                        std::vector<Candidate>& best);

}  // namespace tandem::exec
