#include "sim/network/network.hpp"

#include <algorithm>
#include <cmath>
#include <simgrid/kernel/Timer.hpp>
#include <string>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::sim {

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

namespace {

// The size of a flow that lasts longer than any run.
constexpr std::uint64_t kEndless = std::uint64_t{1} << 62;

}  // namespace

Network::Network(const s4u::Engine& engine, const model::Cluster& cluster,
                 std::optional<std::vector<model::Channel>> channels)
    : cluster_(&cluster), channels_(std::move(channels)), zone_(s4u::create_full_zone("tandem")) {
  if (channels_) bottlenecks_.emplace(cluster, *channels_);
  for (std::size_t i = 0; i < cluster.devices().size(); ++i) {
    hosts_.push_back(zone_->create_host("device" + std::to_string(i), 1.0));
  }
  for (std::size_t i = 0; i < cluster.links().size(); ++i) add_link(cluster.links()[i], i);
  zone_->seal();
  engine.seal_platform();
}

void Network::start_others() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const model::Link& link = cluster_->links()[i];
    const Duplex& made = links_[i];
    if (link.background.value() > 0.0) {
      compete(made.up);
      if (made.down != made.up) compete(made.down);
    }
    for (const model::LinkChange& change : link.changes) {
      if (!change.bandwidth) continue;
      s4u::Link* const to = change.direction == model::Direction::down ? made.down : made.up;
      Timer::set(change.at.value(),
                 [to, rate = change.bandwidth->value()] { to->set_bandwidth(rate); });
    }
  }
}

void Network::add_route(model::DeviceIndex from, model::DeviceIndex to) {
  require(!channels_ ||
              std::binary_search(channels_->begin(), channels_->end(), model::Channel(from, to)),
          "replay: a channel that was not listed for the steps");
  std::vector<s4u::LinkInRoute> links;
  for (const model::Hop& hop : cluster_->route(from, to).hops) {
    if (bottlenecks_ && !bottlenecks_->limits(hop)) continue;
    const Duplex& link = links_[static_cast<std::size_t>(hop.link)];
    links.emplace_back(hop.direction == model::Direction::down ? link.down : link.up);
  }
  zone_->add_bypass_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr,
                          links);
}

s4u::CommPtr Network::message(model::DeviceIndex from, model::DeviceIndex to, double bytes) const {
  auto comm = s4u::Comm::sendto_init(host(from), host(to));
  comm->set_payload_size(static_cast<std::uint64_t>(std::llround(bytes)));
  return comm;
}

// Starts a flow over `link` that lasts for the whole run. A separate link limits its rate.
void Network::compete(s4u::Link* link) {
  const auto end = [&](const char* suffix) {
    return s4u::Host::by_name(link->get_name() + suffix);
  };
  s4u::Host* const from = end("_from");
  s4u::Host* const to = end("_to");
  const std::vector<s4u::LinkInRoute> way{
      s4u::LinkInRoute(s4u::Link::by_name(link->get_name() + "_limit")), s4u::LinkInRoute(link)};
  zone_->add_bypass_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, way);
  auto comm = s4u::Comm::sendto_init(from, to);
  comm->set_payload_size(kEndless);
  comm->start();
  others_.push_back(std::move(comm));
}

s4u::Host* Network::host(model::DeviceIndex i) const { return hosts_[static_cast<std::size_t>(i)]; }

void Network::add_link(const model::Link& link, std::size_t index) {
  const auto make = [&](const char* suffix, s4u::Link::SharingPolicy policy) {
    s4u::Link* made =
        zone_->create_link("link" + std::to_string(index) + suffix, link.bandwidth.value());
    made->set_latency(0.0);
    made->set_sharing_policy(policy);
    made->seal();
    if (link.background.value() > 0.0) {
      zone_->create_host(made->get_name() + "_from", 1.0);
      zone_->create_host(made->get_name() + "_to", 1.0);
      s4u::Link* limit = zone_->create_link(made->get_name() + "_limit", link.background.value());
      limit->set_latency(0.0);
      limit->seal();
    }
    return made;
  };
  switch (link.sharing) {
    case model::Sharing::shared: {
      s4u::Link* const both = make("", s4u::Link::SharingPolicy::SHARED);
      links_.push_back({both, both});
      return;
    }
    case model::Sharing::fatpipe: {
      s4u::Link* const both = make("", s4u::Link::SharingPolicy::FATPIPE);
      links_.push_back({both, both});
      return;
    }
    case model::Sharing::split_duplex:
      s4u::Link* const up = make("_up", s4u::Link::SharingPolicy::SHARED);
      links_.push_back({up, make("_down", s4u::Link::SharingPolicy::SHARED)});
      return;
  }
}

}  // namespace tandem::sim
