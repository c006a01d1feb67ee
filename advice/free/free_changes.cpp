#include "advice/free/free_changes.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "advice/first_line.hpp"
#include "advice/free/replicas_change.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/affordable_types.hpp"

namespace tandem::study {
namespace {

constexpr double kOfReplicas = 0.7;  // the part of the time that their search may take

using Kinds = std::array<const FreeChangeKind*, 8>;

// The most likely to gain first.
const Kinds& kinds() {
  static const Kinds all{&messages_change(), &levels_change(), &head_change(),    &cache_change(),
                         &chunks_change(),   &window_change(), &devices_change(), &master_change()};
  return all;
}

FreeChange change_of(std::string_view kind, Offer offer) {
  return {.kind = std::string(kind),
          .what = std::move(offer.what),
          .price = offer.price,
          .price_text = std::move(offer.price_text),
          .flags = std::move(offer.ask.flags),
          .without = std::move(offer.ask.without)};
}

bool is_faster(const FreeChange& a, const FreeChange& b) {
  if (a.seconds && b.seconds) return *a.seconds < *b.seconds;
  return a.seconds.has_value() && !b.seconds.has_value();
}

// The changes of one question, tried one after another.
class Trials {
 public:
  explicit Trials(const FreeQuestion& question)
      : question_(&question),
        own_effort_(question.limits),
        effort_(question.effort != nullptr ? *question.effort : own_effort_) {
    effort_.has_plan();
    found_ = {.planned_s = question.planned_s,
              .unchanged_s = question.planned_s,
              .fixed = question.ask.flags};
  }

  FreeChanges run() {
    if (question_->replicas) try_replicas();
    for (const FreeChangeKind* const kind : kinds()) {
      for (Offer& offer : kind->offers(*question_)) try_one(kind->name, std::move(offer));
    }
    std::ranges::stable_sort(found_.tried, is_faster);
    // What a plan made anew gains by itself is no change's.
    if (question_->anew && !found_.worth().empty()) {
      if (const auto seconds = within_limits([&] { return timed(question_->ask); }))
        found_.unchanged_s = std::min(found_.planned_s, *seconds);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] double timed(const Ask& ask) {
    return searched_seconds(ask, question_->clock, effort_);
  }

  // Returns what `work` does; nothing if it has no plan (reason_) or did not end in time.
  template <class Work>
  auto within_limits(const Work& work) -> std::optional<decltype(work())> {
    reason_.clear();
    if (effort_.ended()) return std::nullopt;
    const planner::EffortScope counted(effort_);
    const planner::AbandonScope given_up(effort_);
    try {
      auto done = work();
      if (effort_.ended()) return std::nullopt;  // a search within it may have been cut
      return done;
    } catch (const Error& error) {
      if (!effort_.ended()) reason_ = first_line(error.what());
    } catch (const planner::SearchAbandoned&) {
    }
    return std::nullopt;
  }

  // Why the types that are asked for are beyond the bound; empty: they are within.
  [[nodiscard]] std::string beyond_bound(const planner::Request& request) const {
    const planner::Plan& plan = *question_->plan;
    const bool is_same = request.wire == plan.wire && request.model.cache == plan.model.cache;
    if (!question_->most_loss || is_same) return {};
    const std::optional<double> lost =
        planner::loss_of_types(request, question_->prices.value_or(planner::FormatPrices{}));
    if (!lost) return "what this loses was not measured of the model";
    if (planner::is_within(*lost, *question_->most_loss)) return {};
    return "loses " + model::shortest_text(*lost) + " bits per byte, of at most " +
           model::shortest_text(*question_->most_loss);
  }

  void try_one(std::string_view kind, Offer offer) {
    if (offer.obstacle.empty()) offer.obstacle = beyond_bound(offer.ask.request);
    if (!offer.obstacle.empty()) {
      std::string obstacle = std::move(offer.obstacle);
      FreeChange change = change_of(kind, std::move(offer));
      change.obstacle = std::move(obstacle);
      return found_.tried.push_back(std::move(change));
    }
    const std::optional<double> seconds = within_limits([&] { return timed(offer.ask); });
    if (!seconds && reason_.empty()) return skip(kind);
    FreeChange change = change_of(kind, std::move(offer));
    change.seconds = seconds;
    change.obstacle = reason_;
    found_.tried.push_back(std::move(change));
  }

  void try_replicas() {
    const std::string name("replicas");
    planner::SearchEffort::Limits left = question_->limits;
    if (left.seconds) left.seconds = *left.seconds * kOfReplicas;
    std::optional<FreeChange> change = replicas_change(*question_->replicas, left, effort_);
    if (change) return found_.tried.push_back(std::move(*change));
    skip(name);
  }

  void skip(std::string_view kind) {
    if (std::ranges::find(found_.not_tried, kind) == found_.not_tried.end())
      found_.not_tried.emplace_back(kind);
  }

  const FreeQuestion* question_;
  planner::SearchEffort own_effort_;
  planner::SearchEffort& effort_;
  FreeChanges found_;
  std::string reason_;  // for which the last work has no plan
};

}  // namespace

double FreeChanges::gain(const FreeChange& change) const {
  require(change.seconds.has_value(), "FreeChanges::gain: of a change that is possible");
  return 1.0 - *change.seconds / unchanged_s;
}

std::vector<const FreeChange*> FreeChanges::worth() const {
  std::vector<const FreeChange*> all;
  for (const FreeChange& change : tried) {
    if (!change.seconds || gain(change) < kWorthSaying) continue;
    const bool outdone = std::ranges::any_of(all, [&](const FreeChange* faster) {
      if (faster->kind != change.kind) return false;
      return faster->price == Price::nothing ||
             (faster->price == change.price && change.price != Price::quality);
    });
    if (!outdone) all.push_back(&change);
  }
  return all;
}

FreeChanges free_changes(const FreeQuestion& question) { return Trials(question).run(); }

}  // namespace tandem::study
