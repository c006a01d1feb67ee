#pragma once

// Which layers the stages of a pipeline have if its prompt is read in chunks.

#include <variant>
#include <vector>

#include "planner/serving/service_search.hpp"

namespace tandem::planner {

// Returns the requests whose shares are tried for a prompt in chunks, the first of them `request`.
// Where it leaves layers to the search, the others have layers for the highest rate, by Galaxy's
// Algorithm 1, in proportion to the devices' speeds, and in equal numbers: while a prompt is read
// all stages work at once, but layers for a whole prompt are many at the fastest device.
[[nodiscard]] std::vector<Request> requests_in_chunks(const Request& request);

// Returns `made`, a plan of `request`, or a faster one with other numbers of layers: single layers
// pass from stage to stage as long as that saves time, then chunk and steps in flight are found
// again. Its own answer if the request gives shares, or weights stream. Ends early with the best so
// far (search_effort.hpp).
[[nodiscard]] ServicePlan with_moved_layers(const Request& request, ServicePlan made,
                                            const Service& service);

// Returns the fastest of make_service_plan(), roughly, for requests_in_chunks(), then, unless
// `roughly`, of the two fastest the better after read_again() and with_moved_layers(), where they
// are not far behind others of Service::times. Throws Error as the first does for `request`.
[[nodiscard]] std::variant<ServicePlan, Infeasible> make_layered_plan(const Request& request,
                                                                      const Service& service,
                                                                      bool roughly = false);

}  // namespace tandem::planner
