#include "planner/search/sp_choice.hpp"

#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

double prompt_bytes(const Plan& plan) {
  double bytes = 0.0;
  const model::TaskGraph graph =
      find_strategy(plan.strategy).lower(plan, prompt_batch(plan.workload));
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == model::TaskKind::transfer)
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

// Returns the bytes of the layers' weights that devices do not hold themselves, in total.
double lacking_bytes(const Plan& plan) {
  const model::Transformer& t = plan.model;
  std::int64_t bytes = 0;
  for (const DevicePlan& device : plan.devices) {
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(t.layers); ++layer) {
      bytes += t.attention_bytes(layer, whole_range(t.heads)) +
               t.ffn_bytes(layer, whole_range(t.intermediate)) -
               t.attention_bytes(layer, device.share.heads) -
               t.ffn_bytes(layer, device.share.columns);
    }
  }
  return static_cast<double>(bytes);
}

SpOption option_of(Request request, const std::string& strategy) {
  request.strategy = strategy;
  request.gather_weights =
      request.gather_weights && find_strategy(strategy).sharding.gather_weights;
  auto answer = make_plan(request);
  if (auto* const no = std::get_if<Infeasible>(&answer))
    return {.plan = std::nullopt, .reason = std::move(no->reason)};
  Plan& plan = std::get<Plan>(answer);
  const double seconds = predicted_time(plan, request.objective, request.evaluate);
  const double bytes = prompt_bytes(plan);
  return {.plan = std::move(plan), .reason = {}, .seconds = seconds, .prompt_bytes = bytes};
}

// With all weights on each device; if these do not fit, or the request says so, with gathered
// weights.
SpOption ntp_way(const Request& request, const Strategy& ntp) {
  SpOption option = option_of(request, ntp.name);
  const bool fits = option.plan && !option.plan->streams();
  if (fits || request.gather_weights || !ntp.sharding.gather_weights ||
      request.window.blocks.value_or(0) > 0 || !can_gather(request.cluster))
    return option;
  Request gathering = request;
  gathering.gather_weights = true;
  SpOption gathered = option_of(gathering, ntp.name);
  const bool better = gathered.plan && (!option.plan || gathered.seconds < option.seconds);
  return better ? gathered : option;
}

bool gathers(const SpOption& option) { return option.plan && option.plan->gather_weights; }

const char* name_of(bool ntp) { return ntp ? "SP-NTP" : "SP-TP"; }

std::string describe(const SpOption& option, bool ntp) {
  const std::string name =
      std::string(name_of(ntp)) + (gathers(option) ? ", weights gathered" : "");
  if (!option.plan)
    return name + ": no plan (" + option.reason.substr(0, option.reason.find('\n')) + ")";
  return name + ": " + model::to_text(model::Seconds{option.seconds}) + ", a prompt's messages " +
         model::to_text(model::Bytes{option.prompt_bytes});
}

}  // namespace

SpRule sp_rule(std::int64_t hidden, std::int64_t tokens, std::int64_t devices) {
  require(hidden >= 1 && tokens >= 1 && devices >= 1, "sp_rule: sizes are positive");
  const double part = 1.0 / static_cast<double>(devices);
  return {.ratio = static_cast<double>(hidden) / static_cast<double>(tokens),
          .attention_limit = (1.0 - 2.0 * part) / 2.0,
          .ffn_limit = (1.0 - part) / 3.0};
}

SpChoice choose_sp(const Request& request, SearchEffort& effort) {
  const EffortScope scope(effort);
  const model::Transformer& t = request.model;
  const Strategy& ntp = find_strategy(request.strategy);
  const std::string split = with_split_weights(ntp);
  require(!split.empty(), "choose_sp: of a strategy with two ways");
  SpChoice choice;
  choice.ntp = ntp_way(request, ntp);
  if (choice.ntp.plan) effort.has_plan();
  choice.tp = option_of(request, split);
  const std::int64_t devices = request.cluster.size();
  choice.rule = sp_rule(t.hidden, request.workload.prompt_tokens, devices);
  if (choice.tp.plan) choice.gathered_bytes = lacking_bytes(*choice.tp.plan);
  choice.takes_ntp =
      choice.ntp.plan && (!choice.tp.plan || choice.ntp.seconds <= choice.tp.seconds);
  return choice;
}

std::string describe(const SpChoice& choice, Objective objective) {
  const SpRule& rule = choice.rule;
  const auto figure = [](double value) { return model::fixed(value, 3); };
  std::string text = "objective " + std::string(to_string(objective)) + ", " +
                     describe(choice.ntp, true) + "; " + describe(choice.tp, false) +
                     "; taken: " + name_of(choice.takes_ntp) + '\n';
  text += "the paper's rule (appendix A): h / L = " + figure(rule.ratio) + " against " +
          figure(rule.attention_limit) +
          " (attention alone): " + name_of(rule.attention_says_ntp()) + ", against " +
          figure(rule.ffn_limit) + " (with the FFN): " + name_of(rule.ffn_says_ntp()) +
          "; it has SP-NTP gather weights that lie split, " +
          model::to_text(model::Bytes{choice.gathered_bytes}) +
          (gathers(choice.ntp) ? " by the shares of SP-TP, which its messages have in them\n"
                               : " here, where each device has them all instead\n");
  if (rule.attention_limit <= 0.0)
    text += "of two devices the rule never chooses SP-NTP, where the paper's text says always\n";
  if (!choice.ntp.plan || !choice.tp.plan) return text;
  const bool less = choice.ntp.prompt_bytes < choice.tp.prompt_bytes;
  const double weights = gathers(choice.ntp) ? 0.0 : choice.gathered_bytes;
  const bool gathered_less = choice.ntp.prompt_bytes + weights < choice.tp.prompt_bytes;
  if (less != choice.takes_ntp) {
    text += std::string(name_of(less)) + " sends fewer bytes, but " + name_of(choice.takes_ntp) +
            " is predicted to be faster\n";
  }
  if (gathered_less != rule.ffn_says_ntp()) {
    text += std::string("with those weights ") + name_of(gathered_less) +
            " would send fewer bytes by the graphs, where the rule says " +
            name_of(rule.ffn_says_ntp()) + "\n";
  }
  return text;
}

}  // namespace tandem::planner
