// MDI-LLM, Tables IV, VII and X: memory of every node.

#include <algorithm>

#include "model/base/text_table.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "study/experiment/mdi.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr double kGB = 1e9;

// Memory of an MDI-LLM node: Python, PyTorch and CUDA, and a multiple of its weights, in memory
// that cpu and GPU share.
struct NodeMemory {
  double starter_bytes = 0.0;
  double secondary_bytes = 0.0;
  double copies = 1.0;
};

class Nodes {
 public:
  explicit Nodes(const Scenarios& scenarios)
      : scenarios_(scenarios),
        rates_(scenarios.paper("mdi_rates")),
        table_(scenarios.paper("mdi_memory")),
        boards_(scenarios.platform("jetson-tx2x3")) {
    const double small = weights("nanogpt-7", "3", 1);
    const double large = weights("gpt2-medium", "3", 1);
    memory_.copies =
        (paper("gpt2-medium", "3", 1) - paper("nanogpt-7", "3", 1)) * kGB / (large - small);
    memory_.secondary_bytes = paper("nanogpt-7", "3", 1) * kGB - memory_.copies * small;
    memory_.starter_bytes = paper("gpt2", "1", 0) * kGB - memory_.copies * weights("gpt2", "1", 0);
  }

  [[nodiscard]] ExperimentReport report(Progress& progress) const {
    ExperimentReport report{
        .key_names = {"model", "nodes", "node"},
        .rows = {},
        .remarks = {
            "a node takes its program, a multiple of its weights and, in the version that has "
            "them, the keys and values of all samples (caches_gb); GB are decimal",
            "caches have the samples' lengths and the weights' format: assumed",
            "program " + gigabytes(memory_.starter_bytes) + " of the starter (gpt2 on one node), " +
                gigabytes(memory_.secondary_bytes) +
                " of the others (nanogpt-7, second of three nodes)",
            "weights " + model::fixed(memory_.copies, 3) +
                " times (gpt2-medium, second of three nodes): 1 would be theirs alone"}};
    progress.expect(table_.rows.size());
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      const std::string& model = table_.at(i, "model");
      const std::string& nodes = table_.at(i, "nodes");
      const auto count = static_cast<std::size_t>(std::stoul(nodes));
      for (std::size_t node = 0; node < count; ++node) {
        const bool calibrated =
            (model == "gpt2" && nodes == "1") ||
            ((model == "nanogpt-7" || model == "gpt2-medium") && nodes == "3" && node == 1);
        const double program = node == 0 ? memory_.starter_bytes : memory_.secondary_bytes;
        const double cached = caches(model, nodes, node);
        const double bytes = program + memory_.copies * weights(model, nodes, node) + cached;
        report.rows.push_back({.keys = {model, nodes, std::to_string(node + 1)},
                               .quantity = "memory_gb",
                               .paper = paper_reading(table_, i, column(node)),
                               .tandem = Reading::number(bytes / kGB),
                               .calibrated = calibrated,
                               .aside = repeats_calibrated(model, nodes, node)
                                            ? ExperimentRow::Aside::follows
                                            : ExperimentRow::Aside::none});
        if (cached > 0.0) {
          report.rows.push_back({.keys = {model, nodes, std::to_string(node + 1)},
                                 .quantity = "caches_gb",
                                 .tandem = Reading::number(cached / kGB)});
        }
      }
      progress.advance(1);
    }
    for (const std::vector<std::int64_t>& blocks :
         {std::vector<std::int64_t>{48}, std::vector<std::int64_t>{22, 26}})
      add_not_available(report, blocks);
    return report;
  }

 private:
  // "GPT-2 XL cannot be fit in less than three devices" of 8 GB; Table V has its blocks on two.
  void add_not_available(ExperimentReport& report, const std::vector<std::int64_t>& blocks) const {
    const MdiRun run{.model = "gpt2-xl", .blocks = blocks, .caches = false};
    const planner::Plan plan = mdi_plan(boards_, {}, scenarios_.model(run.model), run);
    double most = 0.0;
    for (std::size_t node = 0; node < blocks.size(); ++node) {
      const double program = node == 0 ? memory_.starter_bytes : memory_.secondary_bytes;
      most = std::max(most, program + memory_.copies * model::weight_bytes(
                                                           plan.model, plan.devices[node].share));
    }
    const double board = boards_.devices().front().memory.value();
    report.rows.push_back(
        {.keys = {run.model, std::to_string(blocks.size()), "fullest"},
         .quantity = "memory_gb",
         .paper = Reading::out_of_memory(),
         .tandem = most > board ? Reading::out_of_memory() : Reading::number(most / kGB),
         .note = "fits its 8 GB by the constants of the nodes that ran; perhaps reading the model "
                 "needs more for a time than running it"});
  }

  // The third of three nodes whose second calibrates has as many blocks.
  [[nodiscard]] static bool repeats_calibrated(std::string_view model, std::string_view nodes,
                                               std::size_t node) {
    return (model == "nanogpt-7" || model == "gpt2-medium") && nodes == "3" && node == 2;
  }

  [[nodiscard]] static std::string gigabytes(double bytes) {
    return model::fixed(bytes / kGB, 3) + " GB";
  }
  [[nodiscard]] static std::string column(std::size_t node) {
    return "node" + std::to_string(node + 1) + "_gb";
  }
  [[nodiscard]] double paper(const std::string& model, const std::string& nodes,
                             std::size_t node) const {
    return paper_reading(table_, mdi_row(table_, model, nodes), column(node)).value;
  }
  [[nodiscard]] double weights(const std::string& model, const std::string& nodes,
                               std::size_t node) const {
    const MdiRun run = mdi_run(rates_, mdi_row(rates_, model, nodes));
    const planner::Plan plan = mdi_plan(boards_, {}, scenarios_.model(model), run);
    return model::weight_bytes(plan.model, plan.devices.at(node).share);
  }

  // Returns the bytes of all samples' keys and values on a node, in the weights' format.
  [[nodiscard]] double caches(const std::string& model, const std::string& nodes,
                              std::size_t node) const {
    const MdiRun run = mdi_run(rates_, mdi_row(rates_, model, nodes));
    if (!run.caches) return 0.0;
    const model::Transformer transformer = scenarios_.model(model);
    const std::int64_t numbers =
        transformer.cached_numbers({0, static_cast<std::int32_t>(transformer.heads)}) *
        run.blocks.at(node) * run.samples * (mdi_prompt(run) + run.tokens);
    constexpr double kHalf = 2.0;
    return (run.format == model::WeightFormat::f16 ? kHalf : model::kElementBytes) *
           static_cast<double>(numbers);
  }

  const Scenarios& scenarios_;
  model::Csv rates_;
  model::Csv table_;
  model::Cluster boards_;
  NodeMemory memory_{};
};

}  // namespace

ExperimentReport mdi_memory(const Scenarios& scenarios, Progress& progress) {
  return Nodes(scenarios).report(progress);
}

}  // namespace tandem::study
