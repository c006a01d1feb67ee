// CSPS, figures 2 and 3: Sarathi-Serve's first token, time between tokens and throughput against
// the length of prompts.

#include "model/base/text_table.hpp"
#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {
namespace {

struct Length {
  std::string_view name;
  std::int64_t tokens;
};
constexpr std::array kLengths{Length{"1K", 1'000}, Length{"10K", 10'000}, Length{"100K", 100'000},
                              Length{"500K", 500'000}, Length{"1M", kCspsMillion}};

// Returns the text's number for the figure; for other lengths there are only bars.
Reading said(const Scenarios& scenarios, std::string_view claim, std::string_view length) {
  if (length != "1K" && length != "1M") return {};
  return Reading::number(csps_claim(scenarios, claim, length).least);
}

}  // namespace

ExperimentReport csps_figure2(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"model", "tokens"}, .remarks = csps_remarks(testbed)};
  progress.expect(kCspsModels.size() * kLengths.size());
  for (const std::string_view model : kCspsModels) {
    const CspsSarathi sarathi(scenarios, testbed, model, kCspsMillion);
    for (const Length& length : kLengths) {
      const auto tokens = static_cast<double>(length.tokens);
      const std::vector<std::string> keys{std::string(model), std::string(length.name)};
      const auto add = [&](const std::string& quantity, std::string_view claim, double value) {
        report.rows.push_back({.keys = keys,
                               .quantity = quantity,
                               .paper = said(scenarios, claim, length.name),
                               .tandem = Reading::number(value),
                               .printed = std::string(claim) + ", " + std::string(length.name)});
      };
      const double ttft_s = sarathi.ttft_s(length.tokens);
      const std::int64_t sequences = sarathi.most_sequences(length.tokens);
      add("ttft_s", "sarathi ttft s", ttft_s);
      report.rows.back().calibrated = model == kCspsModels.front() && length.tokens == kCspsMillion;
      add("tbt_s", "sarathi tbt s", sarathi.step_s(length.tokens, 1));
      add("prefill_tokens_per_s", "sarathi prefill tokens/s", tokens / ttft_s);
      // Half of them are in each of two steps.
      const std::int64_t half = std::max<std::int64_t>(1, sequences / 2);
      add("decode_tokens_per_s", "sarathi decode tokens/s",
          static_cast<double>(sequences) / sarathi.step_s(length.tokens, half));
      progress.advance(1);
    }
  }
  return report;
}

}  // namespace tandem::study
