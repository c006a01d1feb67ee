#pragma once

// The rows of a step whose sequences a scheduler placed (model::Place), where devices cache
// positions.

#include <cstdint>
#include <vector>

#include "planner/plan/plan.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/common/spread_attention.hpp"

namespace tandem::planner {

// Returns whether the plan is for several requests, so that a scheduler places sequences.
[[nodiscard]] inline bool places_sequences(const Plan& plan) { return plan.capacity.sequences > 0; }
// Throws Error unless it is: the cache of a plan for one request has the plan's parts
// (Strategy::serves_many).
void refuse_many(const Plan& plan);
// Throws Error if it is, but keys and values move, an FFN is shared out, or the model is an
// encoder.
void check_placing(const Plan& plan);

// Rows of one device.
struct PlacedRows {
  // Of one sequence, of whose earlier positions other devices have some.
  struct Partitioned {
    RowKeys own{};
    std::vector<PositionPart> before{};
  };
  model::Range rows{};  // all of them
  std::vector<RowKeys> whole{};
  std::vector<Partitioned> partitioned{};
};

// Returns the rows of each of `parts` (position_parts). A device's rows are adjacent, so that it
// computes their products at once, as rows are in the order of parts. Throws Error unless they are,
// each with a device that has a part.
[[nodiscard]] std::vector<PlacedRows> placed_rows(const Plan& plan, const model::Batch& batch,
                                                  const std::vector<PositionPart>& parts);

// Returns what those of a device's rows that are within `active` attend to in a layer, with a
// window of so many positions (0: none). A message with queries has adjacent rows of all sequences
// of which the other device has keys; a device whose keys no row of a sequence's part may see is
// not asked.
[[nodiscard]] std::vector<SpreadRows> attended_rows(const PlacedRows& rows,
                                                    model::DeviceIndex device, model::Range active,
                                                    std::int64_t window,
                                                    model::TaskIndex projected);

// Returns `batch` with all rows at one device, alone and beside a row of every other one, in
// sequences that are partitioned, for each device with a part (Strategy::placed).
[[nodiscard]] std::vector<model::Batch> placed_at_each(const Plan& plan, const model::Batch& batch);

}  // namespace tandem::planner
