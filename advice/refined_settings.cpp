#include "advice/refined_settings.hpp"

#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

constexpr double kNearlyAsFast = 1.0 / 1.3;
constexpr std::ptrdiff_t kMostRefined = 4;  // devices

}  // namespace

std::optional<Setting> gathered(Answers& answers, const Question& question, Setting setting,
                                double least) {
  const planner::Request& request = question.request;
  const bool is_given = question.keeps_axes && (request.gather_weights || request.sparse);
  if (!setting.strategy->sharding.gather_weights || is_given || setting.size() < 2 ||
      request.window.blocks.value_or(0) > 0)
    return std::nullopt;
  setting.gathers_weights = true;
  setting.any_sums = false;
  setting.thorough = false;
  if (answers.seconds(setting) * kNearlyAsFast > least) return std::nullopt;
  setting.thorough = true;
  return setting;
}

std::optional<Setting> for_tiles(const Question& question, Setting setting, std::int32_t tiles) {
  const bool is_given =
      question.keeps_axes && (question.request.tiles.has_value() || question.request.sparse);
  if (!setting.strategy->sharding.splits_heads() || is_given || tiles < 2) return std::nullopt;
  setting.thorough = true;
  setting.any_sums = false;
  setting.tiles = tiles;
  return setting;
}

std::optional<Setting> refined(const Question& question, Setting setting, bool streams) {
  const planner::OpenAxes& given = question.request.open_axes;
  const planner::Sharding& sharding = setting.strategy->sharding;
  const auto is_open = [&](bool axis) { return !question.keeps_axes || axis; };
  const bool parts = is_open(given.parts) && sharding.replicates() && sharding.has_partition() &&
                     !setting.gathers_weights && !question.served;
  const bool at_length = is_open(given.at_length);
  const bool stages = at_length && is_open(given.stages) && sharding.splits_layers();
  const bool sums = at_length && is_open(given.sums) && sharding.splits_heads() && streams;
  if (!(parts || stages || sums) || setting.size() < 2 || setting.size() > kMostRefined)
    return std::nullopt;
  setting.thorough = true;
  setting.any_sums = false;
  setting.refines = true;
  return setting;
}

Setting quickest(const Question& question, Setting setting) {
  const planner::Request& request = question.request;
  const bool is_given = question.keeps_axes && (request.tiles || request.sparse);
  setting.thorough = false;
  if (setting.strategy->sharding.exchanges_rows() && !is_given) setting.tiles = 1;
  return setting;
}

}  // namespace tandem::study
