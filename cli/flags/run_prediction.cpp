#include "cli/flags/run_prediction.hpp"

#include <map>
#include <optional>

#include "cli/files/files.hpp"
#include "model/base/error.hpp"
#include "model/report/comparability.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::cli {
namespace {

constexpr const char* kPredictAgain = "; give the result of 'tandem simulate' for what is run";

class Check {
 public:
  Check(const std::string& path, const model::Result& predicted)
      : path_(path), predicted_(predicted) {}

  void plan(const planner::Plan& plan) const {
    constexpr std::size_t kShown = 16;
    if (predicted_.origin != model::ResultOrigin::predicted)
      fail("'kind' is \"" + std::string(kind_of(predicted_.origin)) + "\"", "\"predicted\"");
    const std::string expected = planner::plan_sha256(plan);
    if (predicted_.plan.sha256 != expected)
      fail("of plan " + predicted_.plan.sha256.substr(0, kShown), expected.substr(0, kShown));
  }

  void request(std::int64_t prompt_tokens, std::int64_t new_tokens) const {
    if (setting("policy") || predicted_.requests.size() > 1)
      fail("of " + std::to_string(predicted_.requests.size()) + " requests of a workload",
           "one request");
    const std::string expected = std::to_string(prompt_tokens);
    if (const auto prompt = setting("prompt_tokens"); prompt && *prompt != expected)
      fail("of a prompt of " + *prompt + " tokens", expected);
    const std::size_t tokens = predicted_.metrics.token_times_s.size();
    if (tokens != static_cast<std::size_t>(new_tokens))
      fail("of " + std::to_string(tokens) + " new tokens", std::to_string(new_tokens));
  }

  void requests(const planner::Plan& plan, const Served& served) const {
    if (!setting("policy"))
      fail(predicted_.requests.size() > 1 ? "a replay of the steps of a run" : "of one request",
           "the requests of this run under their policy");
    held("policy", std::string(served.policy->name));
    held("chunk", served.chunk > 0 ? std::to_string(served.chunk) : "none");
    const std::int64_t steps = planner::serving_capacity(plan, served.steps).steps;
    held("in_flight", steps > 1 ? std::to_string(steps) : "none");
    held("prefix_cache", served.shares_prefixes ? "on" : "none");
    if (predicted_.requests.size() != served.requests.size())
      fail("of " + std::to_string(predicted_.requests.size()) + " requests",
           std::to_string(served.requests.size()));
    const std::map<std::string, model::RequestLengths> lengths = model::request_lengths(predicted_);
    for (std::size_t i = 0; i < served.requests.size(); ++i) {
      const planner::InferenceRequest& asked = served.requests[i];
      const model::RequestResult& known = predicted_.requests[i];
      const std::string place = "request " + std::to_string(i + 1);
      if (known.id != asked.id) fail(place + " is '" + known.id + "'", "'" + asked.id + "'");
      const std::string name = "request '" + asked.id + "'";
      if (known.arrival_s != asked.arrival_s)
        fail(name + " arrives after " + std::to_string(known.arrival_s) + " s",
             std::to_string(asked.arrival_s) + " s");
      const model::RequestLengths& own = lengths.at(asked.id);
      if (own.prompt != asked.prompt_tokens)
        fail(name + " has a prompt of " + std::to_string(own.prompt) + " tokens",
             std::to_string(asked.prompt_tokens));
      if (own.tokens != asked.new_tokens)
        fail(name + " has " + std::to_string(own.tokens) + " new tokens",
             std::to_string(asked.new_tokens));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& is, const std::string& expected) const {
    throw Error("flag '--predicted': " + path_ + ": " + is + ", expected " + expected +
                kPredictAgain);
  }
  [[nodiscard]] std::optional<std::string> setting(const std::string& key) const {
    const auto found = predicted_.environment.find(key);
    return found == predicted_.environment.end() ? std::nullopt : std::optional(found->second);
  }
  void held(const std::string& key, const std::string& expected) const {
    const std::string value = setting(key).value_or("none");
    if (value != expected) fail("'environment." + key + "' is " + value, expected);
  }

  const std::string& path_;
  const model::Result& predicted_;
};

}  // namespace

model::Result read_prediction(const std::string& path, const PlannedRun& run) {
  model::Result predicted = model::parse_result_json(read_file(path), path);
  const Check check(path, predicted);
  check.plan(run.plan);
  if (run.served != nullptr) {
    check.requests(run.plan, *run.served);
  } else {
    check.request(run.prompt_tokens, run.new_tokens);
  }
  return predicted;
}

}  // namespace tandem::cli
