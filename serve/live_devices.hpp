#pragma once

// Who computes and who waits, as /v1/cluster answers it.

#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exec/session/device_watch.hpp"

namespace tandem::serve {

// Keeps what devices said over the last seconds. Of one thread.
class LiveDevices {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kWindow{5};

  // `names` of all devices, by DeviceIndex; emulated time passes `dilation` times more slowly.
  LiveDevices(std::vector<std::string> names, double dilation)
      : names_(std::move(names)), dilation_(dilation) {}

  // Takes what devices say at `now`, and returns a list, by DeviceIndex, of null or
  //   state         "computes", "waits" or "prepares"
  //   for           whom it waits for: a device, "its disk", or null (the next step)
  //   busy          share of the last kWindow in which its processor computed; null: not known yet
  //   tokens_per_s  of steps that it has finished in that time, in emulated time; null: not known
  //   memory_bytes  that its process has in memory; null: not known
  [[nodiscard]] nlohmann::ordered_json json(const exec::DeviceStates& states,
                                            Clock::time_point now);

 private:
  struct Moment {
    Clock::time_point time{};
    exec::DeviceStates states{};
  };
  [[nodiscard]] nlohmann::ordered_json device_json(std::size_t device) const;

  std::vector<std::string> names_;
  double dilation_;
  std::deque<Moment> moments_;  // the first is older than kWindow, if there is one
};

}  // namespace tandem::serve
