// TPI-LLM, figure 1: Llama 3.1-8B on four laptops at 178 Mbps, tensor against model parallelism.

#include "model/base/text_table.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr double kBitsPerSecond = 178e6;
constexpr std::int64_t kFigure1Devices = 4;

// Latency, and the latency without network costs.
struct Breakdown {
  double latency_s = 0.0;
  double compute_s = 0.0;
  [[nodiscard]] double communication_percent() const {
    return 100.0 * (1.0 - compute_s / latency_s);
  }
};

Breakdown breakdown(const Testbed& testbed, const model::Transformer& t,
                    const std::string& strategy) {
  Testbed free = testbed;
  free.cluster = with_links(testbed.cluster, [](model::Link& link) {
    link.latency = model::Seconds{0.0};
    link.bandwidth = model::BytesPerSecond{1e18};
  });
  return {.latency_s = simulated_run(testbed, t, strategy, 0).latency_s,
          .compute_s = simulated_run(free, t, strategy, 0).latency_s};
}

}  // namespace

ExperimentReport tpi_figure1(const Scenarios& scenarios, Progress& progress) {
  const model::Transformer t = scenarios.model("llama-3.1-8b");
  Testbed testbed{.cluster = with_links(scenarios.platform("laptops4"), [](model::Link& link) {
                    link.bandwidth = model::BytesPerSecond{kBitsPerSecond / 8.0};
                  })};
  constexpr double kPipelinePercent = 2.0;
  progress.expect(3);
  testbed.slowdown = solve(
      [&](double slowdown) {
        Testbed slower = testbed;
        slower.slowdown = slowdown;
        return breakdown(slower, t, "pipeline").communication_percent();
      },
      kPipelinePercent, 1.0, 100.0);
  progress.advance(1);
  const Breakdown pipeline = breakdown(testbed, t, "pipeline");
  const Breakdown tensor = breakdown(testbed, t, "tensor");
  progress.advance(1);
  // The factor on Table 7's link latencies at which both take the same time.
  const double scale = solve(
      [&](double factor) {
        Testbed scaled = testbed;
        scaled.cluster = with_links(testbed.cluster, [&](model::Link& link) {
          link.latency = model::Seconds{link.latency.value() * factor};
        });
        return breakdown(scaled, t, "tensor").latency_s -
               breakdown(scaled, t, "pipeline").latency_s;
      },
      0.0, 1e-3, 1e3);
  progress.advance(1);

  const TpiMemory memory = TpiMemory::calibrated(scenarios);
  const auto row = [](const char* strategy, const char* quantity, Reading paper, double value,
                      bool calibrated) {
    return ExperimentRow{.keys = {strategy},
                         .quantity = quantity,
                         .paper = paper,
                         .tandem = Reading::number(value),
                         .calibrated = calibrated};
  };
  return {.key_names = {"strategy"},
          .rows = {row("model parallelism", "communication_percent",
                       Reading::number(kPipelinePercent), pipeline.communication_percent(), true),
                   row("model parallelism", "latency_s", {}, pipeline.latency_s, false),
                   row("tensor parallelism", "communication_percent", Reading::number(70.0),
                       tensor.communication_percent(), false),
                   row("tensor parallelism", "latency_s", {}, tensor.latency_s, false),
                   row("tensor parallelism", "memory_gb", Reading::number(12.0),
                       memory.whole(t, kFigure1Devices) / kPaperGB, false)},
          .remarks = {
              "laptops4.xml with links of 178 Mbps; compute " + model::fixed(testbed.slowdown, 2) +
                  " times slower than nominal, from the 2% of model parallelism",
              "the paper finds tensor parallelism the faster; with the latencies of its Table 7 it "
              "is " +
                  std::string(tensor.latency_s < pipeline.latency_s ? "too" : "the slower here") +
                  ", and both take the same time where every link's latency is " +
                  model::fixed(scale, 2) + " times that (" + model::fixed(5.0 * scale, 1) +
                  " ms instead of 5 ms)"}};
}

}  // namespace tandem::study
