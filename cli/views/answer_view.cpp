#include "cli/views/answer_view.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "advice/prediction.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/views/choice_view.hpp"
#include "cli/views/model_view.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster.hpp"
#include "model/predict/bottleneck.hpp"
#include "model/transformer/format_choice.hpp"
#include "model/transformer/weight_format.hpp"
#include "model/transformer/wire_format.hpp"

namespace tandem::cli {
namespace {

using model::Seconds;

// A part of what new tokens, or the prompt, wait for.
struct WaitingPart {
  double seconds = 0.0;
  const model::Waiting* largest = nullptr;
  std::size_t count = 0;
};

std::string noun_of(model::WaitCause cause) {
  switch (cause) {
    case model::WaitCause::compute:
      return "computing";
    case model::WaitCause::copying:
      return "copying messages";
    case model::WaitCause::disk:
      return "reading weights from disk";
    case model::WaitCause::latency:
      return "latency of links";
    case model::WaitCause::overhead:
      return "overhead of messages";
    case model::WaitCause::bandwidth:
      return "bandwidth of links";
  }
  return "";
}

double bits_of(model::WeightFormat format) {
  const model::FormatBlock block = model::block_of(format);
  return 8.0 * static_cast<double>(block.bytes) / static_cast<double>(block.elements);
}

// Whether `--dtype` has a format with fewer bits than some weights of `plan`.
bool has_shorter_weights(const planner::Plan& plan) {
  const std::vector<model::WeightFormat> used = plan.model.formats_used();
  return std::ranges::any_of(model::kWeightFormats, [&](model::WeightFormat other) {
    return model::is_for_writing(other) &&
           std::ranges::any_of(
               used, [other](model::WeightFormat one) { return bits_of(other) < bits_of(one); });
  });
}

// What shortens the waiting if it is bought, or weights in fewer bits; without what `plan` has.
std::string remedy_of(model::WaitCause cause, const planner::Plan& plan) {
  const bool weights = has_shorter_weights(plan);
  switch (cause) {
    case model::WaitCause::compute:
      return std::string("faster devices") +
             (weights ? ", or weights in fewer bits (--dtype)" : "");
    case model::WaitCause::disk:
      return std::string("more memory for weights") +
             (weights ? ", weights in fewer bits (--dtype)," : "") + " or a faster disk";
    case model::WaitCause::latency:
      return "links with less latency (a cable instead of Wi-Fi)";
    case model::WaitCause::bandwidth:
      return "links with more bandwidth";
    case model::WaitCause::copying:
    case model::WaitCause::overhead:
      return "more memory, so that fewer devices are enough";
  }
  return "";
}

// What a longer search may still gain, and the article of the sentence that follows.
std::string gain_text(const study::Choice& choice) {
  if (choice.least_s <= 0.0) return "a";
  const double gain = std::max(0.0, 1.0 - choice.least_s / choice.contenders.front().seconds);
  return "at most " + model::fixed(100.0 * gain, 0) +
         "% could be gained (no plan takes less than " + to_text(Seconds{choice.least_s}) + "). A";
}

}  // namespace

BottleneckText bottleneck_text(const planner::Plan& plan, bool of_prompt,
                               const std::optional<Served>& served) {
  const study::ServedWorkload asked = served ? for_prediction(*served) : study::ServedWorkload{};
  const model::Bottleneck found =
      study::bottleneck_of(plan, study::EvaluatorKind::simgrid, served ? &asked : nullptr);
  const bool generates = !found.token.empty() && !of_prompt;
  const std::vector<model::Waiting>& waiting = generates ? found.token : found.prompt;
  double total = 0.0;
  std::map<model::WaitCause, WaitingPart> parts;
  for (const model::Waiting& one : waiting) {
    total += one.seconds;
    WaitingPart& part = parts[one.cause];
    part.seconds += one.seconds;
    ++part.count;
    if (part.largest == nullptr || one.seconds > part.largest->seconds) part.largest = &one;
  }
  if (total <= 0.0) return {};
  const auto most =
      std::ranges::max_element(parts, {}, [](const auto& entry) { return entry.second.seconds; });
  const auto percent = [total](double seconds) {
    return model::fixed(100.0 * seconds / total, 0) + '%';
  };
  const WaitingPart& part = most->second;
  std::string text = std::string("Bottleneck of ") + (generates ? "new tokens" : "the prompt") +
                     ": " + noun_of(most->first) + ", " + percent(part.seconds) + " of the time";
  if (most->first != model::WaitCause::latency) {
    text += part.count == 1
                ? " (" + part.largest->what + ")"
                : " (" + part.largest->what + " alone " + percent(part.largest->seconds) + ")";
  }
  return {.found = text + ".",
          .remedy = "To shorten it by buying: " + remedy_of(most->first, plan) + "."};
}

void print_answer(const PlanAnswer& answer, std::ostream& out) {
  const auto& [plan, served, predicted, choice, objective, platform_devices, shortened,
               print_free] = answer;
  const std::int64_t chunk = served && served->is_one() ? served->chunk : 0;
  const auto used = static_cast<std::size_t>(std::ranges::count_if(
      plan.devices,
      [](const planner::DevicePlan& device) { return !device.share.layers.empty(); }));
  out << plan.model.name << " in " << model::format_name(plan.model) << " fits on "
      << (used == platform_devices
              ? used == 1 ? std::string("the device") : "all " + std::to_string(used) + " devices"
              : std::to_string(used) + " of " + std::to_string(platform_devices) + " devices")
      << " of " << plan.cluster.name() << " with strategy " << plan.strategy
      << (chunk == 1  ? ", its prompt read token by token"
          : chunk > 1 ? ", its prompt read in chunks of " + std::to_string(chunk) + " tokens"
                      : "")
      << (plan.streams() ? "; some weights stream from disk.\n" : ".\n");
  if (plan.model.experts)
    out << "A token uses " << billions(plan.model.active_parameters()) << " of its "
        << billions(plan.model.parameters()) << " parameters; it cannot be run yet.\n";
  BottleneckText bottleneck;
  if (predicted.requests.size() == 1) {
    const model::RequestResult& request = predicted.requests.front();
    const std::vector<double> gaps = predicted.metrics.token_latencies_s();
    const bool generates = !predicted.metrics.token_times_s.empty();
    out << (generates ? "First token after " : "Pass in ") << to_text(Seconds{request.ttft_s});
    if (!gaps.empty()) {
      const double whole = request.end_s - request.arrival_s;
      const double rate = static_cast<double>(gaps.size()) / (whole - request.ttft_s);
      constexpr double kSlow = 0.1;
      out << ", then "
          << (rate < kSlow ? "a token every " + to_text(Seconds{1.0 / rate})
                           : model::fixed(rate, rate < 10.0 ? 2 : 0) + " tokens a second")
          << "; " << to_text(plan.workload) << " take " << to_text(Seconds{whole});
    }
    out << (shortened.empty() ? "" : " (" + shortened + ")");
    if (const std::string varies = model::variation(plan.cluster); !varies.empty())
      out << ", as if nothing varied (" << varies << ')';
    out << ".\n";
    const double rest = request.end_s - request.arrival_s - request.ttft_s;
    const bool of_prompt = objective == planner::Objective::ttft ||
                           (objective == planner::Objective::request && request.ttft_s > rest);
    bottleneck = bottleneck_text(plan, of_prompt, served);
    if (!bottleneck.found.empty()) out << bottleneck.found << '\n';
  }
  if (print_free) print_free(out);
  if (!bottleneck.remedy.empty()) out << bottleneck.remedy << '\n';
  if (choice && choice->contenders.size() > 1) {
    const study::Contender& next = choice->contenders[1];
    out << "Best alternative: strategy " << next.plan.strategy << " on " << next.plan.cluster.size()
        << (next.plan.cluster.size() == 1 ? " device, " : " devices, ")
        << compared_text(*choice, next.seconds) << ".\n";
  }
  if (choice && !choice->to_the_end) {
    out << "Stopped after " << choice->evaluations
        << (choice->evaluations == 1 ? " evaluation in " : " evaluations in ")
        << model::fixed(choice->elapsed_s, 1) << " s; " << gain_text(*choice)
        << " better plan may be found with --seconds 0, which searches to the end.\n";
  }
  out << '\n';
}

}  // namespace tandem::cli
