// Galaxy, figures 10 and 11: weak and strong scaling, with and without copies at messages' ends.

#include <algorithm>
#include <cmath>

#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "study/experiment/galaxy_testbed.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kScalingRows = 384;
constexpr const char* kCalibratesCopies = "gpt2-l";  // weak

// Seconds of one layer among others.
double layer_seconds(const model::Cluster& cluster, model::Transformer transformer,
                     GalaxySystem system, std::int64_t rows, double copy_s_per_byte) {
  const auto seconds = [&](std::int64_t layers) {
    transformer.layers = layers;
    return *pass_seconds(cluster, transformer, system, rows, copy_s_per_byte);
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

// How many times faster than alone so many devices are: weak, 96 rows each, in operations a second;
// strong, 384 rows in all.
double faster(const model::Cluster& cluster, const model::Transformer& t, bool weak,
              double copy_s_per_byte) {
  const auto devices = static_cast<std::int64_t>(cluster.size());
  constexpr std::int64_t kMostDevices = 4;
  constexpr std::int64_t kEach = kScalingRows / kMostDevices;
  const std::int64_t rows = weak ? kEach * devices : kScalingRows;
  const std::int64_t alone = weak ? kEach : kScalingRows;
  return layer_flops(t, static_cast<double>(rows)) / layer_flops(t, static_cast<double>(alone)) *
         layer_seconds(cluster, t, GalaxySystem::local, alone, copy_s_per_byte) /
         layer_seconds(cluster, t, GalaxySystem::galaxy, rows, copy_s_per_byte);
}

// Returns the largest error of Table IV's numbers with such copies.
double table4_error(const Scenarios& scenarios, const GalaxyTestbed& testbed,
                    double copy_s_per_byte) {
  const model::Csv table = scenarios.paper("galaxy_table4_5");
  double worst = 0.0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "hardware") != "cpu") continue;
    const model::Cluster cluster = testbed.cluster(scenarios, table.at(i, "environment"),
                                                   paper_reading(table, i, "bandwidth_mbps").value);
    for (const auto& [column, other] : {std::pair("speedup_over_mlm", GalaxySystem::megatron),
                                        std::pair("speedup_over_sp", GalaxySystem::sequence)}) {
      const Reading paper = paper_reading(table, i, column);
      if (paper.kind != Reading::Kind::number) continue;
      const Reading made = speed_up(cluster, galaxy_model(scenarios, table.at(i, "model")), other,
                                    true, copy_s_per_byte);
      worst = std::max(worst, std::abs(made.value / paper.value - 1.0));
    }
  }
  return worst;
}

}  // namespace

ExperimentReport galaxy_scaling(const Scenarios& scenarios, Progress& progress) {
  const GalaxyTestbed testbed = calibrated_galaxy(scenarios);
  const model::Cluster four =
      with_devices(testbed.cluster(scenarios, "C", 1000.0),
                   [](model::Device& d) { d.memory = model::Bytes{kAnyMemory}; });
  const model::Csv table = scenarios.paper("galaxy_scaling");
  progress.expect(table.rows.size() + 2);
  // Linear is 1 a device.
  const auto scaling = [&](std::size_t i, std::size_t devices, double copy_s_per_byte) {
    const bool weak = table.at(i, "scaling") == "weak";
    const double times =
        faster(first_devices(four, devices), galaxy_model(scenarios, table.at(i, "model")), weak,
               copy_s_per_byte);
    return weak ? times / static_cast<double>(devices) : times;
  };
  const auto calibrates = [&](std::size_t i) {
    return table.at(i, "scaling") == "weak" && table.at(i, "model") == kCalibratesCopies;
  };
  double copy_s_per_byte = 0.0;
  std::string fitted;  // model, whose two rows of four devices are one pass
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!calibrates(i)) continue;
    fitted = table.at(i, "model");
    copy_s_per_byte = solve([&](double tried) { return scaling(i, four.devices().size(), tried); },
                            paper_reading(table, i, "value").value, 1e-10, 1e-7);
  }
  progress.advance(1);
  ExperimentReport report{.key_names = {"scaling", "model", "devices"}};
  for (std::size_t i = 0; i < table.rows.size(); ++i, progress.advance(1)) {
    const std::string quantity =
        table.at(i, "scaling") == "weak" ? "of_linear" : "speedup_over_local";
    for (const std::size_t devices : {2U, 3U, 4U}) {
      const std::vector<std::string> keys{table.at(i, "scaling"), table.at(i, "model"),
                                          std::to_string(devices)};
      const bool printed = devices == four.devices().size();
      const bool follows = printed && !calibrates(i) && table.at(i, "model") == fitted;
      report.rows.push_back(
          {.keys = keys,
           .quantity = quantity,
           .paper = printed ? paper_reading(table, i, "value") : Reading{},
           .tandem = Reading::number(scaling(i, devices, copy_s_per_byte)),
           .calibrated = printed && calibrates(i),
           .aside = follows ? ExperimentRow::Aside::follows : ExperimentRow::Aside::none});
      report.rows.push_back({.keys = keys,
                             .quantity = quantity + "_without_copies",
                             .tandem = Reading::number(scaling(i, devices, 0.0))});
    }
  }
  report.remarks = {
      galaxy_remark(testbed),
      "a layer among others, 1000 Mbps; weak: 96 rows a device, operations a second of so many "
      "devices; strong: 384 rows",
      "copies at messages' ends: " + model::fixed(1e9 * copy_s_per_byte, 1) +
          " ns a byte at each, from weak scaling of gpt2-l on four. With them Table IV's numbers "
          "are within " +
          model::fixed(100.0 * table4_error(scenarios, testbed, copy_s_per_byte), 0) +
          "%, without within " + model::fixed(100.0 * table4_error(scenarios, testbed, 0.0), 0) +
          "%. That copies fit does not prove that they are the cause"};
  progress.advance(1);
  return report;
}

}  // namespace tandem::study
