// tandem workload: draws requests as they arrive at a service.

#include <algorithm>
#include <charconv>
#include <optional>
#include <ostream>
#include <string>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "planner/serving/drawn_requests.hpp"

namespace tandem::cli {
namespace {

constexpr std::int64_t kMostRequests = 10000;  // of a workload file
constexpr double kMostRate = 1e6;              // requests a second
constexpr double kMostTokens = 1e9;

std::optional<double> tokens_of(std::string_view text) {
  double value = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= 1.0 && value <= kMostTokens)) return std::nullopt;
  return value;
}

// "M:P", or "N" of lengths that are all the same.
planner::DrawnLengths lengths_flag(const Options& options, std::string_view flag) {
  const std::string text = options.required(flag);
  const std::size_t colon = text.find(':');
  const auto median = tokens_of(std::string_view(text).substr(0, colon));
  const auto p99 =
      colon == std::string::npos ? median : tokens_of(std::string_view(text).substr(colon + 1));
  if (!median || !p99 || *p99 < *median)
    throw Error("flag '--" + std::string(flag) + "': '" + text +
                "', expected a number of tokens from 1 to 1000000000, or a median and a 99th "
                "percentile that is no less, such as 100:400");
  return {.median = *median, .p99 = *p99};
}

// Rows of scenarios/workloads/lengths.csv.
class DataSets {
 public:
  DataSets()
      : path_((resource_folder("scenarios") / "workloads" / "lengths.csv").string()),
        table_(model::parse_csv(read_file(path_), path_)) {}

  void read(const Options& options, planner::RequestDraw& draw) const {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < table_.rows.size(); ++i) names.push_back(table_.at(i, "name"));
    const std::string name = options.choice_or("lengths", "", names);
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      if (table_.at(i, "name") != name) continue;
      draw.prompt = {.median = tokens(i, "prompt_median"), .p99 = tokens(i, "prompt_p99")};
      draw.output = {.median = tokens(i, "new_median"), .p99 = tokens(i, "new_p99")};
    }
  }

 private:
  [[nodiscard]] double tokens(std::size_t row, std::string_view column) const {
    const auto value = tokens_of(table_.at(row, column));
    if (!value)
      throw Error(path_ + ": '" + table_.at(row, column) + "' in column " + std::string(column) +
                  ", expected a number of tokens; restore the file from the sources");
    return *value;
  }

  std::string path_;
  model::Csv table_;
};

void read_lengths(const Options& options, planner::RequestDraw& draw) {
  if (options.has("lengths")) {
    options.refuse({"prompt-tokens", "new-tokens"}, "with '--lengths', which says both");
    DataSets().read(options, draw);
  } else {
    draw.prompt = lengths_flag(options, "prompt-tokens");
    draw.output = lengths_flag(options, "new-tokens");
  }
  const double scale = options.number_or("scale", 1.0, 1e-9, 1e9);
  draw.prompt.median = std::max(1.0, scale * draw.prompt.median);
  draw.prompt.p99 = std::max(1.0, scale * draw.prompt.p99);
}

}  // namespace

int workload_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "workload",
       .summary = "Draws a workload: requests that arrive as a Poisson process, with log-normal\n"
                  "lengths of a median and a 99th percentile. For '--workload' of 'tandem plan',\n"
                  "'simulate' and 'run'.",
       .positionals = {},
       .flags = {{"requests", "N", "how many, 1 to 10000 (required)"},
                 {"rate", "R", "requests a second, in the mean (required)"},
                 {"lengths", "NAME", "lengths of a data set: needlebench, bookcorpus"},
                 {"prompt-tokens", "M:P", "instead: prompts' median and 99th percentile, or N"},
                 {"new-tokens", "M:P", "and those of new tokens"},
                 {"scale", "X", "prompts X times as long, as for a smaller context [1]"},
                 {"model", "M", "keep within its context, drawing again what is longer"},
                 {"ids", "", "draw prompts' tokens too, of the model's vocabulary, for 'run'"},
                 {"seed", "S", "of the draws [1]"},
                 {"out", "FILE", "write it there instead of printing it"}}},
      arguments);
  (void)options.required("requests");
  (void)options.required("rate");
  const auto path = options.text("out");
  const bool to_file = path && *path != "-";
  if (to_file) {
    FileRoles files;
    if (const auto model = options.text("model"))
      files.reads("flag '--model'", find_config(*model));
    files.writes(options, "out");
    files.check();
  }
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 62;
  planner::RequestDraw draw{
      .count = options.integer_or("requests", 1, 1, kMostRequests),
      .rate = options.number_or("rate", 1.0, 1e-6, kMostRate),
      .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, kMaxSeed))};
  read_lengths(options, draw);
  if (const auto name = options.text("model")) {
    const model::Transformer transformer = load_model(*name);
    if (!transformer.architecture().generates())
      throw Error("model '" + transformer.name +
                  "': an encoder makes no new tokens; expected a decoder");
    draw.most = transformer.max_context;
    if (options.has("ids")) draw.vocabulary = static_cast<std::int32_t>(transformer.vocab);
  } else {
    options.refuse({"ids"}, "without '--model', of whose vocabulary they are");
  }
  options.settle();
  const std::string text = planner::to_json_lines(planner::drawn_requests(draw));
  deliver({.file = to_file ? path : std::nullopt, .to_output = !to_file}, text, out);
  return 0;
}

}  // namespace tandem::cli
