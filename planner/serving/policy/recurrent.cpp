// Each request circulates through the devices on its own, one step a token, so that one is on a
// device while the next is on the device before: MDI-LLM's recurrent pipeline. As many circulate as
// steps may be in flight; the end of one admits the next.

#include "planner/serving/policy/continuous.hpp"

namespace tandem::planner {

Policy recurrent_policy() {
  return {.name = "recurrent",
          .summary = "one step each, in circulation; the end of one admits the next",
          .step = StepContents::one_of_many,
          .admit = continuous_policy().admit};
}

}  // namespace tandem::planner
