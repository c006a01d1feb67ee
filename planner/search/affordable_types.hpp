#pragma once

// The types of messages and of the cache within a request's LossBudget. Losses add up.

#include <optional>
#include <vector>

#include "planner/search/request.hpp"

namespace tandem::planner {

// What a plan loses by its formats, in bits per byte.
struct FormatLosses {
  double messages = 0.0;
  double cache = 0.0;
  [[nodiscard]] double total() const { return messages + cache; }
};

// Returns the losses of a plan's types. A plan that sends nothing loses nothing by its messages.
// Throws Error for a type whose loss was not measured.
[[nodiscard]] FormatLosses losses_of(const Plan& plan, const FormatPrices& prices);

// Returns the sum for the types of a request; nothing if one was not measured.
[[nodiscard]] std::optional<double> loss_of_types(const Request& request,
                                                  const FormatPrices& prices);

// The same for the types of a request with a budget.
[[nodiscard]] FormatLosses losses_of(const Request& request);

// Returns the types of messages that the budget allows beside the request's cache (if that is open:
// beside f32), narrowest first; f32 is always one, and the only one where nothing is sent. f16 is
// none: bf16 has the same size and the range of f32. Precondition: a budget.
[[nodiscard]] std::vector<model::WireFormat> affordable_wires(const Request& request);
// The same for the cache, beside the request's messages: types whose blocks the heads fill, with a
// rate in every profile.
[[nodiscard]] std::vector<model::CacheFormat> affordable_caches(const Request& request);

// Returns the request with the pair of these types that needs the least memory in place of open
// ones: the narrowest cache, and beside it the narrowest messages. Without a budget the request
// itself.
[[nodiscard]] Request with_narrowest_types(Request request);

// Returns the request with each pair of these types in place of open ones, narrowest first; without
// a budget the request itself.
[[nodiscard]] std::vector<Request> with_affordable_types(const Request& request);

// Throws Error if the types that are given exceed the request's budget, or were not measured.
void check_budget(const Request& request);

}  // namespace tandem::planner
