// TPI-LLM, Table 3's latencies with the memory scheduler, by what page caches keep of the blocks.

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "study/experiment/tpi_laptops.hpp"

namespace tandem::study {
namespace {

struct CacheReading {
  const char* name;
  LaptopCaches caches;
};
constexpr model::Bytes kGiB{kPaperGB};
constexpr std::array kCacheReadings{
    CacheReading{"disk", {}},
    CacheReading{
        "least recent",
        {.alone = model::CacheRule::least_recent, .together = model::CacheRule::least_recent}},
    CacheReading{"retaining",
                 {.alone = model::CacheRule::retaining, .together = model::CacheRule::retaining}},
    CacheReading{"retaining, 1 GiB for the system",
                 {.alone = model::CacheRule::retaining,
                  .together = model::CacheRule::retaining,
                  .system = kGiB}},
    CacheReading{"retaining, 2 GiB for the system",
                 {.alone = model::CacheRule::retaining,
                  .together = model::CacheRule::retaining,
                  .system = 2.0 * kGiB}}};

// Latencies that calibrate nothing.
struct CacheTally {
  int numbers = 0;
  int within = 0;
  void add(const ExperimentRow& row) {
    ++numbers;
    within += row.notable() ? 0 : 1;
  }
  [[nodiscard]] std::string text() const {
    return std::to_string(within) + " of " + std::to_string(numbers);
  }
};

struct ReadLaptops {
  const char* name;
  Laptops laptops;
  CacheTally alone{};
  CacheTally together{};
  [[nodiscard]] std::string text() const {
    return std::string(name) + ": disk of the Mac Pro " + rate_text(laptops.disks().master_Bps) +
           ", of the others " + rate_text(laptops.disks().others_Bps) + "; within 15% alone " +
           alone.text() + " latencies, on several laptops " + together.text();
  }
};

}  // namespace

ExperimentReport tpi_page_cache(const Scenarios& scenarios, Progress& progress) {
  ExperimentReport report{.key_names = {"laptops", "model"}};
  progress.expect(kCacheReadings.size());
  std::vector<ReadLaptops> readings;
  readings.reserve(kCacheReadings.size());
  for (const CacheReading& reading : kCacheReadings) {
    readings.push_back({.name = reading.name, .laptops = Laptops(scenarios, reading.caches)});
    progress.advance(1);
  }
  const model::Csv& table = readings.front().laptops.table();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const model::Transformer t = scenarios.model(table.at(i, "model"));
    const std::size_t count = std::stoul(table.at(i, "laptops"));
    const auto add = [&](std::size_t laptops, const char* column, CacheTally ReadLaptops::*tally) {
      for (ReadLaptops& reading : readings) {
        const double seconds =
            (laptops == 1 ? reading.laptops.scheduled(t) : reading.laptops.distributed(t, laptops))
                .latency_s;
        ExperimentRow row{
            .keys = {std::to_string(laptops), table.at(i, "model")},
            .quantity = std::string(reading.name) + "_s",
            .paper = paper_reading(table, i, column),
            .tandem = Reading::number(seconds),
            .calibrated = table.at(i, "model") == kCalibratesLaptopDisks && laptops != 3,
            .note = "Table 3 takes what is retained alone, and the disk on several laptops"};
        if (row.predicts()) (reading.*tally).add(row);
        report.rows.push_back(std::move(row));
      }
    };
    // Table 8 repeats Table 3's numbers for what runs on one laptop.
    if (count == 4) add(1, "ms_latency_s", &ReadLaptops::alone);
    add(count, "tpi_latency_s", &ReadLaptops::together);
  }
  for (const ReadLaptops& reading : readings) report.remarks.push_back(reading.text());
  return report;
}

}  // namespace tandem::study
