#include "study/swap.hpp"

#include "model/base/error.hpp"

namespace tandem::study {

std::optional<SwapTime> swap_time(const SwapDemand& demand, const SwapSpace& space) {
  require(space.rate.value() > 0.0, "swap_time: expected a positive rate");
  if (demand.needed.value() > space.memory.value() + space.swap.value()) return {};
  if (demand.touched.value() <= space.memory.value()) return SwapTime{};
  const model::Seconds pass = demand.touched / space.rate;
  return SwapTime{.first_pass = model::Seconds{2.0 * pass.value()}, .later_pass = pass};
}

}  // namespace tandem::study
