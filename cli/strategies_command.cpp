// tandem strategies: what each strategy shards.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/namesakes.hpp"
#include "planner/strategy/common/sharding_text.hpp"

namespace tandem::cli {
namespace {

// Beside the strategy's name.
struct Column {
  std::string_view heading;
  std::string_view key;  // in JSON
  std::string (*text)(const planner::Strategy& strategy);
};

template <auto kText>
std::string of_sharding(const planner::Strategy& strategy) {
  return std::string(kText(strategy.sharding));
}

constexpr std::array kColumns{
    Column{"weights", "weights", of_sharding<planner::weights_text>},
    Column{"prompt rows", "prompt_rows", of_sharding<planner::prefill_text>},
    Column{"KV cache", "kv_cache", of_sharding<planner::cache_text>},
    Column{"new tokens", "new_tokens", of_sharding<planner::decode_text>},
    Column{"exchange of a layer", "layer_exchange", of_sharding<planner::exchange_text>},
    Column{"as in", "as_in", planner::namesakes_of}};

void print_json(std::ostream& out) {
  auto rows = nlohmann::ordered_json::array();
  for (const planner::Strategy& strategy : planner::strategies()) {
    nlohmann::ordered_json row{{"name", strategy.name}};
    for (const Column& column : kColumns) row[std::string(column.key)] = column.text(strategy);
    rows.push_back(row);
  }
  out << rows.dump(2) << '\n';
}

void print_markdown(std::ostream& out) {
  out << "| `--strategy` |";
  for (const Column& column : kColumns) out << ' ' << column.heading << " |";
  out << "\n|---|";
  for (std::size_t i = 0; i < kColumns.size(); ++i) out << "---|";
  for (const planner::Strategy& strategy : planner::strategies()) {
    out << "\n| `" << strategy.name << "` |";
    for (const Column& column : kColumns) out << ' ' << column.text(strategy) << " |";
  }
  out << '\n';
}

// All columns are words: aligned to the left.
void print_table(std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"strategy"}};
  for (const Column& column : kColumns) rows[0].emplace_back(column.heading);
  for (const planner::Strategy& strategy : planner::strategies()) {
    rows.push_back({strategy.name});
    for (const Column& column : kColumns) rows.back().emplace_back(column.text(strategy));
  }
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t c = 0; c + 1 < row.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[c].size());
      out << row[c] << std::string(width + 2 - row[c].size(), ' ');
    }
    out << row.back() << '\n';
  }
}

}  // namespace

int strategies_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "strategies",
       .summary =
           "Prints what each value of 'tandem plan --strategy' shards: weights, rows of a\n"
           "prompt, KV cache, who computes new tokens, what a layer exchanges, and papers and\n"
           "programs that it corresponds to.",
       .positionals = {},
       .flags = {{"json", "", "print the table as JSON"},
                 {"markdown", "", "print the table as Markdown"}}},
      arguments);
  const bool json = options.has("json");
  if (json) options.refuse({"markdown"}, "with '--json'");
  const bool markdown = !json && options.has("markdown");
  options.settle();
  if (json) {
    print_json(out);
  } else if (markdown) {
    print_markdown(out);
  } else {
    print_table(out);
  }
  return 0;
}

}  // namespace tandem::cli
