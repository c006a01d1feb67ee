#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/kernels/attention.hpp"

namespace tandem::exec {

void merge(const AttendedPart& from, const AttendedPart& into, std::int64_t heads,
           std::int64_t head_dim) {
  for (std::int64_t head = 0; head < heads; ++head) {
    const float* const more = from.softmax + 2 * head;
    float* const told = into.softmax + 2 * head;
    if (more[1] == 0.0F) continue;
    const float* const x = from.output + head * head_dim;
    float* const y = into.output + head * head_dim;
    const float maximum = std::max(more[0], told[0]);
    const float theirs = more[1] * std::exp(more[0] - maximum);
    const float own = told[1] == 0.0F ? 0.0F : told[1] * std::exp(told[0] - maximum);
    told[0] = maximum;
    told[1] = own + theirs;
    if (own == 0.0F) {
      std::copy_n(x, head_dim, y);
      told[1] = theirs;
      continue;
    }
    const float own_part = own / told[1];
    const float their_part = theirs / told[1];
    for (std::int64_t k = 0; k < head_dim; ++k) y[k] = own_part * y[k] + their_part * x[k];
  }
}

}  // namespace tandem::exec
