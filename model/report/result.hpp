#pragma once

// The result file, schema "tandem.result/7": the same for predictions and runs.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/report/communication.hpp"
#include "model/report/interval.hpp"
#include "model/report/result_origin.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

struct ResultPlan {
  std::string sha256{};
  std::string strategy{};
  std::string model{};
  std::string platform{};
};

struct KindResult {  // one device, one task kind
  std::string device{};
  TaskKind kind = TaskKind::add;
  KindMetrics metrics{};
};

// Times in seconds since the run began, or since the request's arrival where said so.
struct RequestResult {
  std::string id{};
  double arrival_s = 0.0;
  double queueing_s = 0.0;  // from its arrival until the first step with rows of it was submitted
  double ttft_s = 0.0;      // from its arrival; of an encoder's pass, until its end
  double end_s = 0.0;
  LatencyStats token_latency{};
  std::vector<double> token_times_s{};         // when each token was sampled, from its arrival
  std::int64_t cached_tokens = 0;              // of its prompt, which were not read again
  std::vector<std::int32_t> tokens{};          // empty in a prediction
  std::optional<TimeIntervals> interval_90{};  // of a prediction
};

struct Result {
  ResultOrigin origin = ResultOrigin::predicted;  // of its times; `kind` and `pace` of the file
  std::string evaluator{};                        // "simgrid", "analytic", "exec"
  ResultPlan plan{};
  // Of the weights that were used, as hexadecimal (exec/weights/weights_digest.hpp). Absent if it
  // is not known: of a prediction, unless it replays the steps of a run.
  std::optional<std::string> weights_sha256{};
  std::map<std::string, std::string> environment{};  // build, machine, network factors, drift, seed
  Metrics metrics{};
  std::optional<TimeIntervals> interval_90{};  // of the metrics, in a prediction
  std::vector<std::int32_t> tokens{};          // of the only request; empty in a prediction
  std::vector<RequestResult> requests{};       // in the order of their arrival
  // Prompt tokens of all requests that were not read, as the cache had them; absent unless requests
  // share prefixes.
  std::optional<double> prefix_hit_rate{};
  // The steps of a run that a policy made, which `tandem simulate --schedule` replays; their
  // sequences are positions in `requests`.
  std::vector<ScheduledStep> schedule{};
  std::optional<Steady> steady{};  // absent without a memory scheduler
  std::vector<DeviceMetrics> devices{};
  std::vector<LinkMetrics> links{};
  std::vector<KindResult> task_kinds{};
  // Of all steps; of the prompt, the first; of the others, which are new tokens'. Absent without a
  // timeline, the latter two also of requests of which a step may have several.
  std::optional<Communication> communication{};
  std::optional<Communication> prompt_communication{};
  std::optional<Communication> token_communication{};
  std::optional<std::string> trace{};  // file of the run's trace, beside the result
};

// Sets requests and throughput of a run that has only one request, which arrives when its first
// step begins, from its metrics and tokens.
void set_only_request(Result& result);

// Sets what is told of communication from the run's timeline, which holds every span, after
// requests and schedule.
void set_communication(Result& result, const Trace& trace);

[[nodiscard]] std::string to_json(const Result& result);
// Reads "tandem.result/6", too, which calls replayed runs measured (pace "nominal") and names paces
// of its own, and "tandem.result/5", which also lacks weights_sha256.
// Throws Error naming `source`, the field, its value, what was expected and the remedy.
[[nodiscard]] Result parse_result_json(std::string_view text, std::string_view source);

}  // namespace tandem::model
