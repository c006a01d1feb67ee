#include "sim/network/fair_flows.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/error.hpp"

namespace tandem::sim {
namespace {

// As in network_settings(): flows that end within it end together.
constexpr double kPrecision = 1e-12;         // seconds
constexpr double kEqualRates = 1.0 + 1e-12;  // more is not rounding

}  // namespace

FairFlows::FairFlows(const model::Cluster& cluster)
    : cluster_(&cluster), places_(2 * cluster.links().size()) {
  for (std::size_t i = 0; i < places_.size(); ++i)
    places_[i].capacity = cluster.links()[i / 2].bandwidth.value();
}

void FairFlows::at(double time, std::function<void()> what) {
  calls_.push({.time = time, .number = called_++, .what = std::move(what)});
}

Flows::ChannelNumber FairFlows::add_channel(model::DeviceIndex from, model::DeviceIndex to) {
  Channel& channel = channels_.emplace_back();
  for (const model::Hop& hop : cluster_->route(from, to).hops) {
    const auto index = static_cast<std::size_t>(hop.link);
    const model::Link& link = cluster_->links()[index];
    if (link.sharing == model::Sharing::fatpipe) {
      channel.most = std::min(channel.most, link.bandwidth.value());
      continue;
    }
    const bool down =
        link.sharing == model::Sharing::split_duplex && hop.direction == model::Direction::down;
    const std::size_t place = 2 * index + (down ? 1 : 0);
    const auto known = std::ranges::find(channel.uses, place, &Use::place);
    if (known == channel.uses.end()) {
      channel.uses.push_back({.place = place, .times = 1.0});
    } else {
      known->times += 1.0;
    }
  }
  return static_cast<ChannelNumber>(channels_.size()) - 1;
}

void FairFlows::send(ChannelNumber channel, double bytes) {
  Channel& of = channels_[static_cast<std::size_t>(channel)];
  require(!of.on_way, "FairFlows: one message of a channel at a time");
  of.on_way = true;
  of.left = std::round(bytes);
  of.since = now_;
  of.rate = 0.0;
  of.ends = kNever;
  for (const Use& use : of.uses) places_[use.place].carries.push_back(channel);
  on_way_.push_back(channel);
  changed_.push_back(channel);
}

void FairFlows::gather() {
  met_.clear();
  met_places_.clear();
  const auto meet = [&](ChannelNumber channel) {
    for (const Use& use : channels_[static_cast<std::size_t>(channel)].uses) {
      if (places_[use.place].meets) continue;
      places_[use.place].meets = true;
      met_places_.push_back(use.place);
    }
  };
  for (const ChannelNumber channel : changed_) {
    Channel& of = channels_[static_cast<std::size_t>(channel)];
    if (of.on_way && !of.meets) {
      of.meets = true;
      met_.push_back(channel);
    }
    meet(channel);
  }
  for (std::size_t i = 0; i < met_places_.size(); ++i) {
    for (const ChannelNumber channel : places_[met_places_[i]].carries) {
      Channel& of = channels_[static_cast<std::size_t>(channel)];
      if (of.meets) continue;
      of.meets = true;
      met_.push_back(channel);
      meet(channel);
    }
  }
  for (const ChannelNumber channel : met_)
    channels_[static_cast<std::size_t>(channel)].meets = false;
  for (const std::size_t place : met_places_) places_[place].meets = false;
}

void FairFlows::fix(ChannelNumber channel, double rate) {
  Channel& of = channels_[static_cast<std::size_t>(channel)];
  of.next_rate = rate;
  for (const Use& use : of.uses) {
    places_[use.place].left -= use.times * rate;
    places_[use.place].load -= use.times;
  }
}

void FairFlows::share() {
  gather();
  changed_.clear();
  for (const std::size_t place : met_places_) {
    places_[place].left = places_[place].capacity;
    places_[place].load = 0.0;
  }
  for (const ChannelNumber channel : met_) {
    Channel& of = channels_[static_cast<std::size_t>(channel)];
    of.next_rate = -1.0;
    for (const Use& use : of.uses) places_[use.place].load += use.times;
  }
  // The place that is exhausted first sets the rate of the flows that pass it.
  const auto is_open = [&](ChannelNumber channel) {
    return channels_[static_cast<std::size_t>(channel)].next_rate < 0.0;
  };
  std::size_t open = met_.size();
  while (open > 0) {
    double least = kNever;
    for (const std::size_t place : met_places_) {
      if (places_[place].load > 0.5)
        least = std::min(least, places_[place].left / places_[place].load);
    }
    for (const ChannelNumber channel : met_) {
      if (is_open(channel))
        least = std::min(least, channels_[static_cast<std::size_t>(channel)].most);
    }
    require(least > 0.0 && least < kNever, "FairFlows: a message over links with a bandwidth");
    for (const ChannelNumber channel : met_) {
      if (is_open(channel) &&
          channels_[static_cast<std::size_t>(channel)].most <= least * kEqualRates) {
        fix(channel, channels_[static_cast<std::size_t>(channel)].most);
        --open;
      }
    }
    // Those that are full now, before any of their messages is given a rate.
    full_.clear();
    for (const std::size_t place : met_places_) {
      if (places_[place].load > 0.5 &&
          places_[place].left / places_[place].load <= least * kEqualRates)
        full_.push_back(place);
    }
    for (const std::size_t place : full_) {
      for (const ChannelNumber channel : places_[place].carries) {
        if (!is_open(channel)) continue;
        fix(channel, least);
        --open;
      }
    }
  }
  for (const ChannelNumber channel : met_) {
    Channel& of = channels_[static_cast<std::size_t>(channel)];
    if (of.next_rate == of.rate) continue;
    of.left = std::max(0.0, of.left - of.rate * (now_ - of.since));
    of.since = now_;
    of.rate = of.next_rate;
    of.ends = now_ + of.left / of.rate;
  }
}

void FairFlows::end_messages() {
  ended_.clear();
  std::erase_if(on_way_, [&](ChannelNumber channel) {
    // After some hours, no number lies between now and now + kPrecision.
    const bool ends = channels_[static_cast<std::size_t>(channel)].ends <= now_ + kPrecision;
    if (ends) ended_.push_back(channel);
    return ends;
  });
  for (const ChannelNumber channel : ended_) {
    Channel& of = channels_[static_cast<std::size_t>(channel)];
    for (const Use& use : of.uses) std::erase(places_[use.place].carries, channel);
    of.on_way = false;
    changed_.push_back(channel);
  }
  // Each may be sent on at once.
  for (const ChannelNumber channel : ended_) sent_(channel);
}

void FairFlows::run() {
  for (;;) {
    if (!changed_.empty()) share();
    double next = calls_.empty() ? kNever : calls_.top().time;
    for (const ChannelNumber channel : on_way_)
      next = std::min(next, channels_[static_cast<std::size_t>(channel)].ends);
    if (next == kNever) return;
    now_ = std::max(now_, next);
    while (!calls_.empty() && calls_.top().time <= now_) {
      const std::function<void()> what = calls_.top().what;
      calls_.pop();
      what();
    }
    end_messages();
  }
}

}  // namespace tandem::sim
