#include "study/steady_state/boundary_points.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::study;
  return tandem::fuzz::check_parser(
      data, size, parse_boundary_points,
      [](const std::vector<BoundaryPoint>& points) { return to_csv(points); });
}
