#include "model/predict/deviation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/base/text_table.hpp"
#include "model/graph/work.hpp"
#include "model/predict/similar_profile.hpp"

namespace tandem::model {
namespace {

// What a profile cannot see: a run has its tasks in another order and other memory, and its own
// threads beside them.
constexpr double kUnseenByProfiles = 0.05;
// Of a profile that states no errors.
constexpr double kAssumedDrift = 0.15;
// Of the roofline of stated speeds: on an AMD EPYC (Zen 4), one thread, times were 0.4 to 1.7 times
// as long as it says (docs/results/measurements/0074-intervals.md).
constexpr double kNominal = 0.45;
constexpr double kNominalKind = 0.35;
// Of what no profile measures the error of.
constexpr double kMessages = 0.25;
constexpr double kDisk = 0.10;

bool is_message(TaskKind kind) {
  return kind == TaskKind::transfer || kind == TaskKind::capture || kind == TaskKind::deliver;
}

bool states_errors(const DeviceProfile& profile) { return profile.drift.has_value(); }

double of_rate(const KindRate* rate, double otherwise) {
  if (rate == nullptr || !rate->error) return otherwise;
  return std::hypot(rate->error->fit, rate->error->spread);
}

double of_kind(const DeviceProfile& profile, TaskKind kind, const Transformer& transformer) {
  if (kind == TaskKind::load) return profile.disk_spread.value_or(kDisk);
  const double otherwise = is_message(kind) ? kMessages : kAssumedKindDeviation;
  if (kind == TaskKind::attend || kind == TaskKind::score)
    return of_rate(profile.rate_of(kind, rated_as(transformer.cache)), otherwise);
  if (!reads_weights(kind))
    return of_rate(&profile.rate[static_cast<std::size_t>(rate_kind(kind))], otherwise);
  double most = 0.0;
  for (const WeightFormat format : transformer.formats_used())
    most = std::max(most, of_rate(profile.rate_of(kind, format), otherwise));
  return most;
}

std::string percent_text(double part) { return fixed(100.0 * part, 0) + '%'; }

// What the intervals of a device with `profile` are made of.
std::string basis_of(const DeviceProfile& profile) {
  if (!profile.measured())
    return "speeds that the platform states, by which computing may well take half or twice as "
           "long; measure a profile with `tandem profile`";
  if (is_similar(profile))
    return "a profile of another machine, scaled to the platform's speeds (" + profile.source +
           "), so " + percent_text(*profile.drift) +
           " are assumed; measure one with `tandem profile`";
  if (!states_errors(profile))
    return "a profile that states no errors, so " + percent_text(kAssumedDrift) +
           " of the machine and " + percent_text(kAssumedKindDeviation) +
           " of each kind of task are assumed; measure it again with `tandem profile`";
  return "the errors that profiles measured";
}

}  // namespace

DeviceDeviation deviation_of(const DeviceProfile& profile, const Transformer& transformer) {
  DeviceDeviation deviation;
  if (!profile.measured()) {
    deviation.systematic = kNominal;
    deviation.kind.fill(kNominalKind);
    return deviation;
  }
  deviation.systematic = kUnseenByProfiles;
  deviation.drift = profile.drift.value_or(kAssumedDrift);
  for (int k = 0; k < kTaskKinds; ++k)
    deviation.kind[static_cast<std::size_t>(k)] =
        of_kind(profile, static_cast<TaskKind>(k), transformer);
  return deviation;
}

std::string deviation_remark(const Cluster& cluster, const std::vector<DeviceProfile>& profiles) {
  constexpr std::size_t kNamed = 4;
  // By what their intervals are made of, in the order of the devices.
  std::vector<std::pair<std::string, std::vector<std::string>>> bases;
  for (std::size_t d = 0; d < profiles.size(); ++d) {
    const std::string basis = basis_of(profiles[d]);
    auto found = std::ranges::find(bases, basis, &decltype(bases)::value_type::first);
    if (found == bases.end()) found = bases.insert(found, {basis, {}});
    found->second.push_back(cluster.devices()[d].name);
  }
  std::string text = bases.size() > 1 ? "90% intervals: " : "90% intervals, from ";
  for (const auto& [basis, names] : bases) {
    if (&basis != &bases.front().first) text += "; ";
    if (bases.size() > 1) {
      text += names.size() > 1 ? "devices " : "device ";
      for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
        text += (i == 0 ? "'" : ", '") + names[i] + "'";
      if (names.size() > kNamed) text += " and " + std::to_string(names.size() - kNamed) + " more";
      text += ": ";
    }
    text += basis;
  }
  if (cluster.size() > 1) text += "; links are taken as exact";
  return text;
}

}  // namespace tandem::model
