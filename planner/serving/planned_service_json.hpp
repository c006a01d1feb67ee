#pragma once

// The keys of a plan file for the requests that the plan was made for. Internal: used by the plan's
// reader and writer.

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "model/base/json_value.hpp"
#include "planner/serving/planned_service.hpp"

namespace tandem::planner {

// Returns the service in a plan file's `root`; nothing for a plan of one request. Throws Error
// (source, field, value, expected, remedy) for malformed or incomplete keys.
[[nodiscard]] std::optional<PlannedService> read_planned_service(const model::JsonValue& root);

// Adds the keys of `service` to a plan's JSON.
void add_planned_service(const PlannedService& service, nlohmann::ordered_json& plan);

}  // namespace tandem::planner
