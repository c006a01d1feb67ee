// CSPS, figures 10 and 11: time between tokens and decode throughput of sequence parallelism.

#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kContextLengths{
    {{"1K", 1'000}, {"100K", 100'000}, {"500K", 500'000}, {"1M", kCspsMillion}}};

}  // namespace

ExperimentReport csps_figure10(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"model", "tokens", "decoded"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      "alone: strategy spread over the prompt's devices, one sequence; beside a prompt: in one "
      "step with another prompt of that length, which the figure's section describes. 22% dropped: "
      "of "
      "that prompt, on several devices; what a new token attends to is not dropped");
  progress.expect(kCspsModels.size() * kContextLengths.size());
  for (const std::string_view model : kCspsModels) {
    for (const auto& each : kContextLengths) {
      const std::string_view length = each.first;
      const std::int64_t tokens = each.second;
      const auto add = [&](const char* how, double tbt_s) {
        const std::vector<std::string> keys{std::string(model), std::string(length), how};
        const auto said = [&](std::string_view claim) {
          if (length != "1K" && length != "1M") return Reading{};
          return Reading::number(csps_claim(scenarios, claim, length).least);
        };
        report.rows.push_back({.keys = keys,
                               .quantity = "tbt_s",
                               .paper = said("sp tbt s"),
                               .tandem = Reading::number(tbt_s),
                               .printed = "sp tbt s, " + std::string(length)});
        report.rows.push_back({.keys = keys,
                               .quantity = "decode_tokens_per_s",
                               .paper = said("sp decode tokens/s"),
                               .tandem = Reading::number(1.0 / tbt_s),
                               .printed = "sp decode tokens/s, " + std::string(length)});
      };
      add("alone", csps_token_s(scenarios, testbed, model, tokens));
      const auto beside = [&](const CspsDrop& drop) {
        return csps_pass(scenarios, testbed, model, CspsPrefill::ntp, tokens, drop).ttft_s;
      };
      add("beside a prompt", beside({}));
      const CspsDrop drop = csps_usual_drop(tokens, csps_model(scenarios, model).layers);
      if (!drop.dense()) add("beside a prompt, 22% dropped", beside(drop));
      progress.advance(1);
    }
  }
  return report;
}

}  // namespace tandem::study
