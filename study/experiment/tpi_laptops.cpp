#include "study/experiment/tpi_laptops.hpp"

#include <algorithm>

#include "model/base/error.hpp"
#include "model/graph/work.hpp"
#include "study/experiment/tpi_klonet.hpp"

namespace tandem::study {
namespace {

// macOS makes swap as long as its disk has room: between 24 GB (llama-3.1-8b runs) and 44 GB
// (llama-2-13b does not).
constexpr double kSwap = 32e9;
constexpr double kLaptopMemory = 8.0 * kPaperGB;
constexpr std::int32_t kTable3Window = 2;
constexpr double kSlowestDisk = 1e8;
constexpr double kFastestDisk = 1e10;

double weights(const model::Transformer& t) {
  return model::kElementBytes * static_cast<double>(t.parameters());
}
// Returns the bytes that a token reads: all weights except the embedding's.
double touched(const model::Transformer& t) {
  return weights(t) - model::kElementBytes * static_cast<double>(t.embedding_parameters());
}

}  // namespace

Laptops::Laptops(const Scenarios& scenarios, const LaptopCaches& caches)
    : scenarios_(&scenarios),
      table_(scenarios.paper("tpi_table3_8")),
      memory_(TpiMemory::calibrated(scenarios)),
      testbed_{.cluster = scenarios.platform("laptops4"),
               .slowdown = 1.0,
               .prompt_tokens = calibrated_klonet(scenarios).testbed.prompt_tokens},
      caches_(caches) {
  const model::Transformer swapped = scenarios.model(std::string(kCalibratesSwap));
  const double computed_s = alone(swapped).latency_s;
  swap_ = model::BytesPerSecond{solve(
      [&](double rate) { return swapping(swapped, rate)->later_pass.value(); },
      paper(kCalibratesSwap, "transformers_latency_s") - computed_s, kSlowestDisk, kFastestDisk)};
  accelerate_Bps_ =
      touched(swapped) / (paper(kCalibratesSwap, "accelerate_latency_s") - computed_s);
  const model::Transformer largest = scenarios.model(std::string(kCalibratesLaptopDisks));
  disks_.master_Bps =
      solve([&](double rate) { return streamed(largest, 1, {.master_Bps = rate}).latency_s; },
            paper(kCalibratesLaptopDisks, "ms_latency_s"), kSlowestDisk, kFastestDisk);
  disks_.others_Bps = solve(
      [&](double rate) {
        return streamed(largest, 4, {.master_Bps = disks_.master_Bps, .others_Bps = rate})
            .latency_s;
      },
      paper(kCalibratesLaptopDisks, "tpi_latency_s"), kSlowestDisk, kFastestDisk);
}

// Returns the number of the row of four laptops.
double Laptops::paper(std::string_view model, std::string_view column) const {
  for (std::size_t i = 0; i < table_.rows.size(); ++i) {
    if (table_.at(i, "model") == model && table_.at(i, "laptops") == "4")
      return paper_reading(table_, i, column).value;
  }
  throw Error("scenarios/experiments/tpi_table3_8.csv: no row of " + std::string(model) +
              "; restore the file from the sources");
}

RunTimes Laptops::alone(const model::Transformer& t) const {
  Testbed one = testbed_;
  one.cluster = first_devices(testbed_.cluster, 1);
  return simulated_run(one, t, "local", 0);
}

std::optional<SwapTime> Laptops::transformers(const model::Transformer& t) const {
  return swapping(t, swap_.value());
}

std::optional<SwapTime> Laptops::swapping(const model::Transformer& t, double rate) const {
  return swap_time({.needed = model::Bytes{memory_.program_bytes + weights(t)},
                    .touched = model::Bytes{touched(t)}},
                   {.memory = model::Bytes{kLaptopMemory},
                    .swap = model::Bytes{kSwap},
                    .rate = model::BytesPerSecond{rate}});
}

double Laptops::accelerate_s(const model::Transformer& t) const {
  return touched(t) / accelerate_Bps_;
}

RunTimes Laptops::scheduled(const model::Transformer& t) const { return streamed(t, 1, disks_); }

RunTimes Laptops::distributed(const model::Transformer& t, std::size_t laptops) const {
  return streamed(t, laptops, disks_);
}

model::Bytes Laptops::cache_bytes(const model::Transformer& t, std::size_t laptops,
                                  std::size_t laptop) const {
  // The platform's decimal GB are GiB of memory modules.
  constexpr double kGB = 1e9;
  const double installed = testbed_.cluster.devices()[laptop].memory.value() / kGB * kPaperGB;
  const auto devices = static_cast<std::int64_t>(laptops);
  const double used = laptop == 0 ? memory_.windowed(t, devices, kTable3Window)
                                  : memory_.windowed_worker(t, devices, kTable3Window);
  return model::Bytes{std::max(0.0, installed - used - caches_.system.value())};
}

RunTimes Laptops::streamed(const model::Transformer& t, std::size_t laptops,
                           const Disks& disks) const {
  Testbed testbed = testbed_;
  const std::string strategy = laptops == 1 ? "local" : "tensor";
  const auto run = [&](const auto& rate) {
    std::size_t d = 0;
    testbed.cluster =
        with_devices(first_devices(testbed_.cluster, laptops), [&](model::Device& device) {
          const double disk_Bps = d == 0 ? disks.master_Bps : disks.others_Bps;
          device.disk_bandwidth = rate(d++, device, model::BytesPerSecond{disk_Bps});
        });
    return simulated_run(testbed, t, strategy, streamed_window(kTable3Window));
  };
  // The first pass reads everything from disk.
  RunTimes times =
      run([](std::size_t, const model::Device&, model::BytesPerSecond disk) { return disk; });
  const std::optional<model::CacheRule>& rule = laptops == 1 ? caches_.alone : caches_.together;
  if (!rule) return times;
  times.latency_s =
      run([&](std::size_t d, const model::Device& device, model::BytesPerSecond disk) {
        return model::repeated_rate({.file = model::Bytes{times.loaded_bytes[d]},
                                     .cache = cache_bytes(t, laptops, d),
                                     .rule = *rule},
                                    {.disk = disk, .memory = device.memory_bandwidth});
      }).latency_s;
  return times;
}

std::vector<std::string> Laptops::remarks() const {
  return {
      "links, cores and nominal rates: scenarios/platforms/laptops4.xml, from the paper's Table "
      "7; the Mac Pro is master and runs what runs alone; compute is not calibrated; a prompt "
      "of " +
          std::to_string(testbed_.prompt_tokens) + " tokens, as in Table 1",
      "swap disk " + rate_text(swap_.value()) +
          ", from the latency of llama-2-7b under Transformers; swap of 32 GB, as any between "
          "24 and 44 GB: llama-3.1-8b runs, llama-2-13b does not",
      "Accelerate's blocking loads " + rate_text(accelerate_Bps_) +
          ", from the latency of llama-2-7b",
      "disk of the Mac Pro " + rate_text(disks_.master_Bps) +
          ", from the latency of yi-34b with the scheduler on it; of the others " +
          rate_text(disks_.others_Bps) + ", from that on four laptops",
      ("the paper's window of two blocks is tandem's of one, released early, as in Table 1; 3.3 "
       "uses four for these laptops"),
      ("what the scheduler reads alone, on the Mac Pro, stays in its memory as far as the "
       "program leaves room (8 GiB - Proposition 5's, as in Table 2; the system's own memory is "
       "not known): later passes read the rest from disk and copy what stayed at half of the "
       "memory's rate. A choice after seeing the numbers, which fits no constant")};
}

}  // namespace tandem::study
