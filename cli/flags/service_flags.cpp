#include "cli/flags/service_flags.hpp"

#include <algorithm>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/files/plan_argument.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/device_flags.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/local_model.hpp"
#include "cli/flags/prefix_flag.hpp"
#include "exec/session/emulated_devices.hpp"
#include "exec/session/hosts.hpp"
#include "exec/session/plan_workers.hpp"
#include "exec/weights/model_folder.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {
namespace {

ServiceJob planned_service_job(const Options& options, const std::filesystem::path& weights) {
  options.refuse({"memory-limit", "dtype", "cache-type"},
                 "with a plan, which says what each device may use, and weights' formats and the "
                 "cache's");
  const std::string& path = options.positional(0);
  planner::PlanFile file = plan_argument(path);
  exec::check_config(weights, file.plan.model);
  ServiceJob job{.service = planner::live_service(std::move(file.plan), file.service),
                 .weights = weights,
                 .tokenizer = nullptr,
                 .emulates = options.has("emulate"),
                 .hosts = options.text("hosts")};
  if (job.emulates && job.hosts)
    throw Usage("flags '--hosts' and '--emulate' contradict each other; give one");
  if (job.emulates) job.dilation = exec::dilation_here(job.service.plan, exec::EmulatedOn{}.pace);
  const std::vector<bool> workers = exec::workers_of(job.service.plan);
  const auto others = std::count(workers.begin(), workers.end(), true);
  if (others > 0 && !job.emulates && !job.hosts)
    throw Usage("the plan has " + std::to_string(others + 1) +
                " working devices; give '--hosts FILE' or '--emulate'");
  if (others == 0 && job.hosts) {
    options.accept_idle({"hosts", "key"}, "as the plan's master works alone");
    job.hosts.reset();
  }
  if (!options.has("hosts")) options.refuse({"key"}, "without '--hosts', whose devices share it");
  return job;
}

}  // namespace

std::vector<Flag> service_flags() {
  return {kWeightsFlag,
          kHostsFileFlag,
          kKeyFlag,
          {"emulate", "", "start every device as a process on this machine, at its measured pace"},
          kMasterThreadsFlag,
          kKernelsFlag,
          kOwnDtypeFlag,
          kOwnCacheTypeFlag,
          kMemoryLimitFlag,
          kLivePrefixFlag,
          kSlicesFlag,
          kCacheSizeFlag,
          kVerifyFlag,
          {"quiet", "", "no remarks"}};
}

std::variant<ServiceJob, planner::Infeasible> service_job(const Options& options) {
  const std::filesystem::path weights = weights_of(options.required("weights"));
  FileRoles files;
  if (options.positionals() > 0) files.reads("argument plan.json", options.positional(0));
  files.reads_model("flag '--weights'", weights);
  for (const char* const flag : {"hosts", "key"}) files.reads(options, flag);
  files.check();
  std::optional<ServiceJob> job;
  if (options.positionals() > 0) {
    job = planned_service_job(options, weights);
  } else {
    options.refuse({"hosts", "emulate", "key"},
                   "without a plan, with which this machine serves alone");
    const model::Transformer transformer = local_model(options, weights);
    auto found = planner::service_here(transformer, local_memory(options));
    if (auto* const no = std::get_if<planner::Infeasible>(&found)) return std::move(*no);
    job = ServiceJob{.service = std::get<planner::LiveService>(std::move(found)),
                     .weights = weights,
                     .tokenizer = nullptr};
  }
  job->tokenizer = exec::load_tokenizer(weights, job->service.plan.model);
  return std::move(*job);
}

exec::DeskLimits desk_limits(const ServiceJob& job) {
  return {.capacity = job.service.capacity,
          .chunk = job.service.chunk,
          .candidates = job.service.plan.candidates};
}

exec::ExecuteOptions service_execution(const Options& options, const ServiceJob& job) {
  exec::ExecuteOptions run;
  run.weights = job.weights;
  const Cache cache = cache_of(options);
  run.cache_dir = cache.folder;
  run.cache_bytes = cache.bytes;
  run.verify = options.has(kVerifyFlag.name);
  if (!job.emulates) run.place = exec::WeightPlace::chosen;
  run.threads = master_threads(options, job.service.plan, job.emulates);
  run.kernels = kernels_of(options);
  run.tokenizer = job.tokenizer.get();
  if (job.service.plan.model.architecture().generates())
    run.serve = exec::ServeOptions{.requests = {},
                                   .policy = job.service.policy,
                                   .chunk = job.service.chunk,
                                   .steps = job.service.steps,
                                   .shares_prefixes = shares_prefixes(options, job.service.plan, {},
                                                                      /*usual=*/true),
                                   .on_token = {}};
  else
    options.refuse({kLivePrefixFlag.name}, "with an encoder, which has no cache");
  if (job.emulates) {
    run.devices = exec::EmulatedOn{.program = "/proc/self/exe", .dilation = job.dilation};
  } else if (job.hosts) {
    exec::RemoteAt remote{
        .workers = exec::parse_hosts(read_file(*job.hosts), *job.hosts, job.service.plan)};
    if (const auto key = options.text("key")) remote.key = exec::read_key_file(*key);
    run.devices = remote;
  }
  return run;
}

}  // namespace tandem::cli
