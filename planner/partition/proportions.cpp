#include "planner/partition/proportions.hpp"

#include <charconv>
#include <cmath>
#include <string>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"
#include "planner/partition/exact/largest_remainder.hpp"

namespace tandem::planner {
namespace {

// Far beyond any ratio of devices, and small enough that sums stay finite.
constexpr double kLargest = 1e12;

double parse_number(std::string_view text, const std::string& subject) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0.0 || value > kLargest) {
    throw Error(subject + ": '" + std::string(text) + "': expected a number from 0 to 1e12");
  }
  return value;
}

}  // namespace

std::vector<double> parse_proportions(std::string_view text, const model::Cluster& cluster) {
  const std::string subject = "partition '" + std::string(text.substr(0, 200)) + "'";
  std::vector<double> proportions;
  for (const std::string& part : model::split_list(text, ':'))
    proportions.push_back(parse_number(part, subject));
  if (proportions.size() != cluster.devices().size()) {
    throw Error(subject + ": " + std::to_string(proportions.size()) +
                " proportions: expected one for each of the " + std::to_string(cluster.size()) +
                " devices of platform '" + cluster.name() + "'");
  }
  for (std::size_t d = 0; d < proportions.size(); ++d) {
    if (proportions[d] > 0.0) continue;
    throw Error(subject + ": device '" + cluster.devices()[d].name +
                "' gets no share: expected a proportion above 0; leave the device out of the "
                "platform if it shall do nothing");
  }
  return proportions;
}

std::vector<std::int64_t> proportional_heads(const model::Transformer& transformer,
                                             std::span<const double> proportions) {
  const std::int64_t unit = transformer.head_unit();
  return transformer.heads % unit == 0
             ? proportional_shares(proportions, transformer.heads, unit, 1)
             : proportional_shares(proportions, transformer.heads);
}

Split proportional_split(const model::Transformer& transformer,
                         std::span<const double> proportions) {
  return {proportional_heads(transformer, proportions),
          proportional_shares(proportions, transformer.intermediate, column_unit(transformer),
                              least_column_unit(transformer))};
}

}  // namespace tandem::planner
