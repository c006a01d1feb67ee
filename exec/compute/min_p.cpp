#include "exec/compute/min_p.hpp"

namespace tandem::exec {

double keep_probable(std::vector<WeightedToken>& tokens, double min_p) {
  std::erase_if(tokens, [min_p](const WeightedToken& token) { return token.weight < min_p; });
  double total = 0.0;
  for (const WeightedToken& token : tokens) total += token.weight;
  return total;
}

}  // namespace tandem::exec
