#include "serve/cluster_board.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "model/base/error.hpp"
#include "serve/lowest_priority.hpp"

namespace tandem::serve {
namespace {

using Json = nlohmann::ordered_json;
using Slot = std::chrono::duration<std::int64_t, std::ratio<1, 10>>;
constexpr std::int64_t kSlots = std::chrono::duration_cast<Slot>(ClusterBoard::kWindow).count();

std::int64_t slot_of(ClusterBoard::Clock::time_point time) {
  return std::chrono::duration_cast<Slot>(time.time_since_epoch()).count();
}

Json times_json(const RequestTimes& times) {
  return {{"prompt_tokens", times.prompt_tokens},
          {"new_tokens", times.new_tokens},
          {"cached_tokens", times.cached_tokens},
          {"ttft_s", times.ttft_s},
          {"token_latency_s", times.token_latency_s ? Json(*times.token_latency_s) : Json()}};
}

// Of a prediction.
Json times_or_null(const std::optional<RequestTimes>& times) {
  if (!times) return nullptr;
  Json json = times_json(*times);
  json["busy"] = times->busy.empty() ? Json() : Json(times->busy);
  return json;
}

std::vector<std::string> names_of(const planner::Plan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.devices.size());
  for (const model::Device& device : plan.cluster.devices()) names.push_back(device.name);
  return names;
}

}  // namespace

ClusterBoard::ClusterBoard(const planner::Plan& plan, const ClusterFacts& facts,
                           Prediction prediction)
    : fixed_(cluster_json(plan, facts)),
      dilation_(facts.dilation),
      planned_(plan.workload),
      prediction_(std::move(prediction)),
      devices_(names_of(plan), facts.dilation) {}

ClusterBoard::~ClusterBoard() {
  thread_.stop();
  thread_.join();
}

void ClusterBoard::add_tokens(std::int64_t count, Clock::time_point now) {
  const std::int64_t slot = slot_of(now);
  if (recent_.empty() || recent_.back().slot != slot) recent_.push_back({.slot = slot});
  recent_.back().count += count;
  while (recent_.front().slot <= slot - kSlots) recent_.pop_front();
}

double ClusterBoard::rate(Clock::time_point now) const {
  const std::int64_t begin = slot_of(now) - kSlots;
  std::int64_t count = 0;
  for (const Tokens& tokens : recent_)
    if (tokens.slot > begin) count += tokens.count;
  return static_cast<double>(count) / static_cast<double>(kWindow.count());
}

void ClusterBoard::add_request(const RequestTimes& measured) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.emplace_back(Entry{.number = next_++, .measured = measured});
  entry.measured.ttft_s /= dilation_;
  if (auto& latency = entry.measured.token_latency_s) *latency /= dilation_;
  if (entries_.size() > kRequests) entries_.pop_front();
}

void ClusterBoard::predict(const RequestTimes& request,
                           const std::function<void(const RequestTimes&)>& keep) {
  boost::asio::post(thread_, [this, request, keep] {
    lower_priority();
    try {
      const RequestTimes times = prediction_.predict(request);
      const std::lock_guard lock(mutex_);
      keep(times);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
  });
}

// With mutex_ held. The newest first, as it is what one looks at.
void ClusterBoard::ask_for_predictions() {
  if (!prediction_.predict) return;
  if (!std::exchange(asked_plan_, true) && planned_.new_tokens > 0) {
    predict({.prompt_tokens = planned_.prompt_tokens, .new_tokens = planned_.new_tokens},
            [this](const RequestTimes& times) { plan_times_ = times; });
  }
  const auto under_way = std::ranges::any_of(
      entries_, [](const Entry& entry) { return entry.asked && !entry.predicted; });
  if (under_way || !failure_.empty()) return;
  const auto entry = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [](const Entry& candidate) { return !candidate.asked; });
  if (entry == entries_.rend()) return;
  entry->asked = true;
  predict(entry->measured, [this, number = entry->number](const RequestTimes& times) {
    const auto found = std::ranges::find(entries_, number, &Entry::number);
    if (found != entries_.end()) found->predicted = times;
  });
}

std::string ClusterBoard::json(const exec::ServiceDesk::Counts& counts, Clock::time_point now,
                               const exec::DeviceStates& devices) {
  const std::lock_guard lock(mutex_);
  ask_for_predictions();
  Json json = fixed_;
  json["live"] = {{"open", counts.under_way},
                  {"waiting", counts.waiting},
                  {"tokens_per_s", rate(now) * dilation_},
                  {"window_s", kWindow.count()},
                  {"finished", counts.finished},
                  {"cancelled", counts.cancelled},
                  {"devices", devices_.json(devices, now)}};
  const std::string& reason = prediction_.predict ? failure_ : prediction_.reason;
  json["prediction"] = {{"available", reason.empty()},
                        {"reason", reason.empty() ? Json() : Json(reason)},
                        {"plan", times_or_null(plan_times_)}};
  Json& requests = json["requests"] = Json::array();
  for (const Entry& entry : entries_) {
    Json measured = times_json(entry.measured);
    measured["shared"] = entry.measured.shared;
    requests.push_back({{"number", entry.number},
                        {"measured", std::move(measured)},
                        {"predicted", times_or_null(entry.predicted)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem::serve
