#include "model/report/comparability.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>

#include "model/base/error.hpp"

namespace tandem::model {
namespace {

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

std::optional<std::string> setting(const Result& result, const std::string& key) {
  const auto found = result.environment.find(key);
  return found == result.environment.end() ? std::nullopt : std::optional(found->second);
}

constexpr std::size_t kShownDigits = 16;

// `of_one_origin`: all results, so that they may be of several plans.
void check_pair(const ComparedResult& one, const ComparedResult& other, bool of_one_origin) {
  const auto plan = [](const Result& result) {
    return joined({result.plan.sha256.substr(0, kShownDigits), " (", result.plan.strategy, ", ",
                   result.plan.model, ")"});
  };
  if (one.result.plan.sha256 != other.result.plan.sha256) {
    if (of_one_origin) return;
    const std::string remedy =
        "; simulate and run the same plan file, or compare predictions of plans with predictions, "
        "and runs with runs";
    throw Error(joined({"results are of different plans: sha256 ", plan(one.result), " was ",
                        one.label, " and ", plan(other.result), " was ", other.label, remedy}));
  }
  // Of many requests; a replayed schedule has no policy of its own.
  if (!setting(one.result, "policy") || !setting(other.result, "policy")) return;
  for (const char* const key : {"policy", "chunk", "in_flight", "prefix_cache"}) {
    const std::string first = setting(one.result, key).value_or("none");
    const std::string second = setting(other.result, key).value_or("none");
    if (first != second)
      throw Error(
          joined({"results are of different ways to serve: ", key, " ", first, " was ", one.label,
                  " and ", second, " was ", other.label, "; simulate as it was run"}));
  }
}

// What differs between the requests of both results: the first one that does.
std::string unlike_requests(const ComparedResult& one, const ComparedResult& other) {
  const std::map<std::string, RequestLengths> all = request_lengths(one.result);
  const std::map<std::string, RequestLengths> others = request_lengths(other.result);
  constexpr std::string_view kSame = "; simulate and run the same requests";
  for (const auto& [id, expected] : all) {
    const auto found = others.find(id);
    if (found == others.end())
      return joined({"request '", id, "' was ", one.label, ", but not ", other.label, kSame});
    const RequestLengths& actual = found->second;
    if (expected.prompt == 0 || actual.prompt == 0) continue;
    if (expected.prompt != actual.prompt)
      return joined({"request '", id, "': a prompt of ", std::to_string(expected.prompt),
                     " tokens was ", one.label, ", one of ", std::to_string(actual.prompt), " ",
                     other.label, kSame});
    if (expected.tokens == actual.tokens) continue;
    return joined({"request '", id, "': ", std::to_string(expected.tokens), " new tokens were ",
                   one.label, ", ", std::to_string(actual.tokens), " ", other.label,
                   "; give requests 'ignore_eos' to compare the same work"});
  }
  for (const auto& [id, actual] : others) {
    if (!all.contains(id))
      return joined({"request '", id, "' was ", other.label, ", but not ", one.label, kSame});
  }
  return "";
}

// What an environment holds beyond settings: what a run counts or clocks, what other checks hold
// against each other, and remarks.
constexpr std::array<std::string_view, 9> kCounts{"announcement_bytes",
                                                  "announcement_cpu_s",
                                                  "announcements",
                                                  "clock_uncertainty_s",
                                                  "drift",
                                                  "message_overhead_s",
                                                  "pacing_late_max_s",
                                                  "pacing_late_mean_s",
                                                  "weights_sent_bytes"};
constexpr std::array<std::string_view, 6> kHeldElsewhere{"chunk",  "in_flight",    "planned_for",
                                                         "policy", "prefix_cache", "prompt_tokens"};
constexpr std::array<std::string_view, 3> kRemarks{"extrapolated", "outdated_profiles",
                                                   "profile_threads"};
// How a pace is kept: compared between results of one origin only.
constexpr std::array<std::string_view, 4> kOfPace{"demand_cores", "dilation", "scheduling",
                                                  "warm_up"};
constexpr std::string_view kVersion = "tandem";  // alone means the same in predictions and runs
constexpr std::string_view kProfileOf = "profile of ";

bool is_setting(std::string_view key) {
  const auto is_one_of = [&](const auto& keys) {
    return std::ranges::find(keys, key) != std::ranges::end(keys);
  };
  return !is_one_of(kCounts) && !is_one_of(kHeldElsewhere) && !is_one_of(kRemarks) &&
         key != kVersion && !key.starts_with("repetitions: ");
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 120;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Of results among which a setting means the same: its values by result; empty if all agree.
std::string unlike_setting(const std::vector<const ComparedResult*>& group,
                           const std::string& key) {
  std::set<std::string> values;
  std::string text;
  for (const ComparedResult* one : group) {
    const std::optional<std::string> value = setting(one->result, key);
    if (!value && key.starts_with(kProfileOf)) continue;  // a plan without the device
    // What an emulation notes, a run on devices need not.
    const bool is_comparable =
        value || std::ranges::any_of(group, [&](const ComparedResult* other) {
          return setting(other->result, key) && other->result.origin == one->result.origin;
        });
    if (!is_comparable) continue;
    values.insert(value ? "'" + *value : "");
    text += joined({text.empty() ? "" : ", ", one->label, " has ",
                    value ? joined({"'", shortened(*value), "'"}) : std::string("none")});
  }
  return values.size() < 2 ? "" : joined({"'", key, "' differs: ", text});
}

void add_unlike_settings(const std::vector<const ComparedResult*>& group,
                         std::vector<std::string>& lines) {
  std::set<std::string> keys;
  for (const ComparedResult* one : group) {
    for (const auto& [key, value] : one->result.environment)
      if (is_setting(key)) keys.insert(key);
  }
  const auto add = [&](const std::vector<const ComparedResult*>& results, const std::string& key) {
    if (std::string line = unlike_setting(results, key); !line.empty())
      lines.push_back(std::move(line));
  };
  for (const std::string& key : keys) {
    if (std::ranges::find(kOfPace, key) == kOfPace.end()) {
      add(group, key);
      continue;
    }
    std::map<ResultOrigin, std::vector<const ComparedResult*>> by_origin;
    for (const ComparedResult* one : group) by_origin[one->result.origin].push_back(one);
    for (const auto& [origin, results] : by_origin) add(results, key);
  }
}

// Whether every device of the run computed on the processor that its environment names.
bool computes_here(const Result& run) {
  switch (run.origin) {
    case ResultOrigin::measured_emulated:
    case ResultOrigin::measured_testbed:
      return true;
    case ResultOrigin::measured:
      return run.devices.size() == 1;
    case ResultOrigin::predicted:
    case ResultOrigin::replayed:
      return false;
  }
  return false;
}

// Without a key a run connects to addresses of its own machine only. A testbed's networks are those
// of the platform.
void add_loopback(const ComparedResult& prediction, const ComparedResult& run,
                  std::vector<std::string>& lines) {
  if (run.result.origin != ResultOrigin::measured || run.result.devices.size() < 2 ||
      setting(run.result, "transport") != "TCP, not encrypted")
    return;
  constexpr std::string_view kComparable =
      " over the platform's links: unless these are the loopback's, only bytes and memory are "
      "comparable";
  lines.push_back(
      joined({"messages were ", run.label, " over this machine's loopback, as without a key, and ",
              prediction.label, kComparable}));
}

void add_other_processors(const ComparedResult& prediction, const ComparedResult& run,
                          std::vector<std::string>& lines) {
  const std::optional<std::string> processor = setting(run.result, "processor");
  if (!processor || !computes_here(run.result)) return;
  std::map<std::string, std::string> devices;  // by source of the profile
  for (const auto& [key, source] : prediction.result.environment) {
    if (!key.starts_with(kProfileOf) || source == "nominal") continue;
    if (source.starts_with(*processor + ",")) continue;
    std::string& names = devices[source];
    names += joined({names.empty() ? "'" : ", '", key.substr(kProfileOf.size()), "'"});
  }
  for (const auto& [source, names] : devices)
    lines.push_back(
        joined({prediction.label, " by a profile of another processor than ", run.label,
                " on: ", names, ": ", shortened(source), "; ", run.label, " on ", *processor}));
}

}  // namespace

void check_comparable(const std::vector<ComparedResult>& results, std::size_t reference) {
  const bool of_one_origin = std::ranges::all_of(results, [&](const ComparedResult& one) {
    return one.result.origin == results.front().result.origin;
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    if (i != reference)
      check_pair(results[std::min(i, reference)], results[std::max(i, reference)], of_one_origin);
}

bool of_one_plan(const std::vector<ComparedResult>& results) {
  return std::ranges::all_of(results, [&](const ComparedResult& one) {
    return one.result.plan.sha256 == results.front().result.plan.sha256;
  });
}

std::vector<std::string> unlike_plans(const std::vector<ComparedResult>& results) {
  std::vector<std::string> lines;
  if (of_one_plan(results)) return lines;
  for (const ComparedResult& one : results) {
    const ResultPlan& plan = one.result.plan;
    std::string line =
        joined({one.label, ": strategy ", plan.strategy, ", ", plan.model, " on ", plan.platform});
    for (const std::string_view key : kHeldElsewhere) {
      if (const auto value = setting(one.result, std::string(key)))
        line += joined({", ", key, " ", *value});
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::map<std::string, RequestLengths> request_lengths(const Result& result) {
  std::vector<RequestLengths> lengths(result.requests.size());
  for (const ScheduledStep& step : result.schedule) {
    for (const Segment& segment : step.batch.segments) {
      const auto r = static_cast<std::size_t>(segment.sequence);
      if (r >= lengths.size()) continue;  // a replay refuses such a file
      RequestLengths& own = lengths[r];
      if (own.tokens == 0) own.prompt = segment.past + segment.rows;
      own.tokens += segment.sampled;
    }
  }
  std::map<std::string, RequestLengths> by_id;
  for (std::size_t r = 0; r < lengths.size(); ++r) by_id[result.requests[r].id] = lengths[r];
  return by_id;
}

std::string unlike_lengths(const ComparedResult& one, const ComparedResult& other) {
  const auto tokens = [](const Result& result) { return result.metrics.token_times_s.size(); };
  if (one.result.requests.size() > 1 || other.result.requests.size() > 1)
    return unlike_requests(one, other);
  const std::optional<std::string> first = setting(one.result, "prompt_tokens");
  const std::optional<std::string> second = setting(other.result, "prompt_tokens");
  std::string text;
  if (first && second && *first != *second)
    text = joined({"a prompt of ", *first, " tokens was ", one.label, ", one of ", *second, " ",
                   other.label});
  if (tokens(one.result) != tokens(other.result))
    text +=
        joined({text.empty() ? "" : "; ", std::to_string(tokens(one.result)), " new tokens were ",
                one.label, ", ", std::to_string(tokens(other.result)), " ", other.label});
  if (text.empty()) return "";
  return text +
         ": bytes, totals and what depends on lengths are not of the same work; run without "
         "'--prompt' and with '--ignore-eos', or plan the lengths of the run";
}

constexpr std::string_view kDifferentWeights =
    "; tokens and lengths may differ for that reason alone, run with the same weights";

std::string unlike_weights(const ComparedResult& one, const ComparedResult& other) {
  const auto& first = one.result.weights_sha256;
  const auto& second = other.result.weights_sha256;
  if (!first || !second || *first == *second) return "";
  return joined({"results are of different weights: SHA-256 ", first->substr(0, kShownDigits),
                 " was ", one.label, " and ", second->substr(0, kShownDigits), " was ", other.label,
                 kDifferentWeights});
}

std::vector<std::string> unlike_settings(const std::vector<ComparedResult>& results) {
  std::vector<const ComparedResult*> predictions;
  std::vector<const ComparedResult*> runs;
  std::vector<const ComparedResult*> all;
  for (const ComparedResult& one : results) {
    (one.result.origin == ResultOrigin::predicted ? predictions : runs).push_back(&one);
    all.push_back(&one);
  }
  std::vector<std::string> lines;
  if (std::string line = unlike_setting(all, std::string(kVersion)); !line.empty())
    lines.push_back(std::move(line));
  for (const auto* const group : {&predictions, &runs}) add_unlike_settings(*group, lines);
  for (const ComparedResult& one : results) {
    for (const std::string_view key : kRemarks) {
      if (const auto remark = setting(one.result, std::string(key)))
        lines.push_back(joined({one.label, ": ", *remark}));
    }
  }
  for (const ComparedResult* prediction : predictions) {
    for (const ComparedResult* run : runs) {
      add_other_processors(*prediction, *run, lines);
      add_loopback(*prediction, *run, lines);
    }
  }
  return lines;
}

}  // namespace tandem::model
