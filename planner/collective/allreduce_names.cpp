#include <charconv>
#include <optional>

#include "model/base/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/collective/composed.hpp"
#include "planner/collective/hierarchical.hpp"

// Names of collectives and of their compositions.

namespace tandem::planner {
namespace {

constexpr std::int32_t kMaxDepth = 64;
constexpr std::size_t kMaxShown = 64;  // characters of a text in a message

// None if the text is not the name of one of the table, with a depth where it has one.
std::optional<Allreduce> parse_single(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const Collective& collective : collectives()) {
    if (text.substr(0, colon) != collective.name) continue;
    if (colon == std::string_view::npos)
      return Allreduce{&collective, collective.has_depth ? kTreeDepth : 0};
    if (!collective.has_depth) return std::nullopt;
    const std::string_view digits = text.substr(colon + 1);
    std::int32_t depth = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), depth);
    if (error != std::errc{} || end != digits.data() + digits.size() || depth < 1 ||
        depth > kMaxDepth)
      return std::nullopt;
    return Allreduce{&collective, depth};
  }
  return std::nullopt;
}

// "hierarchical:IN+AMONG". None if it is not that, or one of the two is hierarchical itself.
std::optional<Allreduce> parse_composition(std::string_view text) {
  const std::string prefix = std::string(kHierarchical) + ":";
  const std::size_t plus = text.find('+');
  if (!text.starts_with(prefix) || plus == std::string_view::npos) return std::nullopt;
  const auto inside = parse_single(text.substr(prefix.size(), plus - prefix.size()));
  const auto among = parse_single(text.substr(plus + 1));
  for (const auto* const level : {&inside, &among}) {
    if (!level->has_value() || (*level)->collective->name == kHierarchical) return std::nullopt;
  }
  return Allreduce{.collective = &composed_collective(),
                   .depth = 0,
                   .inside = {inside->collective, inside->depth},
                   .among = {among->collective, among->depth}};
}

}  // namespace

std::string allreduce_names() {
  std::string names;
  for (const Collective& collective : collectives()) {
    names += (names.empty() ? "" : ", ") + collective.name;
    if (collective.has_depth) names += "[:DEPTH]";
    if (collective.name == kHierarchical) names += "[:IN+AMONG]";
  }
  return names;
}

Allreduce parse_allreduce(std::string_view text) {
  std::optional<Allreduce> parsed = parse_single(text);
  if (!parsed) parsed = parse_composition(text);
  if (parsed) return *parsed;
  throw Error("allreduce '" + std::string(text.substr(0, kMaxShown)) +
              "': unknown, expected one of " + allreduce_names() + " with a depth of 1 to " +
              std::to_string(kMaxDepth) + " and IN, AMONG of the others");
}

}  // namespace tandem::planner
