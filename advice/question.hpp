#pragma once

// What the search for the best plan is asked, and what it considers and reports on the way.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "advice/prediction.hpp"
#include "advice/prompt_chunks.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

// The best plan so far of a search for the best strategy.
struct BestSoFar {
  double seconds = std::numeric_limits<double>::infinity();  // by the objective; infinite: no plan
  std::string strategy{};
  std::ptrdiff_t devices = 0;
  std::size_t candidates = 0;  // settings planned so far
};

// What the best plan is asked for.
struct Question {
  // Its objective decides; a master that it names is kept; with many requests its workload is not
  // read.
  planner::Request request;
  // The request's strategy and its values on axes are kept, and what it leaves open is searched;
  // false: they are not read, and all are open.
  bool keeps_axes = false;
  std::vector<model::WeightFormats> formats{};  // acceptable ones; empty: the model's
  // Many requests (policy null: any; without a schedule); nothing: the one of request.workload.
  std::optional<ServedWorkload> served{};
  bool best_chunk = false;  // many requests: also searches the chunk
  PromptReading prompt{};   // one request: how its prompt is read
  // Limits the search, and counts its evaluations; null: to the end. Outlives the search.
  planner::SearchEffort* effort = nullptr;
  bool prunes = true;   // false: plans also what cannot be the best, for tests
  bool replays = true;  // false: contenders have times of sim::evaluate_fair, equal to 1e-9
  // Called after each planned setting, by one thread at a time.
  std::function<void(const BestSoFar&)> progress{};
};

// The best plan of one strategy.
struct Contender {
  planner::Plan plan;  // on the devices that it uses alone
  // Seconds by the objective (planner/search/objective.hpp); for many requests their means,
  // throughput: from token to token, or from pass to pass.
  double seconds = 0.0;
  const planner::Policy* policy = nullptr;  // of many requests
  std::int64_t chunk = 0;                   // rows of a prompt's chunks; 0: whole prompts
  // That led to the plan from its setting; axes of a prompt in chunks are not among them.
  std::vector<planner::Decision> decisions{};
};

}  // namespace tandem::study
