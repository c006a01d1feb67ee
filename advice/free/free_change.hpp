#pragma once

// Changes of a plan for which nothing must be bought: what each is, its flags and its price. Each
// has a file NAME_change.cpp and a row of the list in free_changes.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/ask.hpp"
#include "advice/question.hpp"

namespace tandem::study {

enum class Price : std::uint8_t { nothing, quality, memory, privacy, generality };
[[nodiscard]] std::string_view to_string(Price price);

// A change that may be made to a plan.
struct Offer {
  std::string what;  // "messages in q8_0"
  Price price = Price::nothing;
  std::string price_text;  // for users
  Ask ask;
  std::string obstacle{};  // why it cannot be planned; empty: none is known
};

// The plan that changes are offered for.
struct FreeQuestion {
  Ask ask;  // plans it anew; its flags fix what the command left to a search
  const planner::Plan* plan = nullptr;
  double planned_s = 0.0;  // its objective
  // Plan the other strategies' best anew, where strategies were searched; the fastest first.
  std::vector<Ask> others{};
  bool anew = false;           // whether `ask` may find a faster plan without a change
  bool of_file = false;        // profiles have the rates of the plan's own formats alone
  bool chose_devices = false;  // they were searched
  bool chose_master = false;
  std::optional<planner::FormatPrices> prices{};  // measured of the model
  // With prices: what types may lose, beside what the plan loses otherwise; absent: no bound.
  std::optional<double> most_loss{};
  std::vector<std::string> named{};  // devices that other flags of the command name
  PlanClock clock{};                 // of the objective
  // Many requests whose strategy was searched: what replicas are searched for, with limits.
  std::optional<Question> replicas{};
  planner::SearchEffort::Limits limits{};
  planner::SearchEffort* effort = nullptr;  // with these limits, if it may be interrupted
};

// Returns the words for a type's price: the loss as measured, or what measures it.
[[nodiscard]] std::string price_words(const std::optional<planner::FormatPrices>& prices,
                                      model::WireFormat type);
[[nodiscard]] std::string price_words(const std::optional<planner::FormatPrices>& prices,
                                      model::CacheFormat type);

struct FreeChangeKind {
  std::string_view name;
  std::vector<Offer> (*offers)(const FreeQuestion& question);
};

// The type in which activations travel: bf16 and q8_0, where the plan's is wider.
[[nodiscard]] const FreeChangeKind& messages_change();
// The type of the key/value cache: those that are narrower than the plan's.
[[nodiscard]] const FreeChangeKind& cache_change();
// The LM head on all devices.
[[nodiscard]] const FreeChangeKind& head_change();
// Two levels of a prompt's attention with nothing dropped.
[[nodiscard]] const FreeChangeKind& levels_change();
// How prompts are read, where that was given: as is best.
[[nodiscard]] const FreeChangeKind& chunks_change();
// Windows of weights, where they were given: as is best.
[[nodiscard]] const FreeChangeKind& window_change();
// Without one of the devices, or one alone, where devices were not searched.
[[nodiscard]] const FreeChangeKind& devices_change();
// Another master, where it was not searched.
[[nodiscard]] const FreeChangeKind& master_change();

}  // namespace tandem::study
