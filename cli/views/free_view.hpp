#pragma once

// The free changes of a plan (advice/free/free_changes.hpp), for users.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "advice/free/free_changes.hpp"
#include "planner/search/objective.hpp"

namespace tandem::cli {

// How free changes are put.
struct FreeWords {
  planner::Objective objective = planner::Objective::request;
  bool many = false;                 // requests, whose mean or rate counts
  std::string command{};             // the flags are for: "this command"
  std::vector<std::string> given{};  // names of its flags, as far as they are known
};

// Prints the changes that gain 1% or more, the flags that make them, those that were tried in vain,
// and those that were not tried. Nothing if nothing can be changed.
void print_free(const study::FreeChanges& changes, const FreeWords& words, std::ostream& out);

// The same, of every change that was tried: the field `free_changes` of `--json`.
[[nodiscard]] nlohmann::ordered_json free_json(const study::FreeChanges& changes,
                                               const FreeWords& words);

}  // namespace tandem::cli
