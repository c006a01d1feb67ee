#include "cli/terminal/plan_view.hpp"

#include <ostream>

#include "cli/flags/outcome.hpp"
#include "model/quantity_text.hpp"
#include "model/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Bytes;

std::string window_text(planner::Window window) {
  if (!window.streams()) return "all";
  std::string text = std::to_string(window.blocks);
  if (window.retain > 0) text += ", FFN 1 in " + std::to_string(window.retain);
  return text;
}

std::string share_text(model::Range range) {
  if (range.empty()) return "-";
  return std::to_string(range.size()) + " [" + std::to_string(range.begin) + ", " +
         std::to_string(range.end) + ")";
}

std::string allreduce_text(const planner::AllreduceChoice& allreduce) {
  if (allreduce.prompt.empty()) return "";
  if (allreduce.prompt == allreduce.decode) return ", all-reduce " + allreduce.prompt;
  return ", all-reduce " + allreduce.prompt + " (prompt), " + allreduce.decode + " (new tokens)";
}

}  // namespace

void print_plan(const planner::Plan& plan, const std::string& path, std::ostream& out) {
  out << path << (path.empty() ? "" : ": ") << plan.model.name << " on " << plan.cluster.name()
      << ", strategy " << plan.strategy
      << (plan.partition.empty() ? "" : ", partition " + plan.partition)
      << allreduce_text(plan.allreduce) << ", master "
      << plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name << ", "
      << to_text(plan.workload);
  if (plan.model.formats != model::WeightFormats())
    out << ", weights in " << plan.model.formats.text();
  out << "\n\n";
  if (plan.capacity.sequences > 1) {
    out << "memory for " << plan.capacity.sequences << " sequences at once, of "
        << plan.capacity.positions << " positions together, in steps of at most "
        << plan.capacity.rows << " rows"
        << (plan.capacity.steps > 1 ? ", " + std::to_string(plan.capacity.steps) + " in flight"
                                    : "")
        << "; lengths are those of a typical request\n\n";
  }
  model::Table table({"device", "layers", "heads", "FFN columns", "window", "weights", "kv cache",
                      "activations", "buffers", "program", "total", "budget"});
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = plan.devices[i].memory;
    const model::Device& device = plan.cluster.devices()[i];
    table.add({device.name, share_text(share.layers), share_text(share.heads),
               share_text(share.columns), window_text(plan.devices[i].window),
               to_text(Bytes{memory.weights}), to_text(Bytes{memory.kv_cache}),
               to_text(Bytes{memory.activations}), to_text(Bytes{memory.buffers}),
               to_text(Bytes{memory.program}), to_text(Bytes{memory.total()}),
               to_text(device.memory)});
  }
  table.print(out);
  if (const std::string varies = variation(plan.cluster); !varies.empty()) {
    out << "\nplanned as if constant, which is not: " << varies
        << " (simulate on SimGrid knows of it)\n";
  }
}

Json summary_json(const planner::Plan& plan, const std::string& path) {
  Json json{{"plan", path},
            {"sha256", planner::plan_sha256(plan)},
            {"strategy", plan.strategy},
            {"partition", plan.partition},
            {"allreduce", {{"prompt", plan.allreduce.prompt}, {"decode", plan.allreduce.decode}}},
            {"dtype", plan.model.formats.text()},
            {"devices", Json::array()}};
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = plan.devices[i].memory;
    json["devices"].push_back({{"name", plan.cluster.devices()[i].name},
                               {"layers", {share.layers.begin, share.layers.end}},
                               {"heads", share.heads.size()},
                               {"columns", share.columns.size()},
                               {"window_blocks", plan.devices[i].window.blocks},
                               {"retain", plan.devices[i].window.retain},
                               {"weights_bytes", memory.weights},
                               {"kv_cache_bytes", memory.kv_cache},
                               {"activations_bytes", memory.activations},
                               {"buffers_bytes", memory.buffers},
                               {"program_bytes", memory.program},
                               {"total_bytes", memory.total()},
                               {"budget_bytes", plan.cluster.devices()[i].memory.value()}});
  }
  return json;
}

void print_choice(const planner::StrategyChoice& choice, std::ostream& out) {
  const planner::Contender& first = choice.contenders.front();
  out << "\nstrategy " << first.plan.strategy << ": predicted request "
      << to_text(model::Seconds{first.seconds});
  for (std::size_t i = 1; i < choice.contenders.size(); ++i) {
    const planner::Contender& other = choice.contenders[i];
    const double longer = (other.seconds / first.seconds - 1.0) * 100.0;
    out << (i == 1 ? "; next " : ", ") << other.plan.strategy << " "
        << to_text(model::Seconds{other.seconds}) << " (" << model::fixed(longer, 0) << "% longer)";
  }
  out << '\n';
  if (choice.contenders.size() > 1) out << planner::why_first(choice) << '\n';
  for (const auto& [strategy, reason] : choice.without)
    out << "not " << strategy << ": " << reason << '\n';
}

Json choice_json(const planner::StrategyChoice& choice) {
  Json json{{"contenders", Json::array()},
            {"without", Json::array()},
            {"reason", choice.contenders.size() > 1 ? Json(planner::why_first(choice)) : Json()}};
  for (const planner::Contender& one : choice.contenders)
    json["contenders"].push_back({{"strategy", one.plan.strategy}, {"request_s", one.seconds}});
  for (const auto& [strategy, reason] : choice.without)
    json["without"].push_back({{"strategy", strategy}, {"reason", reason}});
  return json;
}

}  // namespace tandem::cli
