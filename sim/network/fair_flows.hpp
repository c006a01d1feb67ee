#pragma once

// Max-min fair sharing of links by messages, in this process. Private to sim/.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "sim/network/flows.hpp"

namespace tandem::sim {

// Equals SimGrid's CM02 with network_settings(), to rounding. Every message has weight 1 (and
// counts twice on a shared medium that it passes twice). Rates are max-min fair: the smallest is as
// large as the links allow, then the next, and so on. Rates change when a message begins or ends.
// Nothing may vary on the cluster (model::variation), which outlives this.
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
    std::vector<Use> uses;  // shared links
    double most = kNever;   // limit of unshared links, bytes a second
    double rate = 0.0;      // of the message in flight
    double left = 0.0;      // its remaining bytes at `since`
    double since = 0.0;
    double ends = kNever;  // at that rate
    bool on_way = false;
    double next_rate = -1.0;  // in share(); negative: open
    bool meets = false;       // in share(): some message whose rate may change
  };
  struct Place {                           // a link, or one of its directions
    double capacity = 0.0;                 // bytes a second
    std::vector<ChannelNumber> carries{};  // messages in flight
    double left = 0.0;                     // in share(): unassigned capacity
    double load = 0.0;                     // in share(): passes of messages without a rate
    bool meets = false;
  };
  struct Call {
    double time = 0.0;
    std::uint64_t number = 0;  // breaks ties: the timer set first
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Call& a, const Call& b) const {
      return std::pair(a.time, a.number) > std::pair(b.time, b.number);
    }
  };

  // Sets the rate of each message that shares links, also indirectly, with one that began or ended.
  void share();
  // Collects the messages and places reached from `changed_`.
  void gather();
  void fix(ChannelNumber channel, double rate);
  void end_messages();

  const model::Cluster* cluster_;
  std::function<void(ChannelNumber)> sent_;
  double now_ = 0.0;
  std::vector<Place> places_;
  std::vector<Channel> channels_;
  std::vector<ChannelNumber> on_way_;
  std::vector<ChannelNumber> changed_;  // began or ended since the last share()
  std::vector<ChannelNumber> met_;
  std::vector<std::size_t> met_places_;
  std::vector<std::size_t> full_;
  std::vector<ChannelNumber> ended_;
  std::priority_queue<Call, std::vector<Call>, Later> calls_;
  std::uint64_t called_ = 0;
};

}  // namespace tandem::sim
