#include "serve/live_devices.hpp"

#include <algorithm>
#include <string_view>

#include "exec/transport/activity.hpp"

namespace tandem::serve {
namespace {

using LiveJson = nlohmann::ordered_json;

const char* state_of(const exec::Heartbeat& said) {
  using enum exec::Phase;
  if (said.phase == waiting) return "waits";
  if (said.phase != computing) return "prepares";
  return said.subject == exec::Activity::kNobody ? "computes" : "waits";
}

}  // namespace

nlohmann::ordered_json LiveDevices::json(const exec::DeviceStates& states, Clock::time_point now) {
  moments_.push_back({.time = now, .states = states});
  while (moments_.size() > 2 && moments_[1].time <= now - kWindow) moments_.pop_front();
  // No client has asked for long.
  if (moments_.front().time < now - 2 * kWindow) moments_.pop_front();
  LiveJson list = LiveJson::array();
  for (std::size_t d = 0; d < names_.size(); ++d) list.push_back(device_json(d));
  return list;
}

nlohmann::ordered_json LiveDevices::device_json(std::size_t device) const {
  const Moment& last = moments_.back();
  if (device >= last.states.size() || !last.states[device]) return nullptr;
  const exec::Heartbeat& said = *last.states[device];
  const bool waits = std::string_view(state_of(said)) == "waits";
  const auto subject = static_cast<std::size_t>(said.subject);
  LiveJson json{{"state", state_of(said)},
                {"for", nullptr},
                {"busy", nullptr},
                {"tokens_per_s", nullptr},
                {"memory_bytes", nullptr}};
  // A device that waits for itself waits for its disk within a step, and for requests between them.
  if (waits && said.subject >= 0 && subject < names_.size()) {
    if (subject != device)
      json["for"] = names_[subject];
    else if (said.phase == exec::Phase::computing)
      json["for"] = "its disk";
  }
  if (said.memory_bytes > 0) json["memory_bytes"] = said.memory_bytes;
  const Moment& first = moments_.front();
  const double seconds = std::chrono::duration<double>(last.time - first.time).count();
  if (seconds < 0.5 || device >= first.states.size() || !first.states[device]) return json;
  const exec::Heartbeat& before = *first.states[device];
  if (said.busy_ns < before.busy_ns || said.rows < before.rows) return json;  // of another session
  const double busy_s = static_cast<double>(said.busy_ns - before.busy_ns) * 1e-9;
  json["busy"] = std::min(1.0, busy_s / seconds);
  json["tokens_per_s"] = static_cast<double>(said.rows - before.rows) / seconds * dilation_;
  return json;
}

}  // namespace tandem::serve
