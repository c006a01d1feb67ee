// TPI-LLM, Tables 3 and 8: four and three laptops on Wi-Fi, against Transformers, Accelerate and
// Transformers with the memory scheduler on one of them.

#include "model/base/text_table.hpp"
#include "study/experiment/tpi_laptops.hpp"

namespace tandem::study {
namespace {

void add_rows(const Scenarios& scenarios, const Laptops& laptops, std::size_t i,
              std::vector<ExperimentRow>& rows) {
  const model::Csv& table = laptops.table();
  const std::string& name = table.at(i, "model");
  const model::Transformer t = scenarios.model(name);
  const bool four = table.at(i, "laptops") == "4";
  const auto row = [&](const std::string& quantity, Reading tandem, bool calibrated) {
    const Reading paper = paper_reading(table, i, quantity);
    // What is larger than the model that sets the size of the swap is out of memory with it.
    const bool follows = paper.kind == Reading::Kind::out_of_memory && !calibrated;
    rows.push_back({.keys = {table.at(i, "laptops"), name},
                    .quantity = quantity,
                    .paper = paper,
                    .tandem = tandem,
                    .calibrated = calibrated,
                    .aside = follows ? ExperimentRow::Aside::follows : ExperimentRow::Aside::none});
  };
  // Table 8 repeats Table 3's numbers for what runs on one laptop.
  if (four) {
    const auto swapped = laptops.transformers(t);
    const RunTimes computed = laptops.alone(t);
    const auto time = [&](double seconds) {
      return swapped ? Reading::number(seconds) : Reading::out_of_memory();
    };
    const SwapTime passes = swapped.value_or(SwapTime{});
    // The size of the swap was chosen so that this model does not fit.
    const bool bracket = name == "llama-2-13b";
    const bool fitted = name == kCalibratesSwap;
    const double blocking = laptops.accelerate_s(t);
    row("transformers_ttft_s", time(passes.first_pass.value() + computed.ttft_s), bracket);
    row("transformers_latency_s", time(passes.later_pass.value() + computed.latency_s),
        bracket || fitted);
    // Accelerate loads the whole model before it offloads, so it needs the same room.
    row("accelerate_ttft_s", time(blocking + computed.ttft_s), bracket);
    row("accelerate_latency_s", time(blocking + computed.latency_s), bracket || fitted);
    const RunTimes scheduled = laptops.scheduled(t);
    row("ms_ttft_s", Reading::number(scheduled.ttft_s), false);
    row("ms_latency_s", Reading::number(scheduled.latency_s), name == kCalibratesLaptopDisks);
  }
  const RunTimes times =
      laptops.distributed(t, static_cast<std::size_t>(std::stoul(table.at(i, "laptops"))));
  row("tpi_ttft_s", Reading::number(times.ttft_s), false);
  row("tpi_latency_s", Reading::number(times.latency_s), four && name == kCalibratesLaptopDisks);
}

// Section 1: "over 80% compared to Accelerate and over 90% compared to Transformers", of the
// paper's own numbers on four laptops.
std::vector<std::string> claims(const model::Csv& table) {
  std::vector<std::string> texts;
  for (const auto& [other, name, least] : {std::tuple("accelerate", "Accelerate", 0.8),
                                           std::tuple("transformers", "Transformers", 0.9)}) {
    int kept = 0;
    int all = 0;
    std::string lost;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (table.at(i, "laptops") != "4") continue;
      for (const std::string quantity : {"ttft_s", "latency_s"}) {
        const Reading theirs = paper_reading(table, i, other + ("_" + quantity));
        if (theirs.kind != Reading::Kind::number) continue;
        const double less = 1.0 - paper_reading(table, i, "tpi_" + quantity).value / theirs.value;
        ++all;
        const bool holds = less > least;
        kept += holds ? 1 : 0;
        if (!holds)
          lost += (lost.empty() ? "; not for " : ", ") + table.at(i, "model") + " " + quantity +
                  " (" + model::fixed(100.0 * less, 0) + "%)";
      }
    }
    texts.push_back("claim (1): over " + model::fixed(100.0 * least, 0) + "% less than " + name +
                    ", of the paper's own numbers. Holds for " + std::to_string(kept) + " of " +
                    std::to_string(all) + lost);
  }
  return texts;
}

}  // namespace

ExperimentReport tpi_table3(const Scenarios& scenarios, Progress& progress) {
  const Laptops laptops(scenarios);
  ExperimentReport report{
      .key_names = {"laptops", "model"}, .rows = {}, .remarks = laptops.remarks()};
  report.remarks.emplace_back("Table 8 repeats what runs on one laptop, it is not counted twice");
  for (const std::string& claim : claims(laptops.table())) report.remarks.push_back(claim);
  progress.expect(laptops.table().rows.size());
  for (std::size_t i = 0; i < laptops.table().rows.size(); ++i) {
    add_rows(scenarios, laptops, i, report.rows);
    progress.advance(1);
  }
  return report;
}

}  // namespace tandem::study
