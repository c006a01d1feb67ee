#include "planner/search/affordable_types.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::CacheFormat;
using model::WireFormat;

constexpr std::array kNarrowWires{WireFormat::q8_0, WireFormat::bf16};

template <class Format>
double known_price(const FormatPrices& prices, Format format, const std::string& what) {
  const std::optional<double> price = prices.of(format);
  if (price) return *price;
  throw Error(what + " in " + std::string(to_string(format)) +
              ": their loss was not measured of the model, expected a measured one; measure it "
              "with scenarios/models/train/format_loss.py, or choose another type");
}

// "auto" is no strategy yet.
bool sends(const Request& request) {
  const auto known = std::ranges::find(strategies(), request.strategy, &Strategy::name);
  return request.cluster.size() > 1 && (known == strategies().end() || !known->sharding.is_local());
}

bool can_cache_in(const Request& request, CacheFormat format) {
  model::Transformer transformer = request.model;
  if (!transformer.architecture().generates()) return false;
  transformer.cache = format;
  try {
    transformer.validate();
  } catch (const Error&) {
    return false;
  }
  return std::ranges::all_of(request.profiles, [&](const model::DeviceProfile& profile) {
    return profile.rate_of(model::TaskKind::attend, model::rated_as(format)) != nullptr;
  });
}

FormatLosses given_losses(const Request& request) {
  const FormatPrices& prices = request.budget->prices;
  FormatLosses losses;
  if (!request.open.wire && sends(request))
    losses.messages = known_price(prices, request.wire, "messages");
  if (!request.open.cache)
    losses.cache = known_price(prices, request.model.cache, "keys and values");
  return losses;
}

}  // namespace

std::vector<Request> with_affordable_types(const Request& request) {
  if (!request.budget) return {request};
  std::vector<Request> all;
  for (const WireFormat wire :
       request.open.wire ? affordable_wires(request) : std::vector{request.wire}) {
    Request next = request;
    next.wire = wire;
    for (const CacheFormat cache :
         request.open.cache ? affordable_caches(next) : std::vector{request.model.cache}) {
      next.model.cache = cache;
      all.push_back(next);
      all.back().open = {};
    }
  }
  return all;
}

Request with_narrowest_types(Request request) {
  if (!request.budget) return request;
  if (request.open.cache) {
    Request alone = request;
    if (request.open.wire) alone.wire = WireFormat::f32;
    request.model.cache = affordable_caches(alone).front();
  }
  if (!request.open.wire) return request;
  Request beside = request;
  beside.open.cache = false;
  request.wire = affordable_wires(beside).front();
  return request;
}

FormatLosses losses_of(const Request& request) {
  require(request.budget.has_value(), "losses_of: a budget");
  Request given = request;
  given.open = {};
  return given_losses(given);
}

std::optional<double> loss_of_types(const Request& request, const FormatPrices& prices) {
  const std::optional<double> messages = sends(request) ? prices.of(request.wire) : 0.0;
  const std::optional<double> cache = prices.of(request.model.cache);
  if (!messages || !cache) return std::nullopt;
  return *messages + *cache;
}

FormatLosses losses_of(const Plan& plan, const FormatPrices& prices) {
  const bool sends = plan.cluster.size() > 1 && !sharding_of(plan).is_local();
  return {.messages = sends ? known_price(prices, plan.wire, "messages") : 0.0,
          .cache = known_price(prices, plan.model.cache, "keys and values")};
}

std::vector<WireFormat> affordable_wires(const Request& request) {
  const LossBudget& budget = request.budget.value();
  std::vector<WireFormat> affordable;
  const double cache = given_losses(request).cache;
  for (const WireFormat format : kNarrowWires) {
    const std::optional<double> price = budget.prices.of(format);
    if (sends(request) && price && is_within(*price + cache, budget.most))
      affordable.push_back(format);
  }
  affordable.push_back(WireFormat::f32);
  return affordable;
}

std::vector<CacheFormat> affordable_caches(const Request& request) {
  const LossBudget& budget = request.budget.value();
  const double messages =
      sends(request) ? known_price(budget.prices, request.wire, "messages") : 0.0;
  std::vector<CacheFormat> affordable;
  // kCacheFormats begins with the widest, f32.
  for (auto format = model::kCacheFormats.rbegin(); format != model::kCacheFormats.rend();
       ++format) {
    const std::optional<double> price = budget.prices.of(*format);
    const bool is_narrow = *format != CacheFormat::f32;
    if (is_narrow && !(price && is_within(*price + messages, budget.most))) continue;
    if (is_narrow && !can_cache_in(request, *format)) continue;
    affordable.push_back(*format);
  }
  return affordable;
}

void check_budget(const Request& request) {
  if (!request.budget) return;
  const FormatLosses given = given_losses(request);
  if (is_within(given.total(), request.budget->most)) return;
  std::string what;
  if (given.messages > 0.0) what = "messages in " + std::string(to_string(request.wire));
  if (given.cache > 0.0)
    what += (what.empty() ? "" : " and ") + std::string("a cache in ") +
            std::string(to_string(request.model.cache));
  throw Error(what + ": a loss of " + model::shortest_text(given.total()) +
              " bits per byte, as measured, expected at most " +
              model::shortest_text(request.budget->most) +
              " (--max-loss); give a larger bound, or leave '--wire-type' and '--cache-type' out");
}

}  // namespace tandem::planner
