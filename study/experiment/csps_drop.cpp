// CSPS, 3.2.4 and 5.3: what dropping 22% of the tokens saves of communication and computation.

#include <string>
#include <utility>
#include <vector>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 2> kDropLengths{
    {{"500K", 500'000}, {"1M", kCspsMillion}}};

// Seconds, means over the devices; bytes of all of them.
struct Spent {
  double ttft_s;
  double communication_s;
  double computation_s;
  double attention_s;
  double choosing_s;
  double sent_bytes;
};

Spent spent(const CspsPass& pass) {
  return {.ttft_s = pass.ttft_s,
          .communication_s = pass.communication * pass.ttft_s,
          .computation_s = (1.0 - pass.communication) * pass.ttft_s,
          .attention_s = pass.attention * pass.ttft_s,
          .choosing_s = pass.choosing * pass.ttft_s,
          .sent_bytes = pass.sent_bytes};
}

// Returns the fastest ratios of two farther levels with mean `of`, by the time `spent`.
template <typename Spends>
std::pair<CspsDrop, Spent> best_of(const CspsDrop& of, const Spent& spent, const Spends& spends) {
  constexpr double kStep = 0.02;
  const double sum = of.ratios[0] + of.ratios[1];
  std::pair<CspsDrop, Spent> best{of, spent};
  for (int i = 0; i * kStep <= sum / 2.0; ++i) {
    const CspsDrop drop{{i * kStep, sum - i * kStep}};
    if (drop.ratios[1] >= 1.0) continue;
    const Spent found = spends(drop);
    if (found.ttft_s < best.second.ttft_s) best = {drop, found};
  }
  return best;
}

double saved_percent(double before, double after) { return 100.0 * (1.0 - after / before); }

}  // namespace

ExperimentReport csps_drop(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"model", "tokens", "attention"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      "SP-NTP with devices for parts of 64K: eight in one server, 16 in two, whose levels are each "
      "device's own rows, then all (two), or those of a server, then all (three). Saved: of what "
      "attention without levels takes. Communication is what devices wait for messages and copy "
      "them, computation the rest, their means; attention is softmax(Q K) V alone, choosing what "
      "dropping adds to it, in percent of it");
  report.remarks.emplace_back(
      "tokens dropped: the mean of drop ratios over levels and layers, the first level and the "
      "three layers that drop nothing counted; each level keeps half as much as the one before. "
      "22% of the second: the same without the first level; with three levels, halving alone drops "
      "23% of the farther two");
  report.remarks.emplace_back(
      "best ratios: of three levels and GLM-4, that which is fastest of the same mean, the second "
      "level's in steps of 0.02, none larger than the third's");
  const auto claim = [&](const char* of) {
    return Reading::number(100.0 * csps_claim(scenarios, of, "all").least);
  };
  const auto saved = [&](const std::vector<std::string>& keys, const Spent& dense, double dropped,
                         const Spent& now, bool said) {
    const auto row = [&](const char* quantity, double value, const char* of = nullptr) {
      report.rows.push_back({.keys = keys,
                             .quantity = quantity,
                             .paper = said && of != nullptr ? claim(of) : Reading{},
                             .tandem = Reading::number(value),
                             .printed = said && of != nullptr ? of : ""});
    };
    row("dropped_percent", 100.0 * dropped, "tokens dropped at no loss");
    report.rows.back().calibrated = said;
    row("communication_saved_percent", saved_percent(dense.communication_s, now.communication_s),
        "communication time saved at no loss");
    row("computation_saved_percent", saved_percent(dense.computation_s, now.computation_s),
        "computation time saved at no loss");
    row("sent_saved_percent", saved_percent(dense.sent_bytes, now.sent_bytes));
    row("attention_saved_percent", saved_percent(dense.attention_s, now.attention_s));
    row("choosing_percent", 100.0 * now.choosing_s / dense.attention_s);
    row("ttft_saved_percent", saved_percent(dense.ttft_s, now.ttft_s));
  };
  progress.expect(kCspsModels.size() * kDropLengths.size());
  for (const std::string_view model : kCspsModels) {
    const std::int64_t layers = csps_model(scenarios, model).layers;
    for (const auto& [length, tokens] : kDropLengths) {
      const auto spends = [&, of = tokens](const CspsDrop& drop) {
        return spent(csps_pass(scenarios, testbed, model, CspsPrefill::ntp, of, drop));
      };
      const Spent dense = spends({});
      const std::size_t most = csps_levels(csps_devices(CspsPrefill::ntp, tokens));
      for (std::size_t levels = 2; levels <= most; ++levels) {
        const auto keys = [&, of = length](const std::string& what) {
          return std::vector<std::string>{std::string(model), std::string(of),
                                          std::to_string(levels) + " levels, " + what};
        };
        const CspsDrop nothing{std::vector<double>(levels - 1)};
        saved(keys("nothing dropped"), dense, 0.0, spends(nothing), false);
        const CspsDrop halving = csps_halving(levels, layers, kCspsDropped);
        const Spent halved = spends(halving);
        saved(keys("22% dropped"), dense, csps_dropped(halving, layers), halved, true);
        if (levels == 2) {
          // Were the second level's ratios alone the count.
          const CspsDrop second = csps_halving(levels, layers, kCspsDropped / 2.0);
          saved(keys("22% of the second"), dense, 2.0 * csps_dropped(second, layers),
                spends(second), true);
          continue;
        }
        if (model != kCspsModels.front()) continue;  // a second search tells nothing new
        const auto [drop, best] = best_of(halving, halved, spends);
        saved(keys("22% dropped, best ratios"), dense, csps_dropped(drop, layers), best, false);
        report.rows.push_back({.keys = keys("22% dropped, best ratios"),
                               .quantity = "second_level_percent",
                               .tandem = Reading::number(100.0 * drop.ratios.front())});
        report.rows.push_back({.keys = keys("22% dropped, best ratios"),
                               .quantity = "halved_over_best_ttft",
                               .tandem = Reading::number(halved.ttft_s / best.ttft_s)});
      }
      progress.advance(1);
    }
  }
  return report;
}

}  // namespace tandem::study
