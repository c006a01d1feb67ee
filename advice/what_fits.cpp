#include "advice/what_fits.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

#include "advice/ask.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "planner/search/device_choice.hpp"

namespace tandem::study {
namespace {

constexpr int kMostLeftOut = 4;  // devices

bool has_plan(const planner::Request& request, const PromptReading& reading) {
  try {
    return std::holds_alternative<FittingPlan>(fit_prompt(request, reading));
  } catch (const Error&) {
    return false;
  }
}

// The devices that are enough once those of the least memory are left out; empty: none are found.
std::string on_fewer(const planner::Request& request, const PromptReading& reading) {
  const std::vector<model::Device>& devices = request.cluster.devices();
  const auto master = static_cast<std::size_t>(planner::master_of(request));
  std::vector<bool> used(devices.size(), true);
  for (int out = 0; out < kMostLeftOut && std::ranges::count(used, true) > 1; ++out) {
    std::optional<std::size_t> least;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!used[d] || d == master) continue;
      if (!least || devices[d].memory < devices[*least].memory) least = d;
    }
    used[*least] = false;
    if (!has_plan(planner::for_devices(request, used), reading)) continue;
    std::string names;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (used[d]) names += (names.empty() ? "" : ",") + devices[d].name;
    }
    return names;
  }
  return {};
}

}  // namespace

std::string what_fits(const Question& question) {
  if (question.served) return {};
  const planner::Request& request = question.request;
  std::string text;
  if (!question.prompt.best && question.prompt.rows == 0 && !reads_whole(request) &&
      has_plan(request, {.best = true}))
    text = "with the prompt in chunks (--chunk auto)";
  if (const std::string names = on_fewer(request, question.prompt); !names.empty())
    text += (text.empty() ? "" : ", or ") + std::string("on fewer devices (--devices ") +
            model::shell_word(names) + ")";
  return text.empty() ? text : "it fits " + text;
}

}  // namespace tandem::study
