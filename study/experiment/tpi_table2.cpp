// TPI-LLM, Tables 2 and 6: peak memory against devices, window of 2 and of 4 blocks.

#include "model/base/text_table.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {

ExperimentReport tpi_table2(const Scenarios& scenarios, Progress& progress) {
  const model::Csv table = scenarios.paper("tpi_table2_6");
  const TpiMemory memory = TpiMemory::calibrated(scenarios);
  ExperimentReport report{
      .key_names = {"model", "devices", "window"},
      .rows = {},
      .remarks = {"paper's GB taken as GiB (its Table 5 gives Llama 2-70B, 276e9 bytes, as 257 GB)",
                  "program " + model::fixed(memory.program_bytes / kPaperGB, 3) +
                      " GB, from llama-2-3b on 8 devices, scheduler off; gamma of Proposition 5 " +
                      model::fixed(memory.gamma, 3) +
                      ", from llama-2-70b on 8 devices, window 2; nothing else is fitted"}};
  progress.expect(table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& name = table.at(i, "model");
    const std::string& window = table.at(i, "window");
    const model::Transformer transformer = scenarios.model(name);
    for (const std::int64_t devices : {2, 4, 6, 8}) {
      const std::string n = std::to_string(devices);
      const bool first = window == "2" && devices == 8;
      const std::vector<std::string> keys{name, n, window};
      report.rows.push_back(
          {.keys = keys,
           .quantity = "memory_off_gb",
           .paper = paper_reading(table, i, "off_n" + n),
           .tandem = Reading::number(memory.whole(transformer, devices) / kPaperGB),
           .calibrated = name == "llama-2-3b" && devices == 8,
           .printed = printed_memory("memory_off_gb", name, devices, 0)});
      report.rows.push_back(
          {.keys = keys,
           .quantity = "memory_on_gb",
           .paper = paper_reading(table, i, "on_n" + n),
           .tandem = Reading::number(memory.windowed(transformer, devices, std::stoll(window)) /
                                     kPaperGB),
           .calibrated = name == "llama-2-70b" && first,
           .printed = printed_memory("memory_on_gb", name, devices, std::stoll(window))});
    }
    progress.advance(1);
  }
  return report;
}

}  // namespace tandem::study
