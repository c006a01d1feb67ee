#pragma once

// TPI-LLM's laptops (its Tables 3, 7 and 8), with constants that the paper does not state.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict/page_cache.hpp"
#include "study/experiment/tpi.hpp"
#include "study/swap.hpp"

namespace tandem::study {

// Rows of Table 3 used for calibration: latencies on four laptops. Of the first those of
// Transformers (swap) and Accelerate, of the second those with the scheduler, alone and on all.
inline constexpr std::string_view kCalibratesSwap = "llama-2-7b";
inline constexpr std::string_view kCalibratesLaptopDisks = "yi-34b";

// How the page cache of a laptop treats blocks that the scheduler reads; absent: every block is
// read from disk, whatever was read before.
struct LaptopCaches {
  std::optional<model::CacheRule> alone{};     // on the Mac Pro, which runs what runs alone
  std::optional<model::CacheRule> together{};  // on several laptops
  model::Bytes system{};                       // that each laptop's system keeps from its cache
};

// Table 3's reading. Chosen after seeing its numbers: `retaining` takes the scheduler's latencies
// alone from +80, +34, +16 and +1% to +2, +7, +6 and -4% and fits nothing, but has no counterpart
// on several laptops (tpi-page-cache).
inline constexpr LaptopCaches kTable3Caches{.alone = model::CacheRule::retaining};

class Laptops {
 public:
  // Calibrates. Throws Error if a file of the scenarios lacks a row. `scenarios` outlives the
  // object.
  explicit Laptops(const Scenarios& scenarios, const LaptopCaches& caches = kTable3Caches);

  [[nodiscard]] const model::Csv& table() const { return table_; }
  // Returns the compute times: one laptop with everything in memory.
  [[nodiscard]] RunTimes alone(const model::Transformer& t) const;
  // Transformers on one laptop: what swapping adds; absent: out of memory.
  [[nodiscard]] std::optional<SwapTime> transformers(const model::Transformer& t) const;
  // Accelerate on one laptop: the seconds of a pass's loads, which block it.
  [[nodiscard]] double accelerate_s(const model::Transformer& t) const;
  // One laptop with the scheduler.
  [[nodiscard]] RunTimes scheduled(const model::Transformer& t) const;
  // TPI-LLM on the first `laptops`, with the scheduler.
  [[nodiscard]] RunTimes distributed(const model::Transformer& t, std::size_t laptops) const;
  // Returns the bytes of a laptop's memory, one of `laptops`, that neither the scheduler's program
  // holds, by Proposition 5, nor the system.
  [[nodiscard]] model::Bytes cache_bytes(const model::Transformer& t, std::size_t laptops,
                                         std::size_t laptop) const;
  [[nodiscard]] std::vector<std::string> remarks() const;

  struct Disks {
    double master_Bps = 1.0;
    double others_Bps = 1.0;
  };
  [[nodiscard]] const Disks& disks() const { return disks_; }

 private:
  [[nodiscard]] double paper(std::string_view model, std::string_view column) const;
  [[nodiscard]] std::optional<SwapTime> swapping(const model::Transformer& t, double rate) const;
  [[nodiscard]] RunTimes streamed(const model::Transformer& t, std::size_t laptops,
                                  const Disks& disks) const;

  const Scenarios* scenarios_;
  model::Csv table_;
  TpiMemory memory_;
  Testbed testbed_;
  LaptopCaches caches_;
  model::BytesPerSecond swap_{1.0};
  double accelerate_Bps_ = 1.0;
  Disks disks_{};
};

}  // namespace tandem::study
