#pragma once

// What `tandem plan --max-loss` or `--max-ttft` says of the search.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/flags/loss.hpp"
#include "planner/search/drop_search.hpp"

namespace tandem::cli {

struct DropAnswer {
  planner::DropChoice choice;
  double elapsed_s = 0.0;  // of the search
  std::vector<std::string> remarks{};
};

void print_drop(const DropAnswer& answer, const Bounded& bounded, const planner::LossModel& loss,
                std::ostream& out);
// The same as the field `sparse` of `--json`.
[[nodiscard]] nlohmann::ordered_json drop_json(const DropAnswer& answer, const Bounded& bounded,
                                               const planner::LossModel& loss);

}  // namespace tandem::cli
