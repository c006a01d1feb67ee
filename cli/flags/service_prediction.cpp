#include "cli/flags/service_prediction.hpp"

#include <memory>

#include "advice/prediction.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::cli {

serve::Prediction service_prediction(const Options& options, const ServiceJob& job) {
  if (options.positionals() == 0)
    return {.reason = "without a plan, the speed of this machine is not known; give a plan"};
  // A cluster must not be shared between threads.
  const auto service = std::make_shared<const planner::LiveService>(job.service);
  return {.predict = [service](std::int64_t prompt_tokens, std::int64_t new_tokens) {
    const study::ServedWorkload served{
        .requests = {{.id = "alone", .prompt_tokens = prompt_tokens, .new_tokens = new_tokens}},
        .policy = service->policy,
        .chunk = service->chunk,
        .steps = service->steps};
    const model::Result result = study::predict_fairly(service->plan, &served);
    const model::RequestResult& request = result.requests.at(0);
    serve::RequestTimes times{
        .prompt_tokens = prompt_tokens, .new_tokens = new_tokens, .ttft_s = request.ttft_s};
    if (new_tokens > 1) times.token_latency_s = request.token_latency.mean;
    return times;
  }};
}

}  // namespace tandem::cli
