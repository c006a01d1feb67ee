#include "cli/fidelity/sitting.hpp"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advice/fidelity/matrix_files.hpp"
#include "advice/fidelity/packed_plan.hpp"
#include "cli/fidelity/reference_times.hpp"
#include "cli/files/files.hpp"
#include "model/base/quantity_text.hpp"
#include "model/predict/device_profile.hpp"
#include "model/report/result.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
  return text;
}

// The family's model folder, made once: weights are written before the mark that says so.
fs::path weights_of_family(const SittingOptions& options, const std::string& family,
                           Subcommands& commands) {
  const fs::path models = make_folder(options.folder / "models");
  fs::path folder = models / family;
  const fs::path mark = models / (family + ".done");
  std::error_code fault;
  if (fs::exists(mark, fault)) return folder;
  fs::remove_all(folder, fault);
  const fs::path config = models / (family + ".json");
  write_file(config, study::fidelity_model_config(family));
  commands.run({"model", "random", "--config", config, "--out", folder, "--quiet"});
  write_file(mark, "");
  return folder;
}

// The profile that the plan's devices have, before slowdowns, by the rule of `tandem plan`.
model::DeviceProfile profile_of(const fs::path& path, const planner::Plan& plan) {
  const std::vector<model::DeviceProfile> profiles =
      model::parse_profiles_json(read_file(path), path.string());
  const bool emulated = plan.cluster.size() > 1 || plan.cluster.devices()[0].slowdown != 1.0;
  return model::for_formats(model::with_threads(profiles, std::nullopt, emulated, path.string()),
                            plan.model.formats, plan.model.cache);
}

void add_environment(const std::string& result_json, const model::Result& run,
                     study::Recording& recording) {
  auto& environment = recording.environment;
  environment["date"] = date_now();
  for (const char* const key :
       {"tandem", "machine", "kernels", "instruction_sets", "integer_kernels", "threads", "tcp",
        "testbed_overhead_s", "testbed_scheduling", "testbed_late_mean_s", "testbed_memory"}) {
    if (const auto found = run.environment.find(key); found != run.environment.end())
      environment[key] = found->second;
  }
  const auto json = nlohmann::json::parse(result_json);
  for (const char* const key : {"kind", "pace"}) {
    if (const auto found = json.find(key); found != json.end() && found->is_string())
      environment[key] = found->get<std::string>();
  }
}

}  // namespace

std::string recorded_way(const RunWay& way, const std::string& tcp) {
  std::string name(way.name);
  if (way.over_tcp && tcp != "system") name.append("-").append(tcp);
  return name;
}

study::Recording record(const study::Configuration& configuration, const RunWay& way,
                        const SittingOptions& options, Subcommands& commands) {
  const std::string own = study::Recording::file_name(configuration.name(),
                                                      recorded_way(way, options.tcp), way.over_tcp);
  const fs::path folder = make_folder(options.folder / "sittings" / own);
  const auto file = [&](const std::string& name) { return folder / name; };
  const SittingFiles files{
      .platform = file("platform.xml"),
      .plan = file("plan.json"),
      .weights = weights_of_family(options, std::string(configuration.level("family")), commands),
      .cache = make_folder(options.folder / "cache"),
      .tcp = options.tcp};
  write_file(files.platform, study::fidelity_platform_xml(configuration, way.most_demand));

  Words measure{"profile",
                "--model",
                files.weights,
                "--seconds",
                model::shortest_text(options.profile_seconds),
                "--quiet"};
  if (const std::string format(configuration.level("format")); format != "f32")
    measure.insert(measure.end(), {"--dtype", format});
  const Words flags = way.profile_flags(configuration, files);
  measure.insert(measure.end(), flags.begin(), flags.end());
  const auto profile_to = [&](const fs::path& path) {
    Words words = measure;
    words.insert(words.end(), {"--out", path});
    commands.run(words);
  };
  const auto simulate = [&](const fs::path& plan, const fs::path& out) {
    commands.run({"simulate", plan, "--out", out, "--quiet"});
    return read_file(out);
  };

  ReferenceClock reference;
  reference.sample();
  profile_to(file("profile.json"));
  reference.sample();
  Words plan{"plan",      "--platform",         files.platform, "--model",  files.weights,
             "--profile", file("profile.json"), "--out",        files.plan, "--quiet"};
  const Words planned = study::fidelity_plan_flags(configuration);
  plan.insert(plan.end(), planned.begin(), planned.end());
  commands.run(plan);
  const std::string predicted_json = simulate(files.plan, file("predicted.json"));
  const model::Result predicted = model::parse_result_json(predicted_json, "predicted.json");

  study::Recording recording{.configuration = configuration.name(),
                             .way = recorded_way(way, options.tcp)};
  recording.environment["recorder"] = options.recorder;
  std::vector<model::Result> runs;
  for (int i = 1; i <= options.runs; ++i) {
    const RunCommand run = way.run(files, file("measured-" + std::to_string(i)));
    commands.run(run.words);
    reference.sample();
    const std::string json = read_file(run.result);
    runs.push_back(model::parse_result_json(json, run.result.string()));
    if (i == 1) add_environment(json, runs.back(), recording);
  }
  profile_to(file("profile-after.json"));
  reference.sample();

  const std::string plan_json = read_file(files.plan);
  const planner::Plan parsed = planner::parse_plan_file(plan_json, files.plan.string()).plan;
  write_file(file("plan-after.json"),
             study::with_profile(plan_json, files.plan.string(),
                                 profile_of(file("profile-after.json"), parsed)));
  const model::Result after = model::parse_result_json(
      simulate(file("plan-after.json"), file("predicted-after.json")), "predicted-after.json");

  for (std::size_t f = 0; f < study::factors().size(); ++f)
    recording.levels.emplace_back(study::factors()[f].name,
                                  study::factors()[f].levels[configuration.row()[f]]);
  recording.reference = reference.times();
  recording.quantities = study::quantities_of(predicted, predicted_json, after, runs);
  const model::DeviceProfile base = profile_of(file("profile.json"), parsed);
  recording.profile = nlohmann::ordered_json::parse(to_json(base)).dump();
  recording.plan = study::packed_plan(plan_json, files.plan.string(), base);
  return recording;
}

}  // namespace tandem::cli
