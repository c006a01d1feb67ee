#include "cli/fit_answers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <utility>

#include "advice/fit.hpp"
#include "advice/fit_placements.hpp"
#include "cli/files/model_context.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/plan_workload.hpp"
#include "cli/views/interruption.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/base/word_list.hpp"
#include "model/graph/memory.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/search/device_choice.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Bytes;
using model::Transformer;

// A line on standard error with the best so far; nothing unless that is a terminal.
class FitLine {
 public:
  explicit FitLine(bool shown) : shown_(shown && ::isatty(STDERR_FILENO) == 1) {}
  FitLine(const FitLine&) = delete;
  FitLine& operator=(const FitLine&) = delete;
  ~FitLine() {
    if (drawn_) std::cerr << "\r\033[K" << std::flush;
  }
  void show(const std::string& best, double elapsed_s) {
    ++checks_;
    if (!shown_) return;
    std::cerr << '\r' << (best.empty() ? "nothing so far" : "best so far " + best) << ", "
              << checks_ << (checks_ == 1 ? " placement, " : " placements, ")
              << model::fixed(elapsed_s, 0) << " s\033[K" << std::flush;
    drawn_ = true;
  }

 private:
  bool shown_;
  bool drawn_ = false;
  std::int64_t checks_ = 0;
};

std::string count_text(std::size_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

double weight_bytes(const Transformer& t) {
  const auto whole = [](std::int64_t size) {
    return model::Range{0, static_cast<std::int32_t>(size)};
  };
  return model::weight_bytes(t, {.layers = whole(t.layers),
                                 .heads = whole(t.heads),
                                 .columns = whole(t.intermediate),
                                 .embedding = true,
                                 .head = true});
}

// The formats of `--dtype` for `transformer`, if it is possible.
bool set_format(const Options& options, Transformer& transformer) {
  const auto dtype = options.text("dtype");
  if (!dtype) return true;
  const auto formats = model::chosen_formats(model::lower_case(*dtype), transformer);
  if (!formats) return false;
  transformer.formats = *formats;
  return true;
}

bool is_valid(const Transformer& transformer, const planner::Workload& workload) {
  try {
    transformer.validate();
    workload.validate(transformer);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The models of the list that generate and hold the request, the largest first.
std::vector<study::FitOption> model_options(const Options& options) {
  std::vector<study::FitOption> all;
  for (const std::string& name : known_models()) {
    Transformer transformer = load_model(name);
    if (!transformer.architecture().generates()) continue;
    transformer.cache = given_cache_type(options).value_or(model::CacheFormat::f32);
    if (!set_format(options, transformer)) continue;
    const planner::Workload lengths = lengths_of(options, name, transformer);
    if (is_valid(transformer, lengths))
      all.push_back({.name = name, .model = std::move(transformer), .workload = lengths});
  }
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const study::FitOption& one) { return one.model.parameters(); });
  return all;
}

// The model's own formats and those that take fewer bytes, the most first: others would keep no
// more of what the weights are stored in.
std::vector<study::FitOption> format_options(const planner::Request& request) {
  const double stored = weight_bytes(request.model);
  std::vector<study::FitOption> all{{.name = model::format_name(request.model),
                                     .model = request.model,
                                     .workload = request.workload}};
  for (const std::string_view name : model::format_choices()) {
    Transformer transformer = request.model;
    transformer.formats = *model::chosen_formats(name, transformer);
    const bool known = std::ranges::any_of(
        all, [&](const study::FitOption& one) { return one.model.formats == transformer.formats; });
    // A mix of other formats because rows are no whole blocks has a better name.
    if (known || !is_valid(transformer, request.workload) || weight_bytes(transformer) >= stored)
      continue;
    all.push_back(
        {.name = std::string(name), .model = std::move(transformer), .workload = request.workload});
  }
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const study::FitOption& one) { return weight_bytes(one.model); });
  return all;
}

std::string where_text(const planner::Plan& plan) {
  return " (with strategy " + plan.strategy + " on " +
         count_text(plan.cluster.devices().size(), "device") + ")";
}

// Half of the limits.
planner::SearchEffort::Limits half(planner::SearchEffort::Limits limits) {
  if (limits.seconds) limits.seconds = *limits.seconds / 2.0;
  if (limits.evaluations) limits.evaluations = std::max<std::int64_t>(1, *limits.evaluations / 2);
  return limits;
}

class Finder {
 public:
  Finder(const Options& options, FitAsked asked)
      : options_(&options),
        effort_(half(asked.limits)),
        line_(!options.has("quiet")),
        fitted_{.found = resident(options, std::move(asked))},
        question_{
            .request = fitted_.found.request,
            .any_strategy = fitted_.found.any_strategy,
            .reading = fitted_.found.reading,
            .effort = &effort_,
            .progress = [this](const std::string& best) { line_.show(best, effort_.seconds()); }},
        interruption_([this](const std::string&) { effort_.interrupt(); }, {},
                      std::chrono::seconds(10)) {}

  Fitted find() && {
    switch (fitted_.found.goal) {
      case FitGoal::context:
        find_context();
        break;
      case FitGoal::model:
        find_model();
        break;
      case FitGoal::devices:
        find_devices();
        break;
      case FitGoal::dtype:
        find_format();
        break;
    }
    return std::move(fitted_);
  }

 private:
  // Weights stay in memory unless a window is given: with a disk, any model would fit.
  static FitAsked resident(const Options& options, FitAsked asked) {
    if (!options.has("window")) asked.request.window.blocks = 0;
    if (!asked.formats.empty()) asked.request.model.formats = asked.formats.front();
    return asked;
  }

  [[nodiscard]] planner::Request& request() { return fitted_.found.request; }
  [[nodiscard]] std::string model_text() {
    return request().model.name + " in " + model::format_name(request().model);
  }

  void find_context() {
    const ContextRange range = context_range(*options_, request().workload, request().model);
    study::LongestContext found =
        study::longest_context(question_, range.least, range.most,
                               [&](std::int64_t context) { return range.lengths(context); });
    finish(found.effort, std::move(found.at));
    fitted_.json["context"] = found.tokens;
    fitted_.json["most"] = range.most;
    fitted_.json["beyond"] = found.beyond.empty() ? Json() : Json(found.beyond);
    if (!fitted_.plan) {
      nothing("not even " + std::to_string(range.least) + " tokens of " + model_text() +
              " fit on " + request().cluster.name());
      return;
    }
    request().workload = range.lengths(found.tokens);
    fitted_.text = "The longest context of " + model_text() + " on " + request().cluster.name() +
                   " is " + std::to_string(found.tokens) +
                   " tokens: " + to_text(request().workload) + ".\n";
    if (found.tokens == range.most) {
      const std::int64_t stated = stated_context(fitted_.found.model_name);
      fitted_.text += stated == range.most
                          ? "That is the model's own maximum.\n"
                          : "That is tandem's maximum for the model, whose file states " +
                                std::to_string(stated) +
                                " tokens: beyond the first chunk or window of its attention, "
                                "results would be wrong.\n";
    } else if (found.effort.complete) {
      fitted_.text +=
          "One token more does not fit" + where_text(*fitted_.plan) + ": " + found.beyond + ".\n";
    }
    end(found.effort);
  }

  void find_model() {
    const std::vector<study::FitOption> options = model_options(*options_);
    if (options.empty())
      throw Error("flag '--fit': no model of 'tandem model list' has a context of " +
                  to_text(request().workload) + " in this format; give fewer tokens");
    find_first(options);
    if (!fitted_.plan) {
      nothing("no model of 'tandem model list' fits on " + request().cluster.name());
      return;
    }
    fitted_.found.model_name = options[*first_.index].name;
    fitted_.json["model"] = fitted_.found.model_name;
    fitted_.text = "The largest model of 'tandem model list' that fits on " +
                   request().cluster.name() + " is " + fitted_.found.model_name + " in " +
                   model::format_name(request().model) + ", " +
                   model::fixed(static_cast<double>(request().model.parameters()) * 1e-9, 2) +
                   "e9 parameters.\n";
    add_before("The next larger one, ");
  }

  void find_format() {
    const std::vector<study::FitOption> options = format_options(request());
    find_first(options);
    if (!fitted_.plan) {
      nothing(request().model.name + " fits in no format on " + request().cluster.name());
      return;
    }
    fitted_.json["dtype"] = options[*first_.index].name;
    fitted_.text = "The most precise format of " + request().model.name + " that fits on " +
                   request().cluster.name() + " is " + options[*first_.index].name + ", " +
                   to_text(Bytes{weight_bytes(request().model)}) + " of weights.\n";
    if (*first_.index == 0) fitted_.text += "That is what its weights are stored in.\n";
    add_before("The next more precise one, ");
  }

  void find_first(const std::vector<study::FitOption>& options) {
    first_ = study::first_fit(question_, options);
    finish(first_.effort, std::move(first_.at));
    fitted_.json["beyond"] = first_.before.empty() ? Json() : Json(first_.before);
    if (!fitted_.plan) return;
    const study::FitOption& option = options[*first_.index];
    request().model = option.model;
    request().workload = option.workload;
    fitted_.found.formats.clear();
    if (fitted_.found.any_strategy) fitted_.found.formats.push_back(option.model.formats);
  }

  void add_before(const std::string& begin) {
    if (!first_.before.empty()) fitted_.text += begin + first_.before + ".\n";
    end(first_.effort);
  }

  void find_devices() {
    study::FewestDevicesFit found = study::fewest_devices(question_);
    const std::size_t all = request().cluster.devices().size();
    const std::string platform = request().cluster.name();
    finish(found.effort, std::move(found.at));
    fitted_.json["devices"] = Json::array();
    fitted_.json["beyond"] = found.fewer.empty() ? Json() : Json(found.fewer);
    if (!fitted_.plan) {
      nothing("all " + count_text(all, "device") + " of " + platform + " do not hold " +
              model_text());
      return;
    }
    std::string names;
    std::vector<bool> used(all, false);
    for (const model::Device& device : fitted_.plan->cluster.devices()) {
      used[static_cast<std::size_t>(request().cluster.find(device.name))] = true;
      names += (names.empty() ? "" : ", ") + device.name;
      fitted_.json["devices"].push_back(device.name);
    }
    const std::string model = model_text() + " for " + to_text(request().workload);
    request() = planner::for_devices(std::move(request()), used);
    fitted_.text = "The fewest devices of " + platform + " that hold " + model + " are " +
                   std::to_string(found.devices) + " of " + std::to_string(all) + ": " + names +
                   ".\n";
    if (!found.fewer.empty()) fitted_.text += "With one device fewer: " + found.fewer + ".\n";
    if (!found.effort.all_subsets)
      fitted_.text +=
          "Of each number only the devices near the master and those with most memory "
          "were considered, as the platform has more than " +
          std::to_string(study::kMostSubsetDevices) + ".\n";
    end(found.effort);
  }

  // Takes a plan, and what is left of the limits.
  void finish(const study::FitEffort& effort, study::Fit at) {
    fitted_.plan = std::move(at.plan);
    fitted_.chunk = at.chunk;
    fitted_.interrupted = effort_.interrupted();
    reason_ = std::move(at.reason);
    if (!fitted_.plan && fitted_.interrupted)
      throw Error("interrupted before anything was found to fit");
    fitted_.json["goal"] = std::string(to_string(fitted_.found.goal));
    fitted_.checks = effort.checks;
    fitted_.json["checks"] = effort.checks;
    fitted_.json["complete"] = effort.complete;
    planner::SearchEffort::Limits& limits = fitted_.found.limits;
    constexpr double kLeastSeconds = 0.01;
    if (limits.seconds)
      limits.seconds = std::max(kLeastSeconds, *limits.seconds - effort_.seconds());
    if (limits.evaluations)
      limits.evaluations = std::max<std::int64_t>(1, *limits.evaluations - effort.checks);
  }

  void nothing(const std::string& what) {
    fitted_.text = what + (reason_.empty() ? "" : ":\n" + reason_) + "\n";
    if (!options_->has("window"))
      fitted_.text +=
          "all weights are to stay in memory; with '--window auto' some may stream from "
          "disk\n";
  }

  void end(const study::FitEffort& effort) {
    if (!options_->has("window"))
      fitted_.text +=
          "All weights stay in memory; with '--window auto' some may stream from disk.\n";
    fitted_.text += std::string(effort.complete ? "Found" : "Stopped") +
                    " after checking the memory of " +
                    count_text(static_cast<std::size_t>(effort.checks), "placement") + " in " +
                    model::fixed(effort_.seconds(), 1) + " s" +
                    (effort.complete ? "" : "; more may fit") + ".\n";
  }

  const Options* options_;
  planner::SearchEffort effort_;
  FitLine line_;
  Fitted fitted_;
  study::FitQuestion question_;
  study::FirstFit first_{};
  std::string reason_{};
  Interruption interruption_;  // last: its thread uses the others
};

}  // namespace

Fitted find_fit(const Options& options, FitAsked asked) {
  return Finder(options, std::move(asked)).find();
}

std::string stand_in_model() {
  for (const std::string& name : known_models()) {
    if (load_model(name).architecture().generates()) return name;
  }
  throw Error("flag '--fit': no model of 'tandem model list' generates tokens; give '--model'");
}

std::string scarcest_memory(const planner::Plan& plan) {
  std::size_t scarcest = 0;
  const auto part = [&](std::size_t d) {
    return plan.devices[d].memory.total() / plan.cluster.devices()[d].memory.value();
  };
  for (std::size_t d = 1; d < plan.devices.size(); ++d) {
    if (part(d) > part(scarcest)) scarcest = d;
  }
  const model::MemoryUse& use = plan.devices[scarcest].memory;
  std::array<std::pair<double, const char*>, 5> terms{{{use.weights, "weights"},
                                                       {use.kv_cache, "KV cache"},
                                                       {use.activations, "activations"},
                                                       {use.buffers, "buffers"},
                                                       {use.program, "program"}}};
  std::ranges::stable_sort(terms, std::ranges::greater{},
                           [](const auto& term) { return term.first; });
  std::string text = "Memory is scarcest on " + plan.cluster.devices()[scarcest].name + ", " +
                     model::fixed(100.0 * part(scarcest), 1) + "% of " +
                     to_text(plan.cluster.devices()[scarcest].memory) + " in use:";
  for (std::size_t i = 0; i < terms.size(); ++i)
    text +=
        std::string(i == 0 ? " " : ", ") + terms[i].second + ' ' + to_text(Bytes{terms[i].first});
  return text + ".";
}

}  // namespace tandem::cli
