#include "advice/prediction.hpp"

#include <tandem/prediction.hpp>

#include "api/data.hpp"
#include "model/cluster/variation.hpp"

namespace tandem {

Result predict(const Plan& plan, const PredictOptions& options) {
  const planner::Plan& planned = plan.data().plan;
  if (options.evaluator == Evaluator::analytic) model::check_analytic(planned.cluster);
  study::check_memory(planned, nullptr, /*timeline=*/false);
  study::PredictionOptions how;
  how.evaluator = options.evaluator == Evaluator::analytic ? study::EvaluatorKind::analytic
                                                           : study::EvaluatorKind::simgrid;
  how.repetitions = {.varies = !variation(planned.cluster).empty(), .seed = options.seed};
  return Result(
      std::make_shared<const Result::Data>(Result::Data{study::predict(planned, how).result}));
}

}  // namespace tandem
