#include "cli/views/answer_view.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "advice/prediction.hpp"
#include "cli/flags/outcome.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/predict/bottleneck.hpp"
#include "model/transformer/format_choice.hpp"

namespace tandem::cli {
namespace {

using model::Seconds;

// A part of what new tokens, or the prompt, wait for.
struct Part {
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

std::string remedy_of(model::WaitCause cause) {
  switch (cause) {
    case model::WaitCause::compute:
      return "faster devices, or weights in fewer bits (--dtype)";
    case model::WaitCause::disk:
      return "more memory for weights, weights in fewer bits (--dtype), or a faster disk";
    case model::WaitCause::latency:
      return "links with less latency (a cable instead of Wi-Fi), or fewer devices where memory "
             "allows";
    case model::WaitCause::bandwidth:
      return "links with more bandwidth, or messages in fewer bits (--wire-type)";
    case model::WaitCause::copying:
    case model::WaitCause::overhead:
      return "fewer devices where memory allows, or messages in fewer bits (--wire-type)";
  }
  return "";
}

}  // namespace

std::string bottleneck_text(const planner::Plan& plan) {
  const model::Bottleneck found = study::bottleneck_of(plan, study::EvaluatorKind::analytic);
  const bool generates = !found.token.empty();
  const std::vector<model::Waiting>& waiting = generates ? found.token : found.prompt;
  double total = 0.0;
  std::map<model::WaitCause, Part> parts;
  for (const model::Waiting& one : waiting) {
    total += one.seconds;
    Part& part = parts[one.cause];
    part.seconds += one.seconds;
    ++part.count;
    if (part.largest == nullptr || one.seconds > part.largest->seconds) part.largest = &one;
  }
  if (total <= 0.0) return "";
  const auto most =
      std::ranges::max_element(parts, {}, [](const auto& entry) { return entry.second.seconds; });
  const auto percent = [total](double seconds) {
    return model::fixed(100.0 * seconds / total, 0) + '%';
  };
  const Part& part = most->second;
  std::string text = std::string("Bottleneck of ") + (generates ? "new tokens" : "the prompt") +
                     ": " + noun_of(most->first) + ", " + percent(part.seconds) + " of the time";
  if (most->first != model::WaitCause::latency) {
    text += part.count == 1
                ? " (" + part.largest->what + ")"
                : " (" + part.largest->what + " alone " + percent(part.largest->seconds) + ")";
  }
  return text + ". What would help most: " + remedy_of(most->first) + ".";
}

void print_answer(const planner::Plan& plan, const model::Result& predicted,
                  const std::optional<study::Choice>& choice, std::size_t platform_devices,
                  const std::string& shortened, std::ostream& out) {
  const auto used = static_cast<std::size_t>(plan.cluster.size());
  out << plan.model.name << " in " << model::format_name(plan.model) << " fits on "
      << (used == platform_devices
              ? used == 1 ? std::string("the device") : "all " + std::to_string(used) + " devices"
              : std::to_string(used) + " of " + std::to_string(platform_devices) + " devices")
      << " of " << plan.cluster.name() << " with strategy " << plan.strategy
      << (plan.streams() ? "; some weights stream from disk.\n" : ".\n");
  if (predicted.requests.size() == 1) {
    const model::RequestResult& request = predicted.requests.front();
    const std::vector<double> gaps = predicted.metrics.token_latencies_s();
    const bool generates = !predicted.metrics.token_times_s.empty();
    out << (generates ? "First token after " : "Pass in ") << to_text(Seconds{request.ttft_s});
    if (!gaps.empty()) {
      const double rate = static_cast<double>(gaps.size()) / (request.end_s - request.ttft_s);
      out << ", then " << model::fixed(rate, rate < 10.0 ? 2 : 0) << " tokens a second; "
          << to_text(plan.workload) << " take " << to_text(Seconds{request.end_s});
    }
    out << (shortened.empty() ? "" : " (" + shortened + ")") << ".\n";
    if (const std::string text = bottleneck_text(plan); !text.empty()) out << text << '\n';
  }
  if (choice && choice->contenders.size() > 1) {
    const study::Contender& next = choice->contenders[1];
    const double longer = next.seconds / choice->contenders.front().seconds - 1.0;
    out << "Best alternative: strategy " << next.plan.strategy << " on " << next.plan.cluster.size()
        << (next.plan.cluster.size() == 1 ? " device, " : " devices, ")
        << model::fixed(std::max(0.0, 100.0 * longer), 0) << "% longer.\n";
  }
  if (choice && !choice->to_the_end) {
    out << "Stopped after " << choice->evaluations << " evaluations in "
        << model::fixed(choice->elapsed_s, 1)
        << " s; a better plan may be found with --seconds 0, which searches to the end.\n";
  }
  out << '\n';
}

}  // namespace tandem::cli
