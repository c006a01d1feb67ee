#pragma once

// Words of the plan's JSON that reader and writer share.

#include <array>
#include <string_view>
#include <utility>

#include "model/cluster/cluster.hpp"
#include "model/graph/release_rule.hpp"

namespace tandem::planner {

inline constexpr std::string_view kPlanSchema = "tandem.plan/7";

inline constexpr std::array<std::pair<model::Sharing, std::string_view>, 3> kSharings{
    {{model::Sharing::shared, "shared"},
     {model::Sharing::split_duplex, "split_duplex"},
     {model::Sharing::fatpipe, "fatpipe"}}};
inline constexpr std::array<std::pair<model::Direction, std::string_view>, 3> kDirections{
    {{model::Direction::none, "none"},
     {model::Direction::up, "up"},
     {model::Direction::down, "down"}}};
inline constexpr std::array<std::pair<model::ReleaseRule, std::string_view>, 2> kReleases{
    {{model::ReleaseRule::early, "early"}, {model::ReleaseRule::late, "late"}}};

}  // namespace tandem::planner
