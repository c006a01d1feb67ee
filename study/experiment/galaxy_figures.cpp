// Galaxy, figures 8 and 9: bandwidths, and devices that differ.

#include <algorithm>
#include <limits>

#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "study/experiment/galaxy_testbed.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

// Adds the smallest and the largest value, with the text's claim on `figure`.
void add_range(ExperimentReport& report, const Scenarios& scenarios, const std::string& figure,
               const std::vector<std::string>& keys) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (const ExperimentRow& row : report.rows) {
    if (row.tandem.kind != Reading::Kind::number) continue;
    least = std::min(least, row.tandem.value);
    most = std::max(most, row.tandem.value);
  }
  const model::Csv table = scenarios.paper("galaxy_ranges");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "figure") != figure) continue;
    report.rows.push_back({.keys = keys,
                           .quantity = "least_speedup",
                           .paper = paper_reading(table, i, "least"),
                           .tandem = Reading::number(least)});
    report.rows.push_back({.keys = keys,
                           .quantity = "most_speedup",
                           .paper = paper_reading(table, i, "most"),
                           .tandem = Reading::number(most)});
  }
}

}  // namespace

ExperimentReport galaxy_figure8(const Scenarios& scenarios, Progress& progress) {
  const GalaxyTestbed testbed = calibrated_galaxy(scenarios);
  ExperimentReport report{
      .key_names = {"model", "environment", "mbps"},
      .remarks = {galaxy_remark(testbed),
                  "the paper prints bars of five bandwidths, which it does not name; the "
                  "text has their least and most, over both baselines. Assumed: "
                  "62.5 to 1000 Mbps, and these models and environments"}};
  const std::vector<double> bandwidths{62.5, 125.0, 250.0, 500.0, 1000.0};
  const std::vector<std::pair<std::string, std::string>> cases{
      {"bert-l", "A"}, {"bert-l", "B"}, {"gpt2-l", "B"}, {"opt-l", "B"}, {"opt-xl", "C"}};
  std::string slower;
  progress.expect(cases.size() * bandwidths.size());
  for (const auto& [name, environment] : cases) {
    for (const double mbps : bandwidths) {
      for (const auto& [quantity, other] : {std::pair("speedup_over_mlm", GalaxySystem::megatron),
                                            std::pair("speedup_over_sp", GalaxySystem::sequence)}) {
        report.rows.push_back({.keys = {name, environment, model::fixed(mbps, 1)},
                               .quantity = quantity,
                               .tandem = speed_up(testbed.cluster(scenarios, environment, mbps),
                                                  galaxy_model(scenarios, name), other, true)});
        const Reading& made = report.rows.back().tandem;
        if (made.kind == Reading::Kind::number && made.value <= 1.0)
          slower.append(slower.empty() ? "" : ", ")
              .append(name)
              .append(" in ")
              .append(environment)
              .append(" at " + model::fixed(mbps, 1))
              .append(" Mbps (" + model::fixed(made.value, 3) + ")");
      }
      progress.advance(1);
    }
  }
  report.remarks.push_back("claim: Galaxy is the faster in every one. " +
                           (slower.empty() ? "Holds" : "Does not hold for " + slower));
  add_range(report, scenarios, "8", {"all", "all", "all"});
  return report;
}

ExperimentReport galaxy_figure9(const Scenarios& scenarios, Progress& progress) {
  const GalaxyTestbed testbed = calibrated_galaxy(scenarios);
  ExperimentReport report{
      .key_names = {"model", "environment"},
      .remarks = {galaxy_remark(testbed),
                  "budgets 1.5, 1.2 and 0.7 GB of Nano-L, -M and -S; 125 Mbps"}};
  const std::vector<std::string> names{"distilbert", "bert-l", "gpt2-l", "opt-l"};
  progress.expect(names.size() * 3);
  for (const std::string& name : names) {
    for (const std::string environment : {"D", "E", "F"}) {
      const model::Cluster cluster = testbed.cluster(scenarios, environment, 125.0);
      const model::Transformer transformer = galaxy_model(scenarios, name);
      for (const auto& [quantity, other] : {std::pair("speedup_over_mlm", GalaxySystem::megatron),
                                            std::pair("speedup_over_sp", GalaxySystem::sequence)}) {
        report.rows.push_back({.keys = {name, environment},
                               .quantity = quantity,
                               .tandem = speed_up(cluster, transformer, other, true)});
      }
      progress.advance(1);
    }
  }
  add_range(report, scenarios, "9", {"all", "all"});
  return report;
}

}  // namespace tandem::study
