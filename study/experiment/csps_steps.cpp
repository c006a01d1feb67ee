#include "study/experiment/csps_steps.hpp"

#include <algorithm>

#include "study/experiment/csps_two_modes.hpp"

namespace tandem::study {
namespace {

constexpr double kWorking = 4.0;  // of Sarathi-Serve's eight devices, with one chunk in flight
constexpr double kAttentionPeak = 0.5;  // of SP's attention
constexpr std::int64_t kMostDecoded = 128;
constexpr double kA100Memory = 40e9;
constexpr double kHalfBytes = 2.0;  // of a weight or a cached number

}  // namespace

CspsStepModel::CspsStepModel(const model::Transformer& transformer, CspsStepCosts costs)
    : costs_(costs) {
  const auto hidden = static_cast<double>(transformer.hidden);
  const auto layers = static_cast<double>(transformer.layers);
  const auto dims = static_cast<double>(transformer.heads * transformer.head_dim);
  const auto kv_dims = static_cast<double>(transformer.kv_heads * transformer.head_dim);
  const auto columns = static_cast<double>(transformer.intermediate);
  linear_ = 2.0 * layers * hidden * (2.0 * dims + 2.0 * kv_dims + 3.0 * columns);
  attention_ = 4.0 * layers * dims;
  weight_bytes_ = kHalfBytes * static_cast<double>(transformer.parameters());
  cached_bytes_ = kHalfBytes * 2.0 * kv_dims * layers;
}

double CspsStepModel::sarathi_step_s(std::int64_t prompt_tokens) const {
  const double context = static_cast<double>(prompt_tokens) / 2.0;
  return costs_.step_s + static_cast<double>(kCspsChunk) * (linear_ + attention_ * context) /
                             (kWorking * costs_.efficiency * costs_.peak_flops);
}

double CspsStepModel::sarathi_ttft_s(std::int64_t prompt_tokens) const {
  const std::int64_t chunks = (prompt_tokens + kCspsChunk - 1) / kCspsChunk;
  return static_cast<double>(chunks) * sarathi_step_s(prompt_tokens);
}

std::int64_t CspsStepModel::sarathi_sequences(std::int64_t tokens) const {
  const double room = kSarathiDevices * kA100Memory - weight_bytes_;
  const auto held = static_cast<std::int64_t>(room / (cached_bytes_ * static_cast<double>(tokens)));
  return std::clamp(held, std::int64_t{1}, kMostDecoded);
}

double CspsStepModel::attention_s(CspsPrefill prefill, std::int64_t prompt_tokens) const {
  const auto tokens = static_cast<double>(prompt_tokens);
  const auto devices = static_cast<double>(csps_devices(prefill, prompt_tokens));
  return attention_ * tokens * tokens / 2.0 / (devices * kAttentionPeak * costs_.peak_flops);
}

double CspsStepModel::prompt_s(CspsPrefill prefill, std::int64_t prompt_tokens) const {
  return attention_s(prefill, prompt_tokens) + costs_.token_s * static_cast<double>(prompt_tokens);
}

double CspsStepModel::attention_share(CspsPrefill prefill, std::int64_t prompt_tokens) const {
  return attention_s(prefill, prompt_tokens) / prompt_s(prefill, prompt_tokens);
}

CspsSystem CspsStepModel::sarathi() const {
  return {.ttft_s = [*this](std::int64_t tokens) { return sarathi_ttft_s(tokens); },
          .token_s = [*this](std::int64_t tokens) { return sarathi_step_s(tokens); },
          .devices = [](std::int64_t) { return kSarathiDevices; }};
}

CspsSystem CspsStepModel::prefilled(CspsPrefill prefill) const {
  return {.ttft_s = [*this, prefill](std::int64_t tokens) { return prompt_s(prefill, tokens); },
          .token_s = [*this](std::int64_t) { return costs_.step_s; },
          .devices =
              [prefill](std::int64_t tokens) {
                return static_cast<double>(csps_devices(prefill, tokens));
              }};
}

CspsSystem CspsStepModel::csps() const {
  const auto of = [](std::int64_t tokens) {
    return tokens > kCspsLong ? CspsPrefill::ntp : CspsPrefill::tp;
  };
  return {.ttft_s = [*this, of](std::int64_t tokens) { return prompt_s(of(tokens), tokens); },
          .token_s = [*this](std::int64_t) { return costs_.step_s; },
          .devices =
              [of](std::int64_t tokens) {
                return static_cast<double>(csps_devices(of(tokens), tokens));
              }};
}

CspsStepCosts calibrated_csps_steps(const Scenarios& scenarios) {
  const model::Transformer transformer = csps_model(scenarios, kCspsModels.front());
  CspsStepCosts costs{.peak_flops =
                          scenarios.platform("a100-8x8").devices().front().flop_rate.value()};
  const auto step_s = [&](const char* length) {
    return static_cast<double>(kCspsChunk) /
           csps_claim(scenarios, "sarathi prefill tokens/s", length).least;
  };
  // Without step_s, at the peak.
  const CspsStepModel peak(transformer, costs);
  constexpr std::int64_t kShortest = 1'000;
  const double computed = peak.sarathi_step_s(kShortest);
  costs.efficiency = (peak.sarathi_step_s(kCspsMillion) - computed) / (step_s("1M") - step_s("1K"));
  costs.step_s = step_s("1K") - computed / costs.efficiency;
  // Attention is known, so the rest of the mean prompt is R of its tokens.
  const CspsMeans attention = csps_means(
      csps_two_mode_requests(csps_lengths(scenarios, kCspsDataSets.front()), kCspsStepRequests),
      CspsStepModel(transformer, costs).csps());
  costs.token_s = 1.0 / csps_throughputs(scenarios, "csps", "prefill").tokens_per_s.front() -
                  attention.ttft_s / attention.prompt_tokens;
  return costs;
}

}  // namespace tandem::study
