// TPI-LLM, figure 5: token latency of Llama 2-70B against devices, cores and bandwidth. The paper
// prints a picture without numbers and draws conclusions, which are held against the prediction.

#include "model/base/text_table.hpp"
#include "study/experiment/tpi.hpp"
#include "study/experiment/tpi_klonet.hpp"

namespace tandem::study {
namespace {

constexpr std::int32_t kFigure5Window = 2;

model::Cluster with_bandwidth(const model::Cluster& cluster, double bits_per_second) {
  return with_links(cluster, [&](model::Link& link) {
    link.bandwidth = model::BytesPerSecond{bits_per_second / 8.0};
  });
}

}  // namespace

ExperimentReport tpi_figure5(const Scenarios& scenarios, Progress& progress) {
  const Klonet klonet = calibrated_klonet(scenarios);
  const Testbed& base = klonet.testbed;
  const model::Transformer t = scenarios.model("llama-2-70b");
  ExperimentReport report{.key_names = {"varied", "value"}, .rows = {}, .remarks = klonet.remarks};
  progress.expect(11);
  const auto add = [&](const char* varied, const std::string& value, const Testbed& testbed) {
    const double latency =
        simulated_run(testbed, t, "tensor", streamed_window(kFigure5Window)).latency_s;
    report.rows.push_back({.keys = {varied, value},
                           .quantity = "latency_s",
                           .paper = {},
                           .tandem = Reading::number(latency)});
    progress.advance(1);
    return latency;
  };
  for (const std::size_t devices : {2U, 4U, 6U, 8U}) {
    Testbed fewer = base;
    fewer.cluster = first_devices(base.cluster, devices);
    add("devices", std::to_string(devices), fewer);
  }
  double four_cores = 0.0;
  for (const int cores : {2, 4, 6, 8}) {
    Testbed other = base;
    other.slowdown = base.slowdown * 8.0 / cores;
    const double latency = add("cores", std::to_string(cores), other);
    if (cores == 4) four_cores = latency;
  }
  double slow = 0.0;
  double fast = 0.0;
  for (const int mbps : {300, 500, 1000}) {
    Testbed other = base;
    other.cluster = with_bandwidth(base.cluster, mbps * 1e6);
    const double latency = add("bandwidth_mbps", std::to_string(mbps), other);
    if (mbps == 300) slow = latency;
    fast = latency;
  }
  Testbed no_disk = base;
  const RunTimes in_memory = simulated_run(no_disk, t, "tensor", 0);
  const auto verdict = [](bool holds) { return holds ? "Holds: " : "Does not hold: "; };
  constexpr double kLittle = 0.05;
  report.remarks.push_back(std::string("claim: 300 Mbps to 1 Gbps has little effect. ") +
                           verdict(slow / fast - 1.0 < kLittle) +
                           model::fixed(100.0 * (slow / fast - 1.0), 1) + "%");
  report.remarks.push_back(
      std::string("claim: computation remains the bottleneck. ") +
      verdict(in_memory.latency_s > slow / 2.0) + "of " + model::fixed(slow, 1) +
      " s a token, computing and communicating take " + model::fixed(in_memory.latency_s, 1) +
      " s at the speed that llama-2-13b ran with, the rest is waiting for the disk; four cores "
      "instead of eight change the token by " +
      model::fixed(100.0 * (four_cores / slow - 1.0), 1) + "%");
  return report;
}

}  // namespace tandem::study
