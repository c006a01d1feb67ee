#include "planner/collective/all_to_all.hpp"

#include "model/error.hpp"

namespace tandem::planner {

std::vector<std::vector<model::TaskIndex>> all_to_all(Exchange& exchange) {
  const std::int32_t ranks = exchange.size();
  require(exchange.chunks() == ranks, "all-to-all: as many chunks as ranks");
  std::vector<std::vector<model::TaskIndex>> arrivals(
      static_cast<std::size_t>(ranks),
      std::vector<model::TaskIndex>(static_cast<std::size_t>(ranks - 1), -1));
  for (std::int32_t step = 1; step < ranks; ++step) {
    for (std::int32_t from = 0; from < ranks; ++from) {
      const std::int32_t to = (from + step) % ranks;
      const auto slot = static_cast<std::int16_t>(from < to ? from : from - 1);
      arrivals[static_cast<std::size_t>(to)][static_cast<std::size_t>(slot)] =
          exchange.deposit(from, to, {to, to + 1}, slot);
    }
  }
  return arrivals;
}

}  // namespace tandem::planner
