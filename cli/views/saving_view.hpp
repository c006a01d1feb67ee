#pragma once

// What a plan could save at a price that is the user's to accept.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>

#include "advice/message_saving.hpp"
#include "cli/flags/workload_flags.hpp"

namespace tandem::cli {

// Returns the saving of messages in fewer bits (advice/message_saving.hpp).
[[nodiscard]] std::optional<study::MessageSaving> saving_of(const planner::Plan& plan,
                                                            const std::optional<Served>& served,
                                                            const model::Result& predicted,
                                                            planner::Objective objective);

// One line; nothing without a saving.
void print_saving(const std::optional<study::MessageSaving>& saving, std::ostream& out);
// A list of {"flag", "seconds", "part", "price"}; empty without a saving.
[[nodiscard]] nlohmann::ordered_json saving_json(const std::optional<study::MessageSaving>& saving);

}  // namespace tandem::cli
