#include "study/experiment/tpi_klonet.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/graph/work.hpp"
#include "study/swap.hpp"

namespace tandem::study {
namespace {

constexpr double kSlowest = 20.0;  // times slower than nominal
constexpr std::int64_t kMostPrompt = 64;

double paper(const model::Csv& table, std::string_view model, std::string_view column) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "model") == model) return paper_reading(table, i, column).value;
  }
  throw Error("scenarios/experiments/tpi_table1.csv: no row of " + std::string(model) +
              "; restore the file from the sources");
}

// Returns the number of prompt tokens whose time to the first token is closest to `target`.
std::int64_t fitting_prompt(Testbed testbed, const model::Transformer& transformer, double target) {
  std::int64_t best = 1;
  double least = HUGE_VAL;
  for (testbed.prompt_tokens = 1; testbed.prompt_tokens <= kMostPrompt; ++testbed.prompt_tokens) {
    const double ttft = simulated_run(testbed, transformer, "tensor", 0).ttft_s;
    if (std::abs(ttft - target) < least) {
      least = std::abs(ttft - target);
      best = testbed.prompt_tokens;
    }
    if (ttft > target) break;
  }
  return best;
}

}  // namespace

Klonet calibrated_klonet(const Scenarios& scenarios) {
  const model::Csv table = scenarios.paper("tpi_table1");
  Klonet klonet{.testbed = {.cluster = scenarios.platform("klonet8")}, .remarks = {}};
  Testbed& testbed = klonet.testbed;

  const model::Transformer compute = scenarios.model(std::string(kCalibratesCompute));
  testbed.slowdown = solve(
      [&](double slowdown) {
        Testbed slower = testbed;
        slower.slowdown = slowdown;
        return simulated_run(slower, compute, "tensor", 0).latency_s;
      },
      paper(table, kCalibratesCompute, "latency_off_s"), 1.0, kSlowest);
  testbed.prompt_tokens =
      fitting_prompt(testbed, compute, paper(table, kCalibratesCompute, "ttft_off_s"));

  const model::Transformer streamed = scenarios.model(std::string(kCalibratesDisk));
  const model::Cluster plain = testbed.cluster;
  const auto with_disk = [&](double rate) {
    return with_devices(
        plain, [&](model::Device& device) { device.disk_bandwidth = model::BytesPerSecond{rate}; });
  };
  const double rate = solve(
      [&](double tried) {
        Testbed disk = testbed;
        disk.cluster = with_disk(tried);
        return simulated_run(disk, streamed, "tensor", streamed_window(2)).latency_s;
      },
      paper(table, kCalibratesDisk, "latency_on_s"), 1e8, 1e10);
  testbed.cluster = with_disk(rate);

  klonet.remarks = {
      "links, cores and nominal rates: scenarios/platforms/klonet8.xml, from what the paper states",
      "compute " + model::fixed(testbed.slowdown, 2) +
          " times slower than nominal and a prompt of " + std::to_string(testbed.prompt_tokens) +
          " tokens, from latency and first token of llama-2-13b, scheduler off",
      "disk " + rate_text(rate) + " a device, from the latency of llama-2-70b, scheduler on",
      "the paper's window of w blocks is tandem's of w - 1, released early (its public code counts "
      "the block that computes, and loads none of its window while attention computes)"};
  return klonet;
}

bool klonet_fits(const model::Transformer& transformer, double needed) {
  constexpr double kMemory = 8.0 * kPaperGB;
  constexpr double kSwap = 4.0 * kPaperGB;
  constexpr double kAnyRate = 1e9;  // only whether it swaps matters
  const double embedding =
      model::kElementBytes * static_cast<double>(transformer.embedding_parameters());
  const auto time =
      swap_time({.needed = model::Bytes{needed}, .touched = model::Bytes{needed - embedding}},
                {.memory = model::Bytes{kMemory},
                 .swap = model::Bytes{kSwap},
                 .rate = model::BytesPerSecond{kAnyRate}});
  return time && time->later_pass.value() == 0.0;
}

}  // namespace tandem::study
