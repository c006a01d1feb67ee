#include <algorithm>
#include <string>
#include <utility>

#include "planner/search/affordable_types.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/open_type.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// f32 takes more memory, so it must save at least this part of the time.
constexpr double kWorthIt = 1.0 - 1e-3;

// Whether attention takes longer over a key or value of `kept` than over one in f32, at any reuse
// that the profile measured.
bool is_slower(const model::DeviceProfile& profile, model::CacheFormat kept) {
  const model::KindRate* const narrow =
      profile.rate_of(model::TaskKind::attend, model::rated_as(kept));
  const model::KindRate* const whole =
      profile.rate_of(model::TaskKind::attend, model::WeightFormat::f32);
  if (narrow == nullptr || whole == nullptr) return false;
  constexpr double kNumbers = 1e6;
  const auto seconds = [](const model::KindRate& rate, model::CacheFormat format,
                          double intensity) {
    return task_seconds(rate, kNumbers * cache_number_bytes(format), intensity);
  };
  const auto at = [&](const model::RatePoint& point) {
    return seconds(*narrow, kept, point.intensity) * kWorthIt >
           seconds(*whole, model::CacheFormat::f32, point.intensity);
  };
  return std::ranges::any_of(narrow->points, at) || std::ranges::any_of(whole->points, at);
}

bool cache_open(const Draft& draft) {
  const Request& request = draft.request;
  if (request.budget) return request.open.cache;
  return request.open.cache && request.model.cache != model::CacheFormat::f32 &&
         std::ranges::any_of(request.profiles, [&](const model::DeviceProfile& profile) {
           return is_slower(profile, request.model.cache);
         });
}

void walk_affordable_caches(const Draft& draft, Alternatives& all) {
  all.compare_by(budget_clock(draft.request));
  for (const model::CacheFormat format : affordable_caches(draft.request)) {
    Draft next = draft;
    next.request.open.cache = false;
    next.request.model.cache = format;
    all.offer(std::string(to_string(format)), next);
  }
}

void walk_cache(const Draft& draft, Alternatives& all) {
  if (draft.request.budget) return walk_affordable_caches(draft, all);
  Draft next = draft;
  next.request.open.cache = false;
  const Request& request = next.request;
  all.compare_by([&](const Plan& plan) {
    const double seconds = predicted_time(plan, request.objective, request.evaluate);
    return plan.model.cache == model::CacheFormat::f32 ? seconds / kWorthIt : seconds;
  });
  offer_with_f32(next, all, std::string(to_string(request.model.cache)), [](Plan& plan) {
    plan.model.cache = model::CacheFormat::f32;
    for (model::DeviceProfile& profile : plan.profiles)
      profile = for_formats(std::move(profile), plan.model.formats, plan.model.cache);
  });
}

}  // namespace

const Axis& cache_axis() {
  static constexpr Axis axis{.name = "cache", .applies = cache_open, .walk = walk_cache};
  return axis;
}

}  // namespace tandem::planner
