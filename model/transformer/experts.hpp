#pragma once

// Feed-forward blocks of experts: the geometry of mixture-of-experts layers, and the number of
// experts that the rows of a step use.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::model {

// A layer with experts has `count` FFNs of Transformer::intermediate columns each. A router sends
// each row to `chosen` of them. All rows also use a shared expert, if there is one. Several shared
// experts are one wide expert: their outputs are summed.
struct Experts {
  std::int64_t count = 0;            // E, routed experts of a layer
  std::int64_t chosen = 0;           // k, experts of a row
  std::int64_t shared = 0;           // FFN columns of the shared expert; 0: none
  std::int64_t dense = 0;            // FFN columns of layers without experts; 0: no such layer
  std::vector<bool> dense_layers{};  // by layer, those without experts; empty: none
  bool router_bias = false;          // one number an expert
  bool shared_gate = false;          // a row's factor of the shared expert: one vector [hidden]

  // Returns whether `layer` has experts.
  [[nodiscard]] bool in(std::int32_t layer) const {
    return layer < 0 || static_cast<std::size_t>(layer) >= dense_layers.size() ||
           !dense_layers[static_cast<std::size_t>(layer)];
  }
  // Returns the parameters of a layer's router, and of the shared expert's gate, for rows of
  // `hidden` numbers. One expert needs no router.
  [[nodiscard]] std::int64_t router_parameters(std::int64_t hidden) const;

  // Returns the expected number of distinct experts of a layer that `rows` rows use:
  //   E (1 - (1 - k/E)^n)     Feller 1968, An Introduction to Probability Theory I, chapter IV
  //   n rows    E, k: count, chosen
  // A row uses k distinct experts. Assumes that rows choose independently and all experts equally
  // often: trained routers are balanced by their loss, but the rows of one text are similar and use
  // fewer. The result is at least k and at most min(E, n k), the bounds of every routing.
  [[nodiscard]] double expected_distinct(double rows) const;
  // Returns the standard deviation of that number under the same assumption:
  //   variance = E q + E (E - 1) q2 - (E q)^2,  q = (1 - k/E)^n,
  //   q2 = ((E - k) (E - k - 1) / (E (E - 1)))^n, the probability that two experts are unused
  [[nodiscard]] double distinct_deviation(double rows) const;

  bool operator==(const Experts&) const = default;
};

}  // namespace tandem::model
