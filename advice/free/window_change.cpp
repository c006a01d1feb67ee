#include <utility>

#include "advice/free/free_change.hpp"

namespace tandem::study {
namespace {

std::vector<Offer> windows(const FreeQuestion& question) {
  const planner::WindowRequest& given = question.ask.request.window;
  const bool limits = given.blocks.value_or(0) > 0 || given.retain.has_value();
  if (!limits || !question.plan->streams()) return {};
  Offer offer{.what = "the best windows",
              .price = Price::memory,
              .price_text = "devices may use all the memory that they have",
              .ask = question.ask};
  offer.ask.request.window = {.blocks = {}, .retain = {}, .search = given.search};
  offer.ask.leave_out({"window", "retain", "release"});
  offer.ask.request.release = model::ReleaseRule::early;
  // With a window prompts are read whole; without one that has to be asked for.
  const PromptReading& prompt = offer.ask.prompt;
  if (!offer.ask.served && !prompt.best && prompt.rows == 0 && !reads_whole(offer.ask.request))
    offer.ask.set("chunk", "whole");
  return {std::move(offer)};
}

}  // namespace

const FreeChangeKind& window_change() {
  static constexpr FreeChangeKind kind{.name = "windows", .offers = windows};
  return kind;
}

}  // namespace tandem::study
