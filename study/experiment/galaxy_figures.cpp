// Galaxy, figures 8 to 11: bandwidths, devices that differ, and scaling.

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

// Seconds of one layer among others.
double layer_seconds(const model::Cluster& cluster, model::Transformer transformer,
                     GalaxySystem system, std::int64_t rows) {
  const auto seconds = [&](std::int64_t layers) {
    transformer.layers = layers;
    return *pass_seconds(cluster, transformer, system, rows);
  };
  constexpr std::int64_t kMany = 5;
  return (seconds(kMany) - seconds(1)) / static_cast<double>(kMany - 1);
}

// Floating-point operations of a layer; attention is causal.
double layer_flops(const model::Transformer& t, double rows) {
  const auto h = static_cast<double>(t.hidden);
  return rows * 2.0 * (4.0 * h * h + 2.0 * h * static_cast<double>(t.intermediate)) +
         2.0 * h * rows * (rows + 1.0);
}

}  // namespace

ExperimentReport galaxy_figure8(const Scenarios& scenarios, Progress& progress) {
  const GalaxyTestbed testbed = calibrated_galaxy(scenarios);
  ExperimentReport report{.key_names = {"model", "environment", "mbps"},
                          .remarks = {galaxy_remark(testbed),
                                      "the paper prints bars; the text has their least and most"}};
  const std::vector<double> bandwidths{62.5, 125.0, 250.0, 500.0, 1000.0};
  const std::vector<std::pair<std::string, std::string>> cases{
      {"bert-l", "A"}, {"bert-l", "B"}, {"gpt2-l", "B"}, {"opt-l", "B"}, {"opt-xl", "C"}};
  progress.expect(cases.size() * bandwidths.size());
  for (const auto& [name, environment] : cases) {
    for (const double mbps : bandwidths) {
      report.rows.push_back(
          {.keys = {name, environment, model::fixed(mbps, 1)},
           .quantity = "speedup_over_mlm",
           .tandem = speed_up(testbed.cluster(scenarios, environment, mbps),
                              galaxy_model(scenarios, name), GalaxySystem::megatron, true)});
      progress.advance(1);
    }
  }
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

ExperimentReport galaxy_scaling(const Scenarios& scenarios, Progress& progress) {
  const GalaxyTestbed testbed = calibrated_galaxy(scenarios);
  const model::Cluster cluster =
      with_devices(testbed.cluster(scenarios, "C", 1000.0),
                   [](model::Device& d) { d.memory = model::Bytes{kAnyMemory}; });
  constexpr std::int64_t kRows = 384;
  const model::Csv table = scenarios.paper("galaxy_scaling");
  ExperimentReport report{.key_names = {"scaling", "model"},
                          .remarks = {galaxy_remark(testbed),
                                      "a layer among others, 4 devices, 1000 Mbps, 384 rows; weak: "
                                      "of four times the operations a second of 96 rows alone"}};
  progress.expect(table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i, progress.advance(1)) {
    const bool weak = table.at(i, "scaling") == "weak";
    const model::Transformer t = galaxy_model(scenarios, table.at(i, "model"));
    const std::int64_t alone = weak ? kRows / cluster.size() : kRows;
    const double faster = layer_flops(t, kRows) / layer_flops(t, static_cast<double>(alone)) *
                          layer_seconds(cluster, t, GalaxySystem::local, alone) /
                          layer_seconds(cluster, t, GalaxySystem::galaxy, kRows);
    report.rows.push_back({.keys = {table.at(i, "scaling"), table.at(i, "model")},
                           .quantity = weak ? "of_linear" : "speedup_over_local",
                           .paper = paper_reading(table, i, "value"),
                           .tandem = Reading::number(weak ? faster / cluster.size() : faster)});
  }
  return report;
}

}  // namespace tandem::study
