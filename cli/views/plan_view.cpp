#include "cli/views/plan_view.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "cli/flags/outcome.hpp"
#include "cli/views/model_view.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/common/stages.hpp"

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

// Of many runs the first two.
std::string share_text(const model::LayerRuns& layers) {
  if (layers.run_count() == 1) return share_text(layers.run(0));
  const auto text = [](model::Range run) {
    return " [" + std::to_string(run.begin) + ", " + std::to_string(run.end) + ")";
  };
  return std::to_string(layers.size()) + text(layers.run(0)) + text(layers.run(1)) +
         (layers.run_count() > 2 ? " .. in " + std::to_string(layers.run_count()) + " runs" : "");
}

// A pair, or a list of pairs.
Json layers_json(const model::LayerRuns& layers) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < layers.run_count(); ++i)
    runs.push_back({layers.run(i).begin, layers.run(i).end});
  return layers.run_count() == 1 ? runs[0] : runs;
}

std::string allreduce_text(const planner::AllreduceChoice& allreduce) {
  if (allreduce.prompt.empty()) return "";
  if (allreduce.prompt == allreduce.decode) return ", all-reduce " + allreduce.prompt;
  return ", all-reduce " + allreduce.prompt + " (prompt), " + allreduce.decode + " (new tokens)";
}

// Of new tokens, whose keys and values are with `device`; `alone`: nobody shares their FFN.
std::string moves_text(planner::DecodeMoves moves, const std::string& device, bool alone) {
  std::string owner = "those of new tokens are with " + device;
  switch (moves) {
    case planner::DecodeMoves::queries:
      return owner + ", from which queries travel to the others";
    case planner::DecodeMoves::keys_each_step:
      return owner + ", to which the others' travel in every layer of every new token";
    case planner::DecodeMoves::keys_once:
      return "after it the others' travel to " + device + ", which keeps them all and " +
             (alone ? "computes" : "attends with") + " new tokens alone";
  }
  return owner;
}

// Who keeps which positions of the prompt.
// Of a plan for several requests: what devices have of a long sequence, and reserve.
void print_places(const planner::Plan& plan, std::ostream& out) {
  out << "\nevery device holds the whole model; a sequence's keys and values lie on one device, or "
         "on all if it is long: ";
  std::string text;
  for (const planner::PositionPart& part : planner::position_parts(plan)) {
    const auto d = static_cast<std::size_t>(part.device);
    const model::Range kept = plan.devices[d].share.part.positions;
    if (kept.empty()) continue;
    text += (text.empty() ? "" : ", ") + plan.cluster.devices()[d].name + " " +
            std::to_string(std::int64_t{100} * kept.size() / plan.workload.prompt_tokens) + "% (" +
            std::to_string(planner::served_blocks(plan, kept) * model::kCacheBlock) +
            " positions reserved)";
  }
  out << text << "; queries travel\n";
}

void print_positions(const planner::Plan& plan, std::ostream& out) {
  if (plan.capacity.sequences > 0) return print_places(plan, out);
  out << "\nevery device holds the whole model, and keys and values of some positions of the "
         "prompt: ";
  std::string last;
  std::string text;
  for (const planner::PositionPart& part : planner::position_parts(plan)) {
    const auto d = static_cast<std::size_t>(part.device);
    const model::Range kept = plan.devices[d].share.part.positions;
    const std::string& name = plan.cluster.devices()[d].name;
    text +=
        (text.empty() ? "" : ", ") + name + " " +
        (kept.empty() ? "none"
                      : "[" + std::to_string(kept.begin) + ", " + std::to_string(kept.end) + ")");
    last = name;
  }
  const bool alone = !planner::shares_token_ffn(plan);
  out << text << "; " << moves_text(plan.decode_moves, last, alone) << '\n';
  if (alone) return;
  text.clear();
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::Range columns = plan.devices[d].share.part.columns;
    if (columns.empty()) continue;
    text += (text.empty() ? "" : ", ") + plan.cluster.devices()[d].name + " [" +
            std::to_string(columns.begin) + ", " + std::to_string(columns.end) + ")";
  }
  out << "FFN columns of new tokens: " << text << '\n';
}

// The devices of each group of a level, in the order of a prompt's rows.
std::vector<std::vector<std::string>> level_groups(const planner::Plan& plan, std::int32_t level) {
  const planner::SparseAttention& sparse = *plan.sparse;
  std::vector<std::vector<std::string>> groups;
  for (std::size_t place = 0; place < sparse.order.size(); ++place) {
    if (sparse.group(level, place).begin == static_cast<std::int32_t>(place)) groups.emplace_back();
    groups.back().push_back(
        plan.cluster.devices()[static_cast<std::size_t>(sparse.order[place])].name);
  }
  return groups;
}

// What a level drops, by runs of layers that drop alike.
std::string dropped_text(const planner::Plan& plan, std::int32_t level) {
  const planner::SparseAttention& sparse = *plan.sparse;
  const auto layers = static_cast<std::int32_t>(plan.model.layers);
  const auto ratios = [&](std::int32_t layer) {
    std::string text;
    for (const model::Range heads : sparse.head_runs(layer, level, plan.model.kv_heads))
      text += (text.empty() ? "" : "/") +
              model::fixed(100.0 * sparse.dropped(layer, level, heads.begin), 1) + "%" +
              (heads.size() == plan.model.kv_heads ? ""
                                                   : " of heads [" + std::to_string(heads.begin) +
                                                         ", " + std::to_string(heads.end) + ")");
    return text;
  };
  std::string text;
  for (std::int32_t begin = 0, end = 0; begin < layers; begin = end) {
    const std::string of = ratios(begin);
    while (end < layers && ratios(end) == of) ++end;
    if (level == 1 ||
        !sparse.drop[static_cast<std::size_t>(begin)][static_cast<std::size_t>(level - 2)].drops())
      continue;
    text += (text.empty() ? "" : ", ") + of + " in layers [" + std::to_string(begin) + ", " +
            std::to_string(end) + ")";
  }
  return text.empty() ? "nothing" : text;
}

// Into how many tiles a level is cut, by runs of layers that are cut alike; empty: none is.
std::string tiles_text(const planner::SparseAttention& sparse, std::int32_t level) {
  const auto layers = static_cast<std::int32_t>(sparse.drop.size());
  std::string text;
  for (std::int32_t begin = 0, end = 0; level > 1 && begin < layers; begin = end) {
    const std::int32_t tiles = sparse.tiles_of(begin, level);
    while (end < layers && sparse.tiles_of(end, level) == tiles) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(tiles);
    if (end - begin < layers)
      text += " in layers [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
  }
  return text;
}

void print_levels(const planner::Plan& plan, std::ostream& out) {
  const std::string attend =
      std::string("attend to those before them in the groups of each level") +
      (plan.sparse->overlap ? ", which overlap: near ones count once at each level that has them, "
                              "so that even with nothing dropped the result is not one device's"
                            : "");
  if (planner::sharding_of(plan).sparse_by_rank()) {
    out << "\na prompt's rows, equal parts of devices that have both heads and FFN columns, "
        << attend
        << ". Each device attends with its own heads, to rows that are all there: what is dropped "
           "is computing, not messages. Of new tokens nothing is dropped\n\n";
  } else {
    out << "\nevery device holds the whole model; a prompt's rows lie on devices in proportion to "
           "FFN columns, and "
        << attend << ". New tokens are the master's: "
        << (plan.decode_moves == planner::DecodeMoves::keys_once
                ? "after the prompt all its keys and values travel to it, it computes alone"
                : "their queries travel to all devices")
        << ", and nothing is dropped\n\n";
  }
  const bool tiled = !plan.sparse->tiles.empty();
  std::vector<std::string> head{"level", "groups", "rows dropped"};
  if (tiled) head.emplace_back("tiles");
  model::Table table(head);
  for (std::int32_t level = 1; level <= plan.sparse->levels(); ++level) {
    std::string groups;
    for (const std::vector<std::string>& group : level_groups(plan, level)) {
      groups += groups.empty() ? "" : " / ";
      for (const std::string& name : group) groups += (&name == &group.front() ? "" : ", ") + name;
    }
    std::vector<std::string> row{std::to_string(level), groups, dropped_text(plan, level)};
    if (tiled) row.push_back(tiles_text(*plan.sparse, level));
    table.add(row);
  }
  table.print(out);
}

// A number, or one for each key/value head.
Json dropped_json(const planner::Plan& plan, std::int32_t layer, std::int32_t level) {
  const planner::SparseAttention& sparse = *plan.sparse;
  if (sparse.head_runs(layer, level, plan.model.kv_heads).size() <= 1)
    return sparse.dropped(layer, level, 0);
  Json parts = Json::array();
  for (std::int32_t head = 0; head < static_cast<std::int32_t>(plan.model.kv_heads); ++head)
    parts.push_back(sparse.dropped(layer, level, head));
  return parts;
}

Json levels_json(const planner::Plan& plan) {
  if (!plan.sparse) return {};
  Json levels = Json::array();
  for (std::int32_t level = 1; level <= plan.sparse->levels(); ++level) {
    Json drop = Json::array();
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer)
      drop.push_back(dropped_json(plan, layer, level));
    levels.push_back({{"groups", level_groups(plan, level)}, {"drop", drop}});
    if (level == 1 || plan.sparse->tiles.empty()) continue;
    Json& tiles = levels.back()["tiles"] = Json::array();
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer)
      tiles.push_back(plan.sparse->tiles_of(layer, level));
  }
  return levels;
}

// Of measured profiles that tell it: with how many threads devices compute.
std::string threads_text(const planner::Plan& plan) {
  std::map<int, std::string> devices;  // by number of threads
  for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
    if (plan.profiles[d].threads == 0) continue;
    std::string& names = devices[plan.profiles[d].threads];
    names += (names.empty() ? "" : ", ") + plan.cluster.devices()[d].name;
  }
  std::string text;
  for (const auto& [threads, names] : devices) {
    text += (text.empty() ? "" : "; ") + std::to_string(threads) +
            (threads == 1 ? " thread (" : " threads (") + names + ")";
  }
  return text;
}

}  // namespace

std::vector<model::MemoryUse> reserved_memory(const planner::Plan& plan) {
  std::vector<model::MemoryUse> memory;
  memory.reserve(plan.devices.size());
  for (const planner::DevicePlan& device : plan.devices) memory.push_back(device.memory);
  return memory;
}

void print_plan(const planner::Plan& plan, std::span<const model::MemoryUse> peaks,
                const std::string& path, std::ostream& out) {
  out << path << (path.empty() ? "" : ": ") << plan.model.name << " on " << plan.cluster.name()
      << ", strategy " << plan.strategy
      << (plan.partition.empty() ? "" : ", partition " + plan.partition)
      << allreduce_text(plan.allreduce) << ", master "
      << plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name << ", "
      << to_text(plan.workload);
  if (plan.model.formats != model::WeightFormats())
    out << ", weights in " << model::format_name(plan.model);
  if (plan.model.cache != model::CacheFormat::f32)
    out << ", keys and values in " << to_string(plan.model.cache);
  if (plan.wire != model::WireFormat::f32)
    out << ", activations travel as " << to_string(plan.wire);
  out << '\n' << model_remarks(plan.model, plan.workload.prompt_tokens) << '\n';
  if (plan.capacity.sequences > 1) {
    out << "memory for " << plan.capacity.sequences << " sequences at once, of "
        << plan.capacity.positions << " positions together, in steps of at most "
        << plan.capacity.rows << " rows"
        << (plan.capacity.steps > 1 ? ", " + std::to_string(plan.capacity.steps) + " in flight"
                                    : "")
        << "; lengths are those of a typical request\n\n";
  }
  const bool splits_head = planner::splits_head(plan);
  std::vector<std::string> columns{"device",  "layers",  "heads",    "FFN columns",
                                   "window",  "weights", "kv cache", "activations",
                                   "buffers", "program", "total",    "budget"};
  if (splits_head) columns.insert(columns.begin() + 4, "LM head");
  model::Table table(columns);
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = peaks[i];
    const model::Device& device = plan.cluster.devices()[i];
    std::vector<std::string> row{device.name,
                                 share_text(share.layers),
                                 share_text(share.computed_heads()),
                                 share_text(share.computed_columns()),
                                 window_text(plan.devices[i].window),
                                 to_text(Bytes{memory.weights}),
                                 to_text(Bytes{memory.kv_cache}),
                                 to_text(Bytes{memory.activations}),
                                 to_text(Bytes{memory.buffers}),
                                 to_text(Bytes{memory.program}),
                                 to_text(Bytes{memory.total()}),
                                 to_text(device.memory)};
    if (splits_head) row.insert(row.begin() + 4, share_text(share.vocabulary));
    table.add(row);
  }
  table.print(out);
  if (const std::string threads = threads_text(plan); !threads.empty()) {
    out << "\nprofiles are of " << threads
        << ": so many threads are to compute; '--threads' chooses others that were measured\n";
  }
  if (splits_head) {
    out << "\nthe LM head is split: every device with rows of it computes logits of each new token "
           "and knows the hidden state that they are of; with '--head master' prompt, logits and "
           "tokens stay at the master\n";
    if (plan.candidates > 0) {
      out << "each sends the best " << plan.candidates
          << " of its logits: they suffice at temperature 0 and for a top-k of at most "
          << plan.candidates << "; with '--candidates none' all are sent\n";
    }
  }
  if (plan.sparse) {
    print_levels(plan, out);
  } else if (plan.gather_weights) {
    out << "\nevery device holds its heads and FFN columns alone and computes new tokens with "
           "them; "
           "of a prompt's rows it has a part in proportion to its columns, and the others' weights "
           "travel to it, a layer ahead\n";
  } else if (planner::sharding_of(plan).divides_work()) {
    out << "\nevery device holds the whole model; heads and FFN columns are those that it computes "
           "of new tokens, and of a prompt's rows it has a part in proportion to its columns\n";
  }
  if (planner::sharding_of(plan).splits_positions()) print_positions(plan, out);
  if (const std::string varies = variation(plan.cluster); !varies.empty()) {
    out << "\nplanned as if constant, which is not: " << varies
        << " (simulate on SimGrid knows of it)\n";
  }
}

Json summary_json(const planner::Plan& plan, std::span<const model::MemoryUse> peaks,
                  const std::string& path) {
  Json json{{"plan", path},
            {"sha256", planner::plan_sha256(plan)},
            {"strategy", plan.strategy},
            {"partition", plan.partition},
            {"allreduce", {{"prompt", plan.allreduce.prompt}, {"decode", plan.allreduce.decode}}},
            {"dtype", model::format_name(plan.model)},
            {"cache_type", to_string(plan.model.cache)},
            {"wire_type", to_string(plan.wire)},
            {"head", planner::splits_head(plan) ? "split" : "master"},
            {"candidates", plan.candidates > 0 ? Json(plan.candidates) : Json()},
            {"levels", levels_json(plan)},
            {"levels_overlap", plan.sparse ? Json(plan.sparse->overlap) : Json()},
            {"devices", Json::array()}};
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const model::Share& share = plan.devices[i].share;
    const model::MemoryUse& memory = peaks[i];
    const int threads = plan.profiles[i].threads;
    json["devices"].push_back({{"name", plan.cluster.devices()[i].name},
                               {"layers", layers_json(share.layers)},
                               {"heads", share.computed_heads().size()},
                               {"columns", share.computed_columns().size()},
                               {"positions", share.part.positions.size()},
                               {"head_rows", model::head_rows(plan.model, share).size()},
                               {"window_blocks", plan.devices[i].window.blocks},
                               {"retain", plan.devices[i].window.retain},
                               {"threads", threads > 0 ? Json(threads) : Json()},
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

}  // namespace tandem::cli
