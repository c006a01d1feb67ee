// CSPS by its software's steps, and prompts of two modes.

#include "study/experiment/csps_steps.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/platform/platform.hpp"
#include "study/experiment/csps_two_modes.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::csps_steps_test {
namespace {

model::Csv table(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(testing::in_sources("scenarios/" + path + ".csv")).rdbuf();
  return model::parse_csv(text.str(), path);
}

Scenarios csps_scenarios() {
  Scenarios some;
  some.platform = [](const std::string& name) {
    return sim::read_platform(testing::in_sources("scenarios/platforms/" + name + ".xml").string())
        .cluster;
  };
  some.model = [](const std::string& name) { return model::test::named_model(name); };
  some.paper = [](const std::string& name) { return table("experiments/" + name); };
  some.lengths = [] { return table("workloads/lengths"); };
  return some;
}

}  // namespace

TEST_CASE("study/csps steps: a step is its constant and operations of four devices") {
  // One layer of hidden size 8, one key/value head of two, f columns.
  model::Transformer small{.name = "small",
                           .layers = 1,
                           .hidden = 8,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 4,
                           .intermediate = 16,
                           .vocab = 32,
                           .max_context = 4096};
  const CspsStepModel model(small, {.peak_flops = 1e6, .step_s = 0.5, .efficiency = 0.1});
  const double linear = 2.0 * 8 * (8 + 4 + 4 + 8 + 3 * 16);  // Q, K, V, out and three of the FFN
  const double attention = 2.0 * 2.0 * 8;                    // Q K and P V of a row and a token
  const double step_s = 0.5 + 256 * (linear + attention * 500) / (4 * 0.1 * 1e6);
  CHECK(model.sarathi_step_s(1000) == doctest::Approx(step_s));
  CHECK(model.sarathi_ttft_s(1000) == doctest::Approx(4 * step_s));
}

TEST_CASE("study/csps steps: a prompt's tokens cost the same on any devices, attention is split") {
  const Scenarios some = csps_scenarios();
  const CspsStepCosts costs = calibrated_csps_steps(some);
  const CspsStepModel model(csps_model(some, "glm-4"), costs);
  constexpr std::int64_t kTokens = 8 * kCspsPartition;  // eight devices of either
  CHECK(model.prompt_s(CspsPrefill::ntp, kTokens) ==
        doctest::Approx(model.prompt_s(CspsPrefill::tp, kTokens)));
  const double share = model.attention_share(CspsPrefill::ntp, kTokens);
  CHECK(model.prompt_s(CspsPrefill::ntp, kTokens) * (1.0 - share) ==
        doctest::Approx(costs.token_s * static_cast<double>(kTokens)));
  // Twice the tokens on twice the devices: twice the attention as well.
  CHECK(model.attention_share(CspsPrefill::ntp, 2 * kTokens) == doctest::Approx(share));
}

TEST_CASE("study/csps steps: constants meet the numbers that set them") {
  const Scenarios some = csps_scenarios();
  const CspsStepModel model(csps_model(some, "glm-4"), calibrated_csps_steps(some));
  CHECK(256 / model.sarathi_step_s(1'000) == doctest::Approx(487.0));
  CHECK(256 / model.sarathi_step_s(kCspsMillion) == doctest::Approx(191.0));
  const CspsMeans means = csps_means(
      csps_two_mode_requests(csps_lengths(some, "needlebench"), kCspsStepRequests), model.csps());
  CHECK(csps_prefill_rate(means) == doctest::Approx(1580.0));
}

TEST_CASE("study/csps steps: eight GPUs hold seven caches of 1M tokens of GLM-4") {
  const Scenarios some = csps_scenarios();
  const CspsStepModel model(csps_model(some, "glm-4"), calibrated_csps_steps(some));
  CHECK(model.sarathi_sequences(kCspsMillion) == 7);  // (320 - 19) GB / (1M x 40,960 B)
  CHECK(model.sarathi_sequences(1) == 128);
  CHECK(model.sarathi_sequences(100 * kCspsMillion) == 1);
}

TEST_CASE(
    "study/csps two modes: median, 99th percentile and deviation, as far as they can be met") {
  const Scenarios some = csps_scenarios();
  for (const std::string_view name : kCspsDataSets) {
    CAPTURE(name);
    const CspsLengths lengths = csps_lengths(some, name);
    const CspsTwoModes modes = csps_two_modes(lengths, 500);
    CHECK(std::ranges::is_sorted(modes.tokens));
    CHECK(modes.tokens.front() >= modes.least);
    CHECK(static_cast<double>(modes.tokens[249]) ==
          doctest::Approx(lengths.prompt.median).epsilon(0.01));
    CHECK(modes.tokens[250] == static_cast<std::int64_t>(lengths.prompt.p99));
    if (modes.least > kCspsShortest) {
      CHECK(modes.deviation() == doctest::Approx(lengths.prompt_deviation).epsilon(0.001));
    } else {
      CHECK(modes.deviation() < lengths.prompt_deviation);
      CHECK(modes.deviation() > 0.95 * lengths.prompt_deviation);
    }
  }
}

}  // namespace tandem::study::csps_steps_test
