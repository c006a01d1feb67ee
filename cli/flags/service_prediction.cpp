#include "cli/flags/service_prediction.hpp"

#include <memory>

#include "advice/prediction.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::cli {

namespace {

// Times of a request that is served alone, after one whose cache it begins with.
serve::RequestTimes request_alone(const planner::LiveService& service,
                                  const serve::RequestTimes& request) {
  constexpr double kLater = 1e4;
  study::ServedWorkload served{.requests = {{.id = "alone",
                                             .prompt_tokens = request.prompt_tokens,
                                             .new_tokens = request.new_tokens}},
                               .policy = service.policy,
                               .chunk = service.chunk,
                               .steps = service.steps};
  if (request.cached_tokens > 0) {
    planner::InferenceRequest& alone = served.requests.front();
    alone.arrival_s = kLater;
    alone.prefix = {{"cached", request.cached_tokens}};
    served.requests.insert(served.requests.begin(), {.id = "before",
                                                     .prompt_tokens = request.cached_tokens,
                                                     .new_tokens = 1,
                                                     .prefix = alone.prefix});
    served.shares_prefixes = true;
    served.policy = &planner::find_policy("continuous");  // of two, static would wait for the other
    // It may have been longer than a prompt that is read whole.
    if (served.chunk == 0) served.chunk = service.capacity.rows;
  }
  const model::Result result = study::predict_fairly(service.plan, &served);
  const model::RequestResult& times = result.requests.back();
  serve::RequestTimes predicted{.prompt_tokens = request.prompt_tokens,
                                .new_tokens = request.new_tokens,
                                .cached_tokens = times.cached_tokens,
                                .ttft_s = times.ttft_s};
  if (request.new_tokens > 1) predicted.token_latency_s = times.token_latency.mean;
  // With an earlier request the devices' times are of both.
  if (request.cached_tokens == 0 && times.end_s > 0.0) {
    for (const model::DeviceMetrics& device : result.devices)
      predicted.busy.push_back(device.busy_cpu_s / times.end_s);
  }
  return predicted;
}

}  // namespace

serve::Prediction service_prediction(const Options& options, const ServiceJob& job) {
  if (options.positionals() == 0)
    return {.reason = "without a plan, the speed of this machine is not known; give a plan"};
  // A cluster must not be shared between threads.
  const auto service = std::make_shared<const planner::LiveService>(job.service);
  return {.predict = [service](const serve::RequestTimes& request) {
    return request_alone(*service, request);
  }};
}

}  // namespace tandem::cli
