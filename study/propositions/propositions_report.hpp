#pragma once

// The output of `tandem-study propositions`.

#include <iosfwd>
#include <string>
#include <vector>

#include "study/propositions/boundary.hpp"
#include "study/propositions/draws.hpp"
#include "study/propositions/simulations.hpp"

namespace tandem::study {

struct PropositionsReport {
  std::string example{};  // the worked example, one line
  DrawsResult draws{};
  Simulations simulations{};
  std::vector<SeriesPoint> boundary{};
  std::vector<BoundaryPoint> replayed{};
  // Returns whether all results are equal or explained.
  [[nodiscard]] bool sound() const;
};

void print_report(const PropositionsReport& report, std::ostream& out);
[[nodiscard]] std::string to_json(const PropositionsReport& report);
// Return one line a class of draws; a simulation; a point of the figure.
[[nodiscard]] std::string classes_csv(const PropositionsReport& report);
[[nodiscard]] std::string simulations_csv(const PropositionsReport& report);
[[nodiscard]] std::string boundary_csv(const PropositionsReport& report);

}  // namespace tandem::study
