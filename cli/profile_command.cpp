// tandem profile: measures this machine's speed by task kind.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <thread>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/measured_formats.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/shown.hpp"
#include "exec/kernels/integer_choice.hpp"
#include "exec/profiling/machine_profile.hpp"
#include "exec/profiling/profile.hpp"
#include "exec/profiling/profile_check.hpp"
#include "exec/profiling/profile_disk.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/range.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

constexpr double kLargestDiskFile = 1024.0 * 1024 * 1024 * 1024;

// What `--disk` and `--cache` ask for; nothing with `--disk none`.
// A file of the default size is smaller on a disk that would take long with it.
std::optional<exec::DiskProfileOptions> disk_options(const Options& options, double seconds,
                                                     const model::Transformer& transformer) {
  const std::string size = options.text_or("disk", "256MiB");
  const std::optional<std::string> cache = options.text("cache");
  if (size == "none") {
    options.refuse({"cache"}, "with '--disk none', as it names the disk that is measured");
    return std::nullopt;
  }
  const double bytes = model::parse_bytes(size, "flag '--disk'").value();
  if (!(bytes >= 1.0 && bytes <= kLargestDiskFile))
    throw Error("flag '--disk': '" + size + "', expected up to 1TiB, or none");
  const std::filesystem::path folder =
      cache ? std::filesystem::path(*cache) : exec::default_cache_dir();
  exec::need_cache_dir(folder);
  exec::DiskProfileOptions disk{.folder = folder,
                                .file_bytes = static_cast<std::uint64_t>(bytes),
                                .read_bytes = exec::streamed_block_bytes(transformer)};
  if (!options.has("disk")) disk.seconds = exec::kDiskPart * seconds;
  return disk;
}

constexpr double kMuchDrift = 0.1;  // above it the profile is worth measuring again

std::string percent_of(double part) { return model::fixed(100.0 * part, 1) + "%"; }

void print_profile(const model::DeviceProfile& profile, std::ostream& out) {
  out << profile.source << "\nidle process " << to_text(model::Bytes{profile.program_bytes})
      << ", disk "
      << (profile.disk_bandwidth.value() > 0.0 ? to_text(profile.disk_bandwidth) : "not measured");
  if (profile.drift) out << ", drift " << percent_of(*profile.drift);
  if (profile.drift.value_or(0.0) > kMuchDrift)
    out << "\nthe machine's speed moved by " << percent_of(*profile.drift)
        << " while measuring: other programs were busy; end them and measure again";
  out << "\n\n";
  model::Table table({"task", "overhead", "a row", "intensity", "streamed", "error", "spread"});
  const auto add = [&](std::size_t k, const model::KindRate& rate, const std::string& format) {
    std::string name(model::to_string(static_cast<model::TaskKind>(k)));
    if (!format.empty()) name += " (" + format + ")";
    std::string overhead = to_text(model::Seconds{rate.overhead_s});
    std::string row = rate.row_s > 0.0 ? to_text(model::Seconds{rate.row_s}) : "";
    std::string fit = rate.error ? percent_of(rate.error->fit) : "";
    std::string spread = rate.error ? percent_of(rate.error->spread) : "";
    for (const model::RatePoint& point : rate.points) {
      if (point.seconds_per_byte <= 0.0) continue;
      table.add({name, overhead, row, model::fixed(point.intensity, point.intensity < 10.0 ? 1 : 0),
                 to_text(model::BytesPerSecond{1.0 / point.seconds_per_byte}), fit, spread});
      for (std::string* const once : {&name, &overhead, &row, &fit, &spread}) once->clear();
    }
  };
  for (std::size_t k = 0; k < profile.rate.size(); ++k) {
    add(k, profile.rate[k], "");
    for (const model::FormatRates& rates : profile.formats)
      add(k, rates.rate[k], std::string(to_string(rates.format)));
    for (const model::CacheRates& rates : profile.caches) {
      const std::string cache = std::string(to_string(rates.format)) + " cache";
      if (static_cast<model::TaskKind>(k) == model::TaskKind::attend) add(k, rates.attend, cache);
      if (static_cast<model::TaskKind>(k) == model::TaskKind::score && rates.score)
        add(k, *rates.score, cache);
    }
  }
  table.print(out);
}

// Relative errors on sizes that the profile was not fitted to, by kind.
void print_check(const model::Transformer& transformer, const model::DeviceProfile& profile,
                 exec::KernelSet kernels, std::ostream& out) {
  out << "\nPredicted beside measured, sizes that were held out, " << profile.threads
      << (profile.threads == 1 ? " thread\n\n" : " threads\n\n");
  model::Table table({"task", "sizes", "median error", "95th percentile", "bias"});
  for (const exec::HeldOutErrors& of_kind : exec::check_profile(transformer, profile, kernels)) {
    std::string name(model::to_string(of_kind.kind));
    if (model::reads_weights(of_kind.kind))
      name += " (" + std::string(to_string(of_kind.format)) + ")";
    std::vector<double> sizes;
    for (const double error : of_kind.errors) sizes.push_back(std::abs(error));
    table.add({name, std::to_string(sizes.size()), percent_of(model::quantile(sizes, 0.5)),
               percent_of(model::quantile(sizes, 0.95)),
               percent_of(model::quantile(of_kind.errors, 0.5))});
  }
  table.print(out);
}

}  // namespace

int profile_command(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "profile",
       .summary =
           "Measures what one byte of weights, cache or message costs this machine, by kind of\n"
           "task, and what its disk reads a second, for 'tandem plan --profile'. Run it on an\n"
           "otherwise idle machine.",
       .positionals = {},
       .flags =
           {{"model", "M", "matrices of this model's sizes [tinyllama-1.1b]"},
            {"dtype", "TYPE",
             "measure weights in this format, too: f16, bf16, q8_0, q4_k and so on, or all", true},
            {"cache-type", "TYPE",
             "measure attention over a cache in this type, too: f16, q8_0 [with --dtype: f16]",
             true},
            {"threads", "N", "threads of a task [both 1 and all cores]"},
            kKernelsFlag,
            {"seconds", "S", "about how long it may take; less time, fewer sizes of prompts [25]"},
            {"check", "",
             "then measure other sizes, some seconds a format, and print how far off the "
             "profile is"},
            {"disk", "BYTES", "write, read and remove a file this large: none [256MiB]"},
            {"cache", "DIR", "where: the folder that weights are streamed from [~/.cache/tandem]"},
            {"out", "FILE", "write the profile; - prints it instead of the table"},
            {"json", "", "print the profile as JSON"},
            {"quiet", "", "print no table"}}},
      arguments);
  const Shown show = shown(options);
  if (!show.file) options.refuse({"quiet"}, "but to leave no result; give '--out FILE'");
  exec::ProfileOptions measure;
  const auto cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  if (options.has("threads")) {
    measure.threads = {static_cast<int>(options.integer_or("threads", 1, 1, cores))};
  } else if (cores > 1) {
    measure.threads = {1, static_cast<int>(cores)};
  }
  measure.kernels = kernels_of(options);
  measure.seconds = options.number_or("seconds", measure.seconds, 0.1, 3600.0);
  const std::string model_name = options.text_or("model", "tinyllama-1.1b");
  FileRoles files;
  files.reads("flag '--model'", find_config(model_name));
  if (show.file) files.writes("flag '--out'", *show.file);
  files.check();
  const model::Transformer transformer = load_model(model_name);
  measure.formats = measured_formats(options, transformer);
  measure.caches = measured_caches(options, transformer, !measure.formats.empty());
  const std::optional<exec::DiskProfileOptions> disk =
      disk_options(options, measure.seconds, transformer);
  const bool check = options.has("check");
  if (check && !show.table())
    options.refuse({"check"}, "with '--json', '--quiet' or '--out -', as it prints a table");
  options.settle();

  // As a run does.
  if (measure.kernels == exec::KernelSet::tuned)
    exec::choose_integer_kernels(disk ? disk->folder : exec::default_cache_dir());
  const std::vector<model::DeviceProfile> profiles =
      exec::measure_machine(transformer, measure, disk);
  const std::string json = model::to_json(std::span<const model::DeviceProfile>(profiles));
  deliver(show, json, out);
  if (show.json) {
    out << json;
  } else if (show.table()) {
    for (const model::DeviceProfile& profile : profiles) {
      if (&profile != &profiles.front()) out << '\n';
      print_profile(profile, out);
    }
  }
  if (check) {
    for (const model::DeviceProfile& profile : profiles)
      print_check(transformer, profile, measure.kernels, out);
  }
  return 0;
}

}  // namespace tandem::cli
