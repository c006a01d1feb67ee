#pragma once

// /v1/cluster: what is served, how it goes, and what was predicted.

#include <array>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "exec/serve/service_desk.hpp"
#include "planner/plan/plan.hpp"
#include "serve/cluster_json.hpp"
#include "serve/live_devices.hpp"
#include "serve/request_times.hpp"

namespace tandem::serve {

// Predicts one request of the lengths of `request` that has the devices to itself; called on a
// thread of its own.
using PredictTimes = std::function<RequestTimes(const RequestTimes& request)>;

struct Prediction {
  PredictTimes predict{};  // empty: there is none
  std::string reason{};    // why
};

// Keeps the last requests and the recent rate. Of one thread, but for predictions, which run on a
// thread of the lowest priority and only while somebody asks for them.
class ClusterBoard {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kRequests = 20;       // that are kept
  static constexpr std::chrono::seconds kWindow{5};  // of the recent rate

  ClusterBoard(const planner::Plan& plan, const ClusterFacts& facts, Prediction prediction);
  ~ClusterBoard();
  ClusterBoard(const ClusterBoard&) = delete;
  ClusterBoard& operator=(const ClusterBoard&) = delete;

  // Tokens were generated, or read by an encoder, at `now`.
  void add_tokens(std::int64_t count, Clock::time_point now);
  // A request has ended; times by the clock.
  void add_request(const RequestTimes& measured);

  // Returns tokens a second over the last kWindow, by the clock.
  [[nodiscard]] double rate(Clock::time_point now) const;
  // Returns cluster_json with the following, whose times and rates are in emulated time where
  // devices are emulated: those by the clock without the dilation.
  //   live        {open, waiting, tokens_per_s, window_s, finished, cancelled, devices}: `waiting`
  //               of the open have no token yet: they wait for others, or their prompts are being
  //               read; devices as of LiveDevices
  //   prediction  {available, reason, plan}: `plan` is that of the plan's own request, or null
  //   requests    [{number, measured, predicted}], the last kRequests; `predicted`, of a request of
  //               its lengths alone on the devices, is null until it is known
  // Times are {prompt_tokens, new_tokens, cached_tokens, ttft_s, token_latency_s}, measured ones
  // also `shared`, predicted ones `busy`: by device, the share of the time of a request alone in
  // which its processor computes; or null.
  [[nodiscard]] std::string json(const exec::ServiceDesk::Counts& counts, Clock::time_point now,
                                 const exec::DeviceStates& devices = {});

 private:
  struct Entry {
    std::uint64_t number = 0;
    RequestTimes measured;
    std::optional<RequestTimes> predicted{};
    bool asked = false;
  };
  struct Tokens {
    std::int64_t slot = 0;
    std::int64_t count = 0;
  };
  void ask_for_predictions();
  void predict(const RequestTimes& request, const std::function<void(const RequestTimes&)>& keep);

  nlohmann::ordered_json fixed_;
  double dilation_;
  planner::Workload planned_;
  Prediction prediction_;
  LiveDevices devices_;
  std::deque<Tokens> recent_;
  std::uint64_t next_ = 1;
  bool asked_plan_ = false;
  mutable std::mutex mutex_;  // of what predictions write
  std::deque<Entry> entries_;
  std::optional<RequestTimes> plan_times_;
  std::string failure_;
  boost::asio::thread_pool thread_{1};
};

}  // namespace tandem::serve
