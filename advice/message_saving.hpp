#pragma once

// What messages in fewer bits would save, for plans that do not have them.

#include <optional>

#include "advice/prediction.hpp"
#include "model/report/result.hpp"
#include "planner/search/objective.hpp"

namespace tandem::study {

struct MessageSaving {
  model::WireFormat wire = model::WireFormat::q8_0;
  double seconds = 0.0;  // by the objective, as predict_fairly predicts it
  double part = 0.0;     // of the time with the plan's own messages
};

// Returns the saving of q8_0, whose loss is the user's to accept. Nothing if it is below 1%, if the
// plan has q8_0, or if its devices send nothing. `predicted` is the plan's own prediction, of one
// request (`served` null) or of many: objective request is then the mean request.
[[nodiscard]] std::optional<MessageSaving> message_saving(const planner::Plan& plan,
                                                          const ServedWorkload* served,
                                                          const model::Result& predicted,
                                                          planner::Objective objective);

}  // namespace tandem::study
