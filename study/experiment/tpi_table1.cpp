// TPI-LLM, Table 1: eight devices behind home gateways, 300 Mbps and 1 ms a link.

#include <utility>

#include "model/base/text_table.hpp"
#include "model/graph/work.hpp"
#include "study/experiment/tpi.hpp"
#include "study/experiment/tpi_klonet.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kTable1Devices = 8;
constexpr std::int32_t kTable1Window = 2;
constexpr std::int32_t kWiderWindow = 4;

class Table1 {
 public:
  Table1(const Scenarios& scenarios, Progress& progress, const Klonet& klonet)
      : scenarios_(scenarios),
        table_(scenarios.paper("tpi_table1")),
        klonet_(klonet),
        memory_(TpiMemory::calibrated(scenarios)) {
    progress.expect(table_.rows.size());
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      add(i);
      progress.advance(1);
    }
  }

  [[nodiscard]] const std::vector<ExperimentRow>& rows() const { return rows_; }
  [[nodiscard]] std::string claim() const {
    return "claim (4.1): a window of 4 is faster than one of 2. Holds for " +
           std::to_string(faster_) + " of " + std::to_string(table_.rows.size()) +
           " models; seconds a token: " + gains_;
  }
  [[nodiscard]] const TpiMemory& memory() const { return memory_; }

 private:
  void add(std::size_t i) {
    const std::string& name = table_.at(i, "model");
    const model::Transformer transformer = scenarios_.model(name);
    const double whole = memory_.whole(transformer, kTable1Devices);
    const bool fits = klonet_fits(transformer, whole);
    const RunTimes off =
        fits ? simulated_run(klonet_.testbed, transformer, "tensor", 0) : RunTimes{};
    const bool calibrates_off = name == kCalibratesCompute;
    const auto time = [&](double seconds) {
      return fits ? Reading::number(seconds) : Reading::out_of_memory();
    };
    row(i, "ttft_off_s", time(off.ttft_s), calibrates_off);
    row(i, "latency_off_s", time(off.latency_s), calibrates_off);
    row(i, "memory_off_gb", Reading::number(whole / kPaperGB), name == "llama-2-3b");
    const RunTimes on =
        simulated_run(klonet_.testbed, transformer, "tensor", streamed_window(kTable1Window));
    const double wider_s =
        simulated_run(klonet_.testbed, transformer, "tensor", streamed_window(kWiderWindow))
            .latency_s;
    faster_ += wider_s < on.latency_s ? 1 : 0;
    gains_ += (gains_.empty() ? "" : ", ") + name + " " + model::fixed(on.latency_s, 2) + " to " +
              model::fixed(wider_s, 2);
    const bool calibrates_on = name == kCalibratesDisk;
    row(i, "ttft_on_s", Reading::number(on.ttft_s), false);
    row(i, "latency_on_s", Reading::number(on.latency_s), calibrates_on);
    shown(name, "window_4_latency_on_s", wider_s);
    // The paper's memory counts the embedding as a block, which its scheduler then reads; tandem's
    // keeps rows of it in memory.
    const double embedding =
        model::kElementBytes * static_cast<double>(transformer.embedding_parameters());
    shown(name, "latency_on_reading_embedding_s",
          on.latency_s +
              embedding / klonet_.testbed.cluster.devices().front().disk_bandwidth.value());
    shown(name, "planned_memory_on_gb",
          planned_memory(klonet_.testbed, transformer, streamed_window(kTable1Window)) / kPaperGB);
    row(i, "memory_on_gb",
        Reading::number(memory_.windowed(transformer, kTable1Devices, kTable1Window) / kPaperGB),
        calibrates_on);
  }

  void row(std::size_t i, const std::string& quantity, Reading tandem, bool calibrated) {
    const std::string& name = table_.at(i, "model");
    const Reading paper = paper_reading(table_, i, quantity);
    std::string printed;
    if (quantity.starts_with("memory")) {
      printed = printed_memory(quantity, name, kTable1Devices, kTable1Window);
    } else if (paper.kind == Reading::Kind::out_of_memory) {
      printed = name + " without the scheduler";  // first token and latency are one run
    }
    rows_.push_back({.keys = {name},
                     .quantity = quantity,
                     .paper = paper,
                     .tandem = tandem,
                     .calibrated = calibrated,
                     .printed = std::move(printed)});
  }

  void shown(const std::string& name, const std::string& quantity, double value) {
    rows_.push_back({.keys = {name}, .quantity = quantity, .tandem = Reading::number(value)});
  }

  int faster_ = 0;  // models that a wider window makes faster
  std::string gains_{};
  const Scenarios& scenarios_;
  model::Csv table_;
  const Klonet& klonet_;
  TpiMemory memory_;
  std::vector<ExperimentRow> rows_;
};

}  // namespace

ExperimentReport tpi_table1(const Scenarios& scenarios, Progress& progress) {
  const Klonet klonet = calibrated_klonet(scenarios);
  const Table1 table(scenarios, progress, klonet);
  ExperimentReport report{.key_names = {"model"}, .rows = table.rows(), .remarks = klonet.remarks};
  report.remarks.push_back("memory: program " +
                           model::fixed(table.memory().program_bytes / kPaperGB, 3) +
                           " GB (llama-2-3b off), gamma " + model::fixed(table.memory().gamma, 3) +
                           " (llama-2-70b on); GB are GiB");
  report.remarks.emplace_back(
      "two systems, each whole: memory_on (Proposition 5, which counts the embedding) with "
      "latency_on_reading_embedding; planned_memory_on (tandem's master, which keeps no embedding "
      "and streams the head in tiles) with latency_on, which the paper's is compared with");
  report.remarks.push_back(table.claim());
  return report;
}

}  // namespace tandem::study
