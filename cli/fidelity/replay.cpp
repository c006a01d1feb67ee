#include "cli/fidelity/replay.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "advice/fidelity/deviation_summary.hpp"
#include "advice/fidelity/packed_plan.hpp"
#include "advice/fidelity/report_text.hpp"
#include "cli/fidelity/recordings_folder.hpp"
#include "cli/files/files.hpp"
#include "cli/files/temporary_folder.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/predict/device_profile.hpp"
#include "model/report/result.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 1e-9;
constexpr std::size_t kShown = 20;

std::vector<study::Quantity> predicted_now(const study::Recording& recording,
                                           const std::string& source, const fs::path& folder,
                                           Subcommands& commands) {
  const model::DeviceProfile profile = model::parse_profile_json(recording.profile, source);
  const fs::path plan = folder / "plan.json";
  const fs::path predicted = folder / "predicted.json";
  write_file(plan, study::unpacked_plan(recording.plan, source, profile));
  try {
    commands.run({"simulate", plan, "--out", predicted, "--quiet"});
  } catch (const Error& fault) {
    throw Error(source + ": its plan cannot be predicted: " + fault.what() +
                "; record it again with `tandem fidelity`");
  }
  const std::string json = read_file(predicted);
  return study::predicted_quantities(model::parse_result_json(json, predicted.string()), json);
}

// `recording` with the predictions of `now`; what is measured stays.
study::Recording updated(study::Recording recording, const std::vector<study::Quantity>& now) {
  for (study::Quantity& one : recording.quantities) {
    one.predicted.reset();
    one.interval_90.reset();
    one.predicted_after.reset();  // by the cost model of before
  }
  for (const study::Quantity& one : now) {
    const auto found = std::ranges::find_if(recording.quantities, [&](const study::Quantity& own) {
      return own.scope == one.scope && own.name == one.name && own.metric == one.metric;
    });
    if (found == recording.quantities.end()) {
      recording.quantities.push_back(one);
    } else {
      found->predicted = one.predicted;
      found->interval_90 = one.interval_90;
    }
  }
  return recording;
}

std::string value_text(const std::optional<double>& value) {
  return value ? model::shortest_text(*value) : "none";
}

void print_changes(const std::vector<study::Change>& changes, std::ostream& out) {
  for (std::size_t i = 0; i < std::min(kShown, changes.size()); ++i) {
    const study::Change& change = changes[i];
    out << change.configuration << ", " << change.quantity << ": recorded "
        << value_text(change.recorded) << ", now " << value_text(change.now);
    if (change.median) out << ", measured " << value_text(change.median);
    out << '\n';
  }
  if (changes.size() > kShown) out << "and " << changes.size() - kShown << " more\n";
}

void print_before_and_now(const std::vector<study::Recording>& before,
                          const std::vector<study::Recording>& now, std::ostream& out) {
  model::Table table(
      {"deviation", "links", "predictions", "bias", "median", "95th percentile", "worst"});
  const auto before_groups = study::groups_by_network(before);
  const auto now_groups = study::groups_by_network(now);  // the same: only predictions differ
  for (std::size_t i = 0; i < before_groups.size(); ++i) {
    const std::string& title = before_groups[i].title;
    for (const study::JudgedMetric& metric : study::judged_metrics()) {
      for (const auto& [name, some] : {std::pair("recorded", &before_groups[i].recordings),
                                       std::pair("now", &now_groups.at(i).recordings)}) {
        const study::DeviationSpread spread = spread_of(*some, metric.name);
        table.add({std::string(metric.title), title.empty() ? "replayed" : title, name,
                   study::percent_text(spread.bias), study::size_text(spread.median),
                   study::size_text(spread.p95), study::size_text(spread.worst)});
      }
    }
  }
  table.print(out);
}

}  // namespace

int replay_recordings(const fs::path& folder, study::Half half, bool update, Subcommands& commands,
                      std::ostream& out) {
  std::error_code fault;
  const fs::path inner = folder / "recordings";
  const RecordingsFolder store(fs::is_directory(inner, fault) ? inner : folder);
  const std::vector<study::Recording> recordings = store.read(half);
  if (recordings.empty())
    throw Error(folder.string() +
                ": has no recordings, expected NAME.json of `tandem fidelity`; "
                "check the path");
  const TemporaryFolder temporary("fidelity");
  std::vector<study::Change> changes;
  std::vector<study::Recording> now;
  for (const study::Recording& recording : recordings) {
    const std::string source = store.path_of(recording).string();
    const std::vector<study::Quantity> predicted =
        predicted_now(recording, source, temporary.path(), commands);
    const std::vector<study::Change> found = study::changes(recording, predicted, kTolerance);
    changes.insert(changes.end(), found.begin(), found.end());
    now.push_back(updated(recording, predicted));
  }
  if (changes.empty()) {
    out << recordings.size() << " recordings: every prediction is the recorded one\n";
    return 0;
  }
  print_changes(changes, out);
  out << '\n'
      << changes.size() << " of the predictions of " << recordings.size()
      << " recordings changed\n\n";
  print_before_and_now(recordings, now, out);
  if (!update) return 3;
  for (const study::Recording& recording : now) store.write(recording);
  out << "\nthe recordings have the new predictions\n";
  return 0;
}

}  // namespace tandem::cli
