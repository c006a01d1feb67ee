#include <utility>
#include <vector>

#include "advice/free/free_change.hpp"
#include "advice/settings.hpp"
#include "planner/search/equal_devices.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

std::vector<Offer> masters(const FreeQuestion& question) {
  std::vector<Offer> offers;
  const planner::Request& request = question.ask.request;
  // Another device that computes everything is a change of devices.
  if (question.chose_master || request.cluster.size() < 2 ||
      planner::find_strategy(request.strategy).sharding.is_local())
    return offers;
  const std::vector<model::DeviceIndex> first =
      planner::first_equals(request.cluster, profiles_of(request));
  std::vector<bool> tried(first.size(), false);
  tried[static_cast<std::size_t>(first[static_cast<std::size_t>(planner::master_of(request))])] =
      true;
  for (std::size_t d = 0; d < first.size(); ++d) {
    if (tried[static_cast<std::size_t>(first[d])]) continue;
    tried[static_cast<std::size_t>(first[d])] = true;
    const std::string& name = request.cluster.devices()[d].name;
    Offer offer{.what = "the prompt at '" + name + "'",
                .price = Price::privacy,
                .price_text = "'" + name + "' holds the prompt and its answer",
                .ask = question.ask};
    offer.ask.request.master = name;
    offer.ask.set("master", name);
    offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace

const FreeChangeKind& master_change() {
  static constexpr FreeChangeKind kind{.name = "master", .offers = masters};
  return kind;
}

}  // namespace tandem::study
