#include <algorithm>
#include <utility>
#include <vector>

#include "advice/free/free_change.hpp"
#include "advice/free/other_devices.hpp"
#include "advice/settings.hpp"
#include "planner/search/equal_devices.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

// The devices whose names flags of the command have stay.
bool is_named(const FreeQuestion& question, const std::string& device) {
  return std::ranges::find(question.named, device) != question.named.end();
}

std::vector<Offer> devices(const FreeQuestion& question) {
  std::vector<Offer> offers;
  const planner::Request& request = question.ask.request;
  const auto count = request.cluster.devices().size();
  if (question.chose_devices || count < 2) return offers;
  const std::vector<model::DeviceIndex> first =
      planner::first_equals(request.cluster, profiles_of(request));
  const auto master = static_cast<std::size_t>(planner::master_of(request));
  const bool local = planner::find_strategy(request.strategy).sharding.is_local();
  // Of equal devices, other than the master, one.
  const auto stands_for = [&](std::size_t d) {
    for (std::size_t e = 0; e < d; ++e) {
      if (e != master && first[e] == first[d]) return false;
    }
    return true;
  };
  for (std::size_t d = 0; d < count; ++d) {
    const std::string& name = request.cluster.devices()[d].name;
    if (d != master && !stands_for(d)) continue;
    if (d != master && !local && !is_named(question, name)) {
      std::vector<bool> used(count, true);
      used[d] = false;
      offers.push_back({.what = "without '" + name + "'",
                        .price = Price::nothing,
                        .price_text = "'" + name + "' is left idle",
                        .ask = on_devices(question.ask, used)});
    }
    const bool others_named = std::ranges::any_of(
        question.named, [&](const std::string& other) { return other != name; });
    if (others_named || (local && d == master)) continue;
    const bool moves = d != master;
    offers.push_back({.what = "'" + name + "' alone",
                      .price = moves ? Price::privacy : Price::nothing,
                      .price_text = moves ? "'" + name + "' holds the prompt and its answer"
                                          : "the other devices are left idle",
                      .ask = alone(question.ask, name)});
  }
  return offers;
}

}  // namespace

const FreeChangeKind& devices_change() {
  static constexpr FreeChangeKind kind{.name = "devices", .offers = devices};
  return kind;
}

}  // namespace tandem::study
