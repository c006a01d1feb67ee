#include "study/experiment/csps_systems.hpp"

#include <algorithm>
#include <iterator>

namespace tandem::study {
namespace {

constexpr std::int64_t kLongest =
    kCspsContext - 576;  // with room for new tokens; longer ones by the curve
constexpr std::int64_t kShort = 2'000;

}  // namespace

double CspsCurve::operator()(std::int64_t tokens) const {
  const auto x = static_cast<double>(tokens);
  auto after = points_.lower_bound(x);
  if (after == points_.end()) after = std::prev(points_.end());
  if (after == points_.begin()) after = std::next(points_.begin());
  const auto before = std::prev(after);
  const double part = (x - before->first) / (after->first - before->first);
  return before->second + (after->second - before->second) * part;
}

CspsMeans csps_means(const std::vector<planner::InferenceRequest>& requests,
                     const CspsSystem& system) {
  CspsMeans means;
  const auto count = static_cast<double>(requests.size());
  for (const planner::InferenceRequest& request : requests) {
    const std::int64_t tokens = request.prompt_tokens;
    const double ttft_s = system.ttft_s(tokens);
    const double token_s = system.token_s(tokens);
    means.ttft_s += ttft_s / count;
    means.token_s += token_s / count;
    means.response_s += (ttft_s + static_cast<double>(request.new_tokens - 1) * token_s) / count;
    means.prompt_tokens += static_cast<double>(tokens) / count;
    means.device_s += ttft_s * system.devices(tokens) / count;
  }
  return means;
}

double csps_prefill_rate(const CspsMeans& means) { return means.prompt_tokens / means.ttft_s; }

CspsSystems::CspsSystems(const Scenarios& scenarios, const CspsTestbed& testbed,
                         std::string_view model, Progress& progress) {
  const CspsSarathi sarathi(scenarios, testbed, model, kLongest);
  for (const std::int64_t tokens : {kShort, kCspsLong, kLongest}) {
    sarathi_ttft_.add(tokens, sarathi.ttft_s(tokens));
    sarathi_token_.add(tokens, sarathi.step_s(tokens, 1));
    tp_.add(tokens, csps_pass(scenarios, testbed, model, CspsPrefill::tp, tokens).ttft_s);
  }
  constexpr std::int64_t kSaid = 1'000;
  step_s_ = (csps_claim(scenarios, "sarathi ttft s", "1K").least - sarathi.ttft_s(kSaid)) /
            static_cast<double>(chunks(kSaid));
  const auto ntp_s = [&](std::int64_t tokens, const CspsDrop& drop = {}) {
    return csps_pass(scenarios, testbed, model, CspsPrefill::ntp, tokens, drop).ttft_s;
  };
  const std::int64_t layers = csps_model(scenarios, model).layers;
  one_.add(kShort, ntp_s(kShort));
  one_.add(kCspsPartition, ntp_s(kCspsPartition));
  for (std::int64_t devices = 1; devices <= kParts; ++devices) {
    const std::int64_t most = std::min(devices * kCspsPartition, kLongest);
    const std::int64_t least = devices == 1 ? kShort : (devices - 1) * kCspsPartition + 1;
    full_.push_back({.tokens = most, .ttft_s = devices == 1 ? one_(most) : ntp_s(most)});
    CspsPromptCurve& dropping = dropping_.emplace_back();
    const CspsDrop drop = csps_usual_drop(most, layers);
    for (const std::int64_t tokens : {least, most})
      dropping.add(tokens, drop.dense() ? one_(tokens) : ntp_s(tokens, drop));
    CspsCurve& token = token_.emplace_back();
    for (const std::int64_t tokens : {least, most})
      token.add(tokens, csps_token_s(scenarios, testbed, model, tokens));
    progress.advance(1);
  }
}

}  // namespace tandem::study
