#include "cli/flags/loss.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMostLoss = 64.0;
constexpr const char* kMeasure = "measure it with scenarios/models/train/sparse_loss.py";
constexpr const char* kMeasureFormats =
    "measure them with scenarios/models/train/format_loss.py --model DIR";

// By the file's last bytes: training changes all of them.
std::string tail_digest(const fs::path& path, std::int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  const std::int64_t size = std::min(bytes, planner::kTailBytes);
  std::string tail(static_cast<std::size_t>(size), '\0');
  file.seekg(bytes - size);
  file.read(tail.data(), size);
  if (!file) throw Error(path.string() + ": cannot be read; check its permissions");
  return model::sha256_hex(tail);
}

void check_weights(const std::vector<planner::WeightsFile>& files, const std::string& source,
                   const fs::path& weights, const char* remedy) {
  for (const planner::WeightsFile& measured : files) {
    const bool folder = fs::is_directory(weights);
    const fs::path path = folder ? weights / measured.name : weights;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    const bool same = !error && path.filename() == measured.name &&
                      static_cast<std::int64_t>(bytes) == measured.bytes &&
                      tail_digest(path, measured.bytes) == measured.tail_sha256;
    if (same) continue;
    throw Error(source + ": measured with other weights, " + measured.name + " of " +
                std::to_string(measured.bytes) + " bytes, than " + path.string() + ", expected " +
                "those of the model; " + remedy);
  }
}

bool has_weights(const fs::path& weights) {
  std::error_code ignored;
  if (!fs::is_directory(weights, ignored)) return weights.extension() == ".gguf";
  return std::any_of(
      fs::directory_iterator(weights), fs::directory_iterator(),
      [](const fs::directory_entry& entry) { return entry.path().extension() == ".safetensors"; });
}

// Checks that a loss, `subject`, was measured with `weights`. Returns a remark if there are none to
// compare with. Throws Error for other ones.
std::vector<std::string> compared_weights(const std::vector<planner::WeightsFile>& files,
                                          const std::string& subject, const std::string& model,
                                          const std::string& source, const fs::path& weights,
                                          const char* remedy) {
  if (!has_weights(weights))
    return {subject + " of " + model + "'s weights, which are not there to be compared"};
  check_weights(files, source, weights, remedy);
  return {};
}

}  // namespace

std::vector<Flag> loss_flags() {
  return {
      {"max-loss", "X",
       "the fastest plan that loses at most X bits per byte of text by its messages' and cache's "
       "types, as measured of the model; csps: by what is dropped, too, for the least time to "
       "the first token"},
      {"max-ttft", "TIME",
       "csps: levels and ratios of the least loss among those with a first token within TIME, "
       "as 2s"},
      {"loss-model", "FILE",
       "csps with --max-loss, --max-ttft: the measured loss of dropping [eval/sparse_loss.json "
       "of the model]"},
      {"format-loss", "FILE",
       "with --max-loss: the measured losses of types [eval/format_loss.json of the model]"}};
}

std::vector<Flag> type_bound_flags() {
  return {
      {"max-loss", "X",
       "no change of types that makes the plan lose more than X bits per byte of text, as "
       "measured of the model [as planned, else no bound]"},
      {"format-loss", "FILE", "the measured losses of types [eval/format_loss.json of the model]"}};
}

std::optional<Bounded> bounded_of(const Options& options, const planner::Strategy& strategy,
                                  const fs::path& weights) {
  if (!strategy.sharding.measures_losses()) {
    options.refuse({"max-ttft", "loss-model"},
                   "with strategy '" + strategy.name + "', expected strategy " +
                       planner::strategies_that(&planner::Sharding::measures_losses));
    return std::nullopt;
  }
  if (!options.has("max-loss") && !options.has("max-ttft")) {
    options.refuse({"loss-model"}, "without '--max-loss' or '--max-ttft'");
    return std::nullopt;
  }
  if (options.has("max-loss") && options.has("max-ttft"))
    throw Usage(
        "flags '--max-loss' and '--max-ttft' each make least what the other bounds, expected one; "
        "give '--max-loss' for the least time, or '--max-ttft' for the least loss");
  Bounded bounded{.flag = options.has("max-loss") ? "max-loss" : "max-ttft"};
  const std::string with = "with '--" + bounded.flag + "'";
  options.refuse({"drop"}, with + ", which chooses the ratios");
  options.refuse({"levels-overlap"},
                 with + ", as losses are measured of levels that do not overlap");
  options.refuse({"objective"}, with + ", which says what is to be short");
  options.refuse({"tiles"}, with + ", as rows that are kept travel at once");
  options.refuse({"workload", "samples"}, with + ", expected one request");
  if (options.has("max-loss")) {
    bounded.bounds.loss = options.number_or("max-loss", 0.0, 0.0, kMostLoss);
  } else {
    const model::Seconds time =
        model::parse_seconds(options.required("max-ttft"), "flag '--max-ttft'");
    if (time.value() <= 0.0)
      throw Error("flag '--max-ttft': '" + options.required("max-ttft") +
                  "', expected more than 0; give a time as '2s'");
    bounded.bounds.ttft_s = time.value();
  }
  if (const std::string levels = options.text_or("levels", "2");
      levels == "auto" || levels == "none")
    throw Usage("flag '--levels': '" + levels + "' " + with +
                ", which chooses them; expected a number, 2 to " +
                std::to_string(planner::kMostLevels) + ", or leave it out");
  if (options.has("levels"))
    bounded.bounds.levels =
        static_cast<std::int32_t>(options.integer_or("levels", 2, 2, planner::kMostLevels));
  const auto given = options.text("loss-model");
  bounded.file = given ? fs::path(*given) : weights / "eval" / "sparse_loss.json";
  std::error_code ignored;
  if (!given && !fs::exists(bounded.file, ignored))
    throw Error("flag '--" + bounded.flag + "': " + bounded.file.string() +
                " is not there, expected what dropping costs the model, as measured; " + kMeasure +
                ", or give '--loss-model FILE'");
  return bounded;
}

std::optional<FormatBound> format_bound_of(const Options& options,
                                           const planner::Strategy& strategy,
                                           const fs::path& weights) {
  if (!options.has("max-loss")) {
    options.refuse({"format-loss"}, "without '--max-loss'");
    return std::nullopt;
  }
  const bool sends = !strategy.sharding.is_local();
  if (options.text_or("cache-type", "") == "f32" &&
      (!sends || options.text_or("wire-type", "") == "f32")) {
    options.refuse({"format-loss"}, "with messages and cache in f32, which lose nothing");
    if (!strategy.sharding.measures_losses())
      options.refuse({"max-loss"}, "with messages and cache in f32, which lose nothing");
    return std::nullopt;
  }
  const auto given = options.text("format-loss");
  FormatBound bound{.most = options.number_or("max-loss", 0.0, 0.0, kMostLoss),
                    .file = given ? fs::path(*given) : weights / "eval" / "format_loss.json"};
  std::error_code ignored;
  if (!given && !fs::exists(bound.file, ignored))
    throw Error("flag '--max-loss': " + bound.file.string() +
                " is not there, expected what messages and cache in fewer bits cost the model '" +
                weights.string() + "', as measured; " + kMeasureFormats +
                ", give '--format-loss FILE', or '--wire-type f32 --cache-type f32'");
  return bound;
}

PricedFormats priced_formats(const fs::path& file, const fs::path& weights,
                             const model::Transformer& transformer) {
  PricedFormats priced{.loss = planner::parse_format_loss(read_file(file), file.string())};
  priced.loss.check_model(transformer);
  const planner::FormatLoss& loss = priced.loss;
  priced.remarks = compared_weights(loss.weights, "the losses of types are those", loss.model.name,
                                    loss.source, weights, kMeasureFormats);
  return priced;
}

std::optional<planner::FormatPrices> known_prices(const fs::path& weights,
                                                  const model::Transformer& transformer,
                                                  std::string& remark) {
  const fs::path file = weights / "eval" / "format_loss.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    return priced_formats(file, weights, transformer).loss.prices;
  } catch (const Error& error) {
    remark = "free changes have no measured price: " + std::string(error.what());
    return std::nullopt;
  }
}

TypeBound type_bound_of(const Options& options, const planner::PlanFile& file) {
  const planner::Plan& plan = file.plan;
  const fs::path weights = find_weights(plan.model.name);
  const auto given = options.text("format-loss");
  const fs::path losses = given ? fs::path(*given) : weights / "eval" / "format_loss.json";
  std::error_code ignored;
  const bool known = given || fs::exists(losses, ignored);
  TypeBound bound;
  if (options.has("max-loss")) {
    bound.most = options.number_or("max-loss", 0.0, 0.0, kMostLoss);
    if (!known)
      throw Error("flag '--max-loss': no measured losses of model '" + plan.model.name +
                  "', expected what messages and cache in fewer bits cost it; " + kMeasureFormats +
                  ", and give '--format-loss FILE'");
  } else if (file.loss) {
    bound.most = file.loss->most;
  }
  if (bound.most && file.loss) bound.most = *bound.most - file.loss->dropping;
  if (!known) return bound;
  if (!bound.most && !given) {  // prices are shown, nothing needs them
    std::string ignored_remark;
    bound.prices = known_prices(weights, plan.model, ignored_remark);
    return bound;
  }
  PricedFormats priced = priced_formats(losses, weights, plan.model);
  bound.prices = std::move(priced.loss.prices);
  if (bound.most) bound.remarks = std::move(priced.remarks);
  return bound;
}

MeasuredLoss measured_loss(const Bounded& bounded, const fs::path& weights) {
  MeasuredLoss measured{
      .model = planner::parse_loss_model(read_file(bounded.file), bounded.file.string())};
  const planner::LossModel& loss = measured.model;
  measured.remarks = compared_weights(loss.weights, "the loss is that", loss.model.name,
                                      loss.source, weights, kMeasure);
  return measured;
}

}  // namespace tandem::cli
