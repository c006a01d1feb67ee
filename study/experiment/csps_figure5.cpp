// CSPS, figure 5: shares of communication and of attention in the time to the first token.

#include <algorithm>
#include <limits>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {
namespace {

struct Architecture {
  CspsPrefill prefill;
  const char* name;
  const char* partition;
};
constexpr std::array kArchitectures{Architecture{CspsPrefill::ntp, "sp-ntp", "64K"},
                                    Architecture{CspsPrefill::tp, "sp-tp", "128K"}};
constexpr std::array<std::int64_t, 6> kTokens{1'000,   10'000,  100'000,
                                              250'000, 500'000, kCspsMillion};

struct Extremes {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

}  // namespace

ExperimentReport csps_figure5(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"architecture", "model", "tokens"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      "SP-NTP: as many devices as parts of 64K tokens (65,536), so one up to there; SP-TP: eight. "
      "Communication is what devices wait for messages and copy them, their mean");
  progress.expect(kArchitectures.size() * kCspsModels.size() * kTokens.size());
  for (const Architecture& of : kArchitectures) {
    Extremes communication;
    Extremes attention;
    for (const std::string_view model : kCspsModels) {
      for (const std::int64_t tokens : kTokens) {
        const CspsPass pass = csps_pass(scenarios, testbed, model, of.prefill, tokens);
        const std::vector<std::string> keys{of.name, std::string(model),
                                            std::to_string(tokens / 1000) + "K"};
        const auto add = [&](const char* quantity, double value) {
          report.rows.push_back(
              {.keys = keys, .quantity = quantity, .tandem = Reading::number(value)});
        };
        add("ttft_s", pass.ttft_s);
        add("communication_percent", 100.0 * pass.communication);
        add("attention_percent", 100.0 * pass.attention);
        communication.add(pass.communication);
        attention.add(pass.attention);
        progress.advance(1);
      }
    }
    for (const auto& [share, extremes] :
         {std::pair("communication", communication), std::pair("attention", attention)}) {
      const CspsClaim claim =
          csps_claim(scenarios, share + std::string(" share ") + of.name, of.partition);
      for (const auto& [end, said, value] : {std::tuple("least", claim.least, extremes.least),
                                             std::tuple("most", claim.most, extremes.most)}) {
        report.rows.push_back(
            {.keys = {of.name, "both", end},
             .quantity = share + std::string("_percent"),
             .paper = Reading::number(100.0 * said),
             .tandem = Reading::number(100.0 * value),
             .printed = "figure 5, " + std::string(of.name) + ", " + share + ", " + end});
      }
    }
  }
  return report;
}

}  // namespace tandem::study
