// tandem testbed: a scenario as a real network on this machine, as root.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/files/files.hpp"
#include "cli/files/plan_argument.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/options.hpp"
#include "cli/views/interruption.hpp"
#include "exec/testbed/door.hpp"
#include "exec/testbed/memory_groups.hpp"
#include "exec/testbed/plan_check.hpp"
#include "exec/testbed/supervisor.hpp"
#include "exec/testbed/testbed.hpp"
#include "exec/transport/cancellation.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"
#include "model/report/result.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMostDilation = 500.0;
// Of the medians at D and 2 D.
constexpr double kMostDeviation = 0.02;

constexpr Flag kTcpFlag{
    "tcp", "HOW",
    "TCP's settings: system, this machine's; warm, the same without slow start; "
    "or pinned, the same everywhere [system]"};

// Flags of `tandem run` that the master of each plan is given.
constexpr std::array kHandedOn{
    Flag{"prompt", "TEXT", "prompt [a text of the planned length]", false, true},
    Flag{"prompt-ids", "FILE", "prompt as token ids, separated by spaces or lines"},
    Flag{"workload", "FILE", "requests, JSON lines [the plan's]"},
    Flag{"new-tokens", "N", "most tokens [the plan's]"},
    Flag{"ignore-eos", "", "do not stop at the end-of-sequence token"},
    Flag{"temperature", "X", "0 takes the likeliest token [0]"},
    Flag{"seed", "S", "of sampling, with --temperature [0]"},
    Flag{"max-drift", "X", "largest drift of this machine's speed [0.30]"},
    Flag{"allow-drift", "", "report a larger drift, but accept the run"},
    Flag{"quiet", "", "no progress and no remarks"}};

exec::TcpChoice tcp_of(const Options& options) {
  const std::string choice =
      options.choice_or(kTcpFlag.name, "system", {"system", "warm", "pinned"});
  if (choice == "pinned") return exec::TcpChoice::pinned;
  return choice == "warm" ? exec::TcpChoice::warm : exec::TcpChoice::system;
}

struct PlannedRun {
  std::string path;  // of the plan
  std::string name;  // of its results, without folder and extension
  planner::Plan plan;
};

std::vector<PlannedRun> plans_of(const Options& options, const model::Cluster& cluster,
                                 double dilation) {
  std::vector<PlannedRun> plans;
  std::set<std::string> names;
  const std::string network = exec::network_digest(cluster);
  for (std::size_t i = 1; i < options.positionals(); ++i) {
    const std::string& path = options.positional(i);
    PlannedRun run{
        .path = path, .name = fs::path(path).stem().string(), .plan = plan_argument(path).plan};
    exec::check_testbed_plan(run.plan, network, cluster.name(), dilation);
    if (!names.insert(run.name).second)
      throw Usage("argument plan.json: two plans have the name '" + run.name +
                  "', by which results are kept; rename one");
    plans.push_back(std::move(run));
  }
  return plans;
}

exec::PlanRun plan_run(const Options& options, const fs::path& weights) {
  const Cache cache = cache_of(options);
  exec::PlanRun run{.cache_dir = cache.folder.empty() ? exec::default_cache_dir() : cache.folder,
                    .cache_bytes = cache.bytes,
                    .verify = options.has(kVerifyFlag.name),
                    .kernels = kernels_of(options)};
  run.words = {"--weights", weights.string(),
               "--cache",   run.cache_dir.string(),
               "--kernels", std::string(to_string(run.kernels))};
  if (run.verify) run.words.push_back("--" + std::string(kVerifyFlag.name));
  if (run.cache_bytes) {
    run.words.insert(run.words.end(), {"--" + std::string(kCacheSizeFlag.name),
                                       std::to_string(*run.cache_bytes) + "B"});
  }
  for (const Flag& flag : kHandedOn) {
    if (!options.has(flag.name)) continue;
    run.words.push_back("--" + std::string(flag.name));
    if (!flag.value.empty()) run.words.push_back(*options.text(flag.name));
  }
  return run;
}

// Adds to a result how well the network was emulated during its run.
void add_network_facts(const exec::EmulatorStatistics& statistics, double wall_s,
                       bool limits_memory, const fs::path& path) {
  model::Result result = model::parse_result_json(read_file(path), path.string());
  auto& environment = result.environment;
  environment["testbed_packets"] = std::to_string(statistics.packets);
  environment["testbed_lost_packets"] = std::to_string(statistics.lost);
  environment["testbed_late_mean_s"] = model::fixed(statistics.mean_late_s, 6);
  environment["testbed_late_max_s"] = model::fixed(statistics.max_late_s, 6);
  environment["testbed_emulator_cores"] = model::fixed(statistics.cpu_s / wall_s, 3);
  environment["testbed_memory"] = limits_memory ? "limited by cgroups" : "not limited";
  write_file(path, model::to_json(result));
}

struct TestbedSession {
  const model::Cluster* cluster = nullptr;
  exec::SupervisorOptions options;
  exec::PlanRun run;
  std::optional<fs::path> results;  // folder
  std::string suffix;               // of the results' names
  bool quiet = false;

  // The file of a plan's result; there is a folder for it.
  [[nodiscard]] fs::path result_of(const PlannedRun& planned) const {
    return *results / (planned.name + suffix + ".json");
  }
};

void say(const TestbedSession& session, const std::string& line) {
  if (!session.quiet) std::cerr << "tandem testbed: " << line << '\n';
}

// Brings the network up, runs all plans, takes it down. Returns the first exit code that is not 0.
int run_plans(const TestbedSession& session, const std::vector<PlannedRun>& plans,
              exec::Cancellation& end) {
  exec::Supervisor supervisor(*session.cluster, session.options, end);
  exec::Testbed& testbed = supervisor.testbed();
  if (const std::string remark = testbed.remark(); !remark.empty()) say(session, remark);
  int worst = 0;
  for (const PlannedRun& planned : plans) {
    exec::PlanRun run = session.run;
    run.words.insert(run.words.begin(), planned.path);
    if (session.results)
      run.words.insert(run.words.end(), {"--out", session.result_of(planned).string()});
    static_cast<void>(testbed.take_statistics());
    const auto start = std::chrono::steady_clock::now();
    const int code = supervisor.run(planned.plan, run);
    const double wall_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const exec::EmulatorStatistics statistics = testbed.take_statistics();
    constexpr int kAnswerNo = 3;  // the run was done
    if (worst == 0) worst = code;
    if (code != 0 && code != kAnswerNo) break;
    if (session.results)
      add_network_facts(statistics, wall_s, supervisor.limits_memory(), session.result_of(planned));
    if (!supervisor.limits_memory())
      say(session, planned.path +
                       ": devices may use more memory than they have: no memory cgroups of "
                       "version 1; `tandem run` has checked what the plan needs");
    say(session, planned.path + ": " + std::to_string(statistics.packets) + " packets, handed on " +
                     model::fixed(statistics.mean_late_s * 1e6, 0) + " us late in the mean, " +
                     std::to_string(statistics.lost) + " lost");
    if (statistics.lost > 0)
      throw Error(planned.path + ": " + std::to_string(statistics.lost) +
                  " packets were lost, expected none; run it again when this machine is quiet");
  }
  return worst;
}

// How far the medians of two results are apart, relative to the first.
double deviation_of_medians(const model::Result& a, const model::Result& b) {
  const auto apart = [](double x, double y) { return x > 0.0 ? std::abs(y / x - 1.0) : 0.0; };
  double most = apart(a.metrics.ttft_s, b.metrics.ttft_s);
  const std::vector<double> latencies = a.metrics.token_latencies_s();
  const std::vector<double> others = b.metrics.token_latencies_s();
  if (!latencies.empty() && !others.empty())
    most = std::max(most, apart(model::quantile(latencies, 0.5), model::quantile(others, 0.5)));
  return most;
}

// Time that passes more slowly slows what is emulated, not the kernel's own times and TCP's clocks:
// results are worth something if they are the same when it passes more slowly still.
int judge_dilation(const std::vector<PlannedRun>& plans, const TestbedSession& session,
                   const TestbedSession& slower, std::ostream& out) {
  int code = 0;
  for (const PlannedRun& planned : plans) {
    const fs::path path = session.result_of(planned);
    const fs::path other = slower.result_of(planned);
    model::Result result = model::parse_result_json(read_file(path), path.string());
    const double apart =
        deviation_of_medians(result, model::parse_result_json(read_file(other), other.string()));
    result.environment["dilation_deviation"] = model::fixed(apart, 4);
    write_file(path, model::to_json(result));
    if (apart <= kMostDeviation) continue;
    out << planned.path << ": medians at twice the dilation differ by "
        << model::fixed(apart * 100, 1) << "%, at most " << model::fixed(kMostDeviation * 100, 0)
        << "% is allowed; give a larger '--dilate', or run again when this machine is quiet\n";
    code = 3;
  }
  return code;
}

int run_testbed(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "testbed run",
      .summary =
          "Runs plans over a scenario as a real network of this machine, as root: a network\n"
          "namespace a device, `tandem worker` and `tandem run` in them, TCP between them. Exit\n"
          "code 3, with the reason, if times are worth nothing because this machine's speed\n"
          "drifted, or because they depend on --dilate.",
      .positionals = {"SCENARIO.xml", "plan.json..."},
      .flags = {{"weights", "M", "Hugging Face folder, GGUF file, or known name (required)"},
                {"out", "DIR", "results as JSON, each by the name of its plan"},
                kTcpFlag,
                {"dilate", "D",
                 "time passes D times more slowly, and again 2 D times, to compare; with --tcp "
                 "pinned and --out"},
                {"cache", "DIR", "where sliced weights are kept [~/.cache/tandem]"},
                kCacheSizeFlag,
                kVerifyFlag,
                kKernelsFlag}};
  syntax.flags.insert(syntax.flags.end(), kHandedOn.begin(), kHandedOn.end());
  Options options(syntax, arguments);
  const fs::path weights = weights_of(options.required("weights"));
  const bool dilates = options.has("dilate");
  const double dilation = options.number_or("dilate", 1.0, 1.0, kMostDilation);
  const exec::TcpChoice tcp = tcp_of(options);
  if (dilates && tcp != exec::TcpChoice::pinned)
    throw Usage(
        "flag '--dilate' needs '--tcp pinned': this machine's own TCP keeps its clocks, whatever "
        "time it is on the links");
  const fs::path scenario = find_platform(options.positional(0));
  const model::Cluster cluster = sim::read_platform(scenario.string()).cluster;
  exec::check_testbed(cluster);
  const std::vector<PlannedRun> plans = plans_of(options, cluster, dilation);
  TestbedSession session{.cluster = &cluster,
                         .options = {.tcp = tcp, .dilation = dilation},
                         .run = plan_run(options, weights),
                         .results = options.text("out"),
                         .suffix = {},
                         .quiet = options.has("quiet")};
  if (dilates && !session.results)
    throw Usage("flag '--dilate' needs '--out DIR', where the results lie that are compared");
  TestbedSession slower = session;
  slower.options.dilation = 2.0 * dilation;
  slower.suffix = "-twice";
  slower.run.silent = true;
  FileRoles files;
  files.reads("argument SCENARIO.xml", scenario);
  std::vector<std::string> names;
  for (const PlannedRun& planned : plans) {
    files.reads("argument plan.json", planned.path);
    names.push_back(planned.name + ".json");
    if (dilates) names.push_back(planned.name + slower.suffix + ".json");
  }
  files.reads_model("flag '--weights'", weights);
  for (const char* const flag : {"prompt-ids", "workload"}) files.reads(options, flag);
  if (session.results) files.writes_in("flag '--out'", *session.results, names);
  files.check();
  options.settle();
  exec::check_testbed_rights();
  if (session.results) static_cast<void>(make_folder(*session.results));

  exec::Cancellation end;
  const Interruption interruption([&](const std::string& reason) { end.cancel(reason); });
  const int code = run_plans(session, plans, end);
  if (code != 0 || !dilates) return code;
  if (const int other = run_plans(slower, plans, end); other != 0) return other;
  return judge_dilation(plans, session, slower, out);
}

int bring_up(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "testbed up",
       .summary = "Brings a scenario up as a network of this machine, as root, and says how to\n"
                  "enter it. It is there until Ctrl-C or `tandem testbed down`.",
       .positionals = {"SCENARIO.xml"},
       .flags = {kTcpFlag}},
      arguments);
  const exec::TcpChoice tcp = tcp_of(options);
  options.settle();
  const model::Cluster cluster =
      sim::read_platform(find_platform(options.positional(0)).string()).cluster;
  exec::check_testbed(cluster);
  exec::check_testbed_rights();
  exec::Cancellation end;
  const Interruption interruption([&](const std::string& reason) { end.cancel(reason); });
  exec::Supervisor supervisor(cluster, {.tcp = tcp}, end);
  if (const std::string remark = supervisor.testbed().remark(); !remark.empty())
    std::cerr << "tandem testbed: " << remark << '\n';
  model::Table table({"device", "address", "to enter its network"});
  for (model::DeviceIndex d = 0; d < cluster.size(); ++d)
    table.add({cluster.devices()[static_cast<std::size_t>(d)].name,
               exec::address_text(supervisor.testbed().address(d)),
               "nsenter --net=" + supervisor.namespace_path(d)});
  table.print(out);
  out << "`tandem worker` and `tandem run --hosts` in it need '--testbed "
      << supervisor.facts_path() << "'.\nIt ends with Ctrl-C, or `tandem testbed down`."
      << std::endl;
  supervisor.wait();
  return 0;
}

int take_down(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "testbed down",
       .summary = "Ends the testbed that is up, and removes what one that was killed left.",
       .positionals = {"[SCENARIO.xml]"},
       .flags = {}},
      arguments);
  options.settle();
  std::string platform;
  if (options.positionals() > 0)
    platform = sim::read_platform(find_platform(options.positional(0)).string()).cluster.name();
  exec::check_testbed_rights();
  constexpr std::chrono::seconds kPatience{10};
  const auto ended = exec::take_down(platform, kPatience);
  exec::remove_memory_groups();
  out << (ended ? "testbed of '" + ended->platform + "' ended\n" : "no testbed is up\n");
  return 0;
}

}  // namespace

int testbed_command(const Arguments& arguments, std::ostream& out) {
  constexpr std::array kActions{Command{"up", "bring a scenario up as a network", bring_up},
                                Command{"run", "run plans over a scenario", run_testbed},
                                Command{"down", "end the one that is up", take_down}};
  return run_subcommand("testbed", kActions, arguments, out);
}

}  // namespace tandem::cli
