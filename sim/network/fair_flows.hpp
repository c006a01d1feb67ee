#pragma once

// Messages that share links max-min fairly, in this process. Private to sim/.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/network/flows.hpp"

namespace tandem::sim {

// What SimGrid's CM02 with the settings of network_settings() does, to rounding: every message
// weighs 1 (a shared medium that it passes twice it loads twice), and of all rates that the links
// allow the smallest is as great as can be, then the next, and so on. Rates change when a message
// begins or ends. Nothing varies on the cluster (model::variation), which outlives it.
class FairFlows final : public Flows {
 public:
  explicit FairFlows(const model::Cluster& cluster);

  void on_sent(std::function<void(ChannelNumber)> sent) override { sent_ = std::move(sent); }
  [[nodiscard]] double now() const override { return now_; }
  void at(double time, std::function<void()> what) override;
  ChannelNumber add_channel(model::DeviceIndex from, model::DeviceIndex to) override;
  void send(ChannelNumber channel, double bytes) override;
  void run() override;

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Use {
    std::size_t place = 0;
    double times = 0.0;
  };
  struct Channel {
    std::vector<Use> uses;  // of links that are shared
    double most = kNever;   // of links that everyone has for himself, bytes a second
    double rate = 0.0;      // of the message on its way
    double left = 0.0;      // bytes of it at `since`
    double since = 0.0;
    double ends = kNever;  // at that rate
    bool on_way = false;
    double next_rate = -1.0;  // in share(); negative: open
    bool meets = false;       // in share(): some message whose rate may change
  };
  struct Place {                           // a link, or one of its directions
    double capacity = 0.0;                 // bytes a second
    std::vector<ChannelNumber> carries{};  // messages on their way
    double left = 0.0;                     // in share(): that no message has been given
    double load = 0.0;                     // in share(): passes of those whose rate is open
    bool meets = false;
  };
  struct Call {
    double time = 0.0;
    std::uint64_t number = 0;  // of equal times the first that was set
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Call& a, const Call& b) const {
      return std::pair(a.time, a.number) > std::pair(b.time, b.number);
    }
  };

  // Gives each message that begins or ended ones meet, by way of links, its rate.
  void share();
  // The messages and places that `changed_` reach.
  void gather();
  void fix(ChannelNumber channel, double rate);
  void end_messages();

  const model::Cluster* cluster_;
  std::function<void(ChannelNumber)> sent_;
  double now_ = 0.0;
  std::vector<Place> places_;
  std::vector<Channel> channels_;
  std::vector<ChannelNumber> on_way_;
  std::vector<ChannelNumber> changed_;  // that began or ended since rates were given
  std::vector<ChannelNumber> met_;
  std::vector<std::size_t> met_places_;
  std::vector<std::size_t> full_;
  std::vector<ChannelNumber> ended_;
  std::priority_queue<Call, std::vector<Call>, Later> calls_;
  std::uint64_t called_ = 0;
};

}  // namespace tandem::sim
