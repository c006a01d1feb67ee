#include "cli/loss_answers.hpp"

#include <algorithm>
#include <utility>

#include "advice/prediction.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/serving/service_objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {
namespace {

// The profiles of the plan's devices, with rates over every cache.
std::vector<model::DeviceProfile> all_rates(const planner::Plan& plan,
                                            const planner::Request& request) {
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : plan.cluster.devices()) {
    const auto& devices = request.cluster.devices();
    const auto at = std::ranges::find(devices, device.name, &model::Device::name);
    require(at != devices.end(), "all_rates: a device of the request");
    profiles.push_back(request.profiles.empty()
                           ? model::nominal_profile(*at)
                           : request.profiles[static_cast<std::size_t>(at - devices.begin())]);
  }
  return profiles;
}

class TypeOptions {
 public:
  TypeOptions(const planner::Plan& plan, const planner::Request& request,
              const std::optional<Served>& served)
      : plan_(plan), profiles_(all_rates(plan, request)), objective_(request.objective) {
    if (served) served_ = for_prediction(*served);
  }

  // Returns the seconds of the plan with these types; nothing if it is impossible.
  [[nodiscard]] std::optional<double> seconds(model::WireFormat wire,
                                              model::CacheFormat cache) const {
    planner::Plan other = plan_;
    other.wire = wire;
    other.model.cache = cache;
    for (std::size_t d = 0; d < profiles_.size(); ++d)
      other.profiles[d] = model::for_formats(profiles_[d], plan_.model.formats, cache);
    try {
      other.model.validate();
      other = planner::with_predicted_memory(std::move(other));
      if (!planner::fits(other)) return std::nullopt;
      return planner::service_time(study::predict_fairly(other, served_ ? &*served_ : nullptr),
                                   objective_);
    } catch (const Error&) {  // the heads fill no blocks, or a profile lacks a rate
      return std::nullopt;
    }
  }

 private:
  const planner::Plan& plan_;
  std::vector<model::DeviceProfile> profiles_;
  planner::Objective objective_;
  std::optional<study::ServedWorkload> served_{};
};

}  // namespace

planner::PlanLoss loss_of_plan(const planner::Plan& plan, const PricedFormats& priced, double most,
                               double dropping) {
  const planner::FormatLosses formats = planner::losses_of(plan, priced.loss.prices);
  return {.most = most, .messages = formats.messages, .cache = formats.cache, .dropping = dropping};
}

LossAnswer loss_answer(const planner::Plan& plan, const planner::PlanLoss& loss,
                       const PricedFormats& priced, const planner::Request& request,
                       const std::optional<Served>& served, const model::Result& predicted) {
  LossAnswer answer{.loss = loss, .source = priced.loss.source, .remarks = priced.remarks};
  for (std::string& remark : priced.loss.remarks(plan)) answer.remarks.push_back(std::move(remark));
  const TypeOptions types(plan, request, served);
  const planner::FormatPrices& prices = priced.loss.prices;
  const double planned = planner::service_time(predicted, request.objective);
  const auto add = [&](std::string what, std::string_view type, std::optional<double> price,
                       double others, bool selected, std::optional<double> seconds) {
    answer.options.push_back({.what = std::move(what),
                              .type = std::string(type),
                              .loss = price,
                              .seconds = selected ? planned : seconds,
                              .selected = selected,
                              .within = price && planner::is_within(*price + others, loss.most)});
  };
  using enum model::WireFormat;
  if (plan.cluster.size() > 1 && !planner::sharding_of(plan).is_local()) {
    for (const model::WireFormat wire : {f32, bf16, q8_0}) {
      const bool selected = wire == plan.wire;
      add("messages", to_string(wire), prices.of(wire), loss.cache + loss.dropping, selected,
          selected ? std::nullopt : types.seconds(wire, plan.model.cache));
    }
  }
  if (!plan.model.architecture().generates()) return answer;
  for (const model::CacheFormat cache : model::kCacheFormats) {
    const bool selected = cache == plan.model.cache;
    add("cache", to_string(cache), prices.of(cache), loss.messages + loss.dropping, selected,
        selected ? std::nullopt : types.seconds(plan.wire, cache));
  }
  return answer;
}

}  // namespace tandem::cli
