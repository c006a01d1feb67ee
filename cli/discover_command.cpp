// tandem discover: from workers on a network to a platform file and profiles.

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <thread>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/cache.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/measured_formats.hpp"
#include "cli/flags/options.hpp"
#include "cli/version.hpp"
#include "cli/views/discovery_view.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/progress_view.hpp"
#include "exec/discovery/discovery.hpp"
#include "exec/discovery/dns_sd.hpp"
#include "exec/discovery/host_list.hpp"
#include "exec/discovery/network_inference.hpp"
#include "exec/discovery/platform_text.hpp"
#include "exec/session/worker.hpp"
#include "exec/transport/measure.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {
namespace {

constexpr std::chrono::seconds kBrowse{4};

Syntax discover_syntax() {
  return {
      .command = "discover",
      .summary =
          "Measures the devices on which 'tandem worker' runs, and this one, and the network\n"
          "between them. Writes a platform file, a profile of each device and a list of hosts, as\n"
          "'plan', 'simulate' and 'run' read them.",
      .positionals = {},
      .flags = {
          {"hosts", "FILE", "workers, a line each: [NAME] HOST:PORT; or NAME local"},
          {"browse", "", "find workers that were started with --announce, instead"},
          {"key", "FILE", "shared key; needed unless all workers are on this machine"},
          {"out", "DIR", "write platform.xml, hosts.txt and NAME.profile.json (required)"},
          {"model", "M", "profile matrices of this model's sizes [tinyllama-1.1b]"},
          {"dtype", "TYPE",
           "profile weights in this format beside f32, or all [the model's; else q8_0, "
           "q4_k, q6_k]",
           true},
          {"cache-type", "TYPE",
           "profile attention over a cache in this type, too: f16, q8_0 [f16 unless weights are "
           "f32 alone]",
           true},
          {"seconds", "S", "about how long the profile of a machine may take [25]"},
          {"fresh", "", "measure all profiles, even where a worker has kept one"},
          {"threads", "N", "computing threads of this machine [all cores]"},
          kKernelsFlag,
          {"cache", "DIR", "where this machine keeps its profile [~/.cache/tandem]"},
          {"quiet", "", "print no tables"}}};
}

std::vector<std::string> formats_of(const Options& options, const model::Transformer& transformer) {
  std::vector<model::WeightFormat> formats = measured_formats(options, transformer);
  if (!options.has("dtype")) {
    for (const model::WeightFormat used : transformer.formats_used()) {
      if (used != model::WeightFormat::f32) formats.push_back(used);
    }
    const bool plain = formats.empty();
    constexpr std::array kUsual{model::WeightFormat::q8_0, model::WeightFormat::q4_k,
                                model::WeightFormat::q6_k};
    for (const model::WeightFormat usual : kUsual) {
      if (plain && fits(transformer, usual)) formats.push_back(usual);
    }
  }
  std::vector<std::string> names;
  names.reserve(formats.size());
  for (const model::WeightFormat format : formats) names.emplace_back(to_string(format));
  return names;
}

exec::ProfileOrder order_of(const Options& options, model::Transformer transformer) {
  exec::ProfileOrder order;
  order.formats = formats_of(options, transformer);
  for (const model::CacheFormat cache :
       measured_caches(options, transformer, !order.formats.empty()))
    order.caches.emplace_back(to_string(cache));
  order.milliseconds =
      static_cast<std::uint32_t>(1000.0 * options.number_or("seconds", 25.0, 0.1, 3600.0));
  order.measure = options.has("fresh");
  transformer.formats = model::WeightFormats();
  transformer.cache = model::CacheFormat::f32;
  order.model = to_config_json(transformer);
  if (order.model.size() > exec::kMaxModelBytes)
    throw Error("flag '--model': a geometry of " + std::to_string(order.model.size()) +
                " bytes, expected at most " + std::to_string(exec::kMaxModelBytes));
  return order;
}

// This machine as one of the devices: a worker of this process, which only this process reaches.
class LocalWorker {
 public:
  explicit LocalWorker(exec::WorkerOptions options) : options_(std::move(options)) {}
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;
  ~LocalWorker() { end_.cancel("the discovery ends"); }

  exec::Endpoint start() {
    exec::need_cache_dir(options_.cache_dir);
    exec::ListenSocket socket({.host = "127.0.0.1"}, options_.key.has_value());
    exec::Endpoint endpoint = socket.endpoint();
    thread_ = std::jthread([this, listening = std::move(socket)]() mutable {
      try {
        exec::serve(std::move(listening), options_, end_);
      } catch (const std::exception&) {
        return;  // told to end; or the discovery's own connection to it says why
      }
    });
    return endpoint;
  }

 private:
  exec::WorkerOptions options_;
  exec::Cancellation end_;
  std::jthread thread_;
};

exec::WorkerOptions local_options(const Options& options, const std::optional<exec::Key>& key) {
  exec::WorkerOptions worker;
  worker.key = key;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  worker.threads = static_cast<int>(options.integer_or("threads", cores, 1, 1024));
  worker.kernels = kernels_of(options);
  worker.program = version();
  const std::optional<std::string> folder = options.text("cache");
  worker.cache_dir = folder ? std::filesystem::path(*folder) : exec::default_cache_dir();
  return worker;
}

// Lines of progress on a terminal: one stage after another.
class Stages {
 public:
  explicit Stages(bool shown) : shown_(shown) {}

  void show(exec::DiscoveryStage stage, std::size_t done, std::size_t total) {
    if (!line_ || stage != stage_) {
      line_.reset();  // removes the one before
      line_ = std::make_unique<ProgressLine>(
          stage == exec::DiscoveryStage::profiles ? "profiles" : "links", shown_);
      stage_ = stage;
      done_ = 0;
      line_->expect(total);
    }
    line_->advance(done - done_);
    done_ = done;
  }

 private:
  bool shown_;
  exec::DiscoveryStage stage_ = exec::DiscoveryStage::profiles;
  std::size_t done_ = 0;
  std::unique_ptr<ProgressLine> line_;
};

void write_all(const std::filesystem::path& folder, const exec::Discovery& found,
               const exec::NetworkSegments& network) {
  const std::string name = exec::device_name((folder / "").parent_path().filename().string());
  write_file(folder / "hosts.txt", exec::hosts_text(found.devices));
  write_file(folder / "platform.xml",
             exec::platform_xml(name,
                                "Written by tandem " + std::string(version()) +
                                    ", discover: measured, see docs/how-to/discover.md.",
                                found.devices, network));
  // What is written is read as every other command will.
  static_cast<void>(sim::read_platform((folder / "platform.xml").string()));
}

// What Ctrl-C ends: the search for workers, then the discovery.
class Ending {
 public:
  void end(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    stop_.cancel(reason);
    if (running_ != nullptr) running_->cancel(reason);
  }
  [[nodiscard]] const exec::Cancellation& cancellation() const { return stop_; }
  // `discoverer`, or null when it has run. Throws Error if it is to end already.
  void watch(exec::Discoverer* discoverer) {
    const std::lock_guard lock(mutex_);
    if (discoverer != nullptr) stop_.check();
    running_ = discoverer;
  }

 private:
  exec::Cancellation stop_;
  std::mutex mutex_;
  exec::Discoverer* running_ = nullptr;
};

std::vector<exec::DiscoveryHost> browsed(const exec::Cancellation& cancellation) {
  std::vector<exec::DiscoveryHost> hosts;
  for (const exec::FoundWorker& worker : exec::browse_workers(kBrowse, cancellation))
    hosts.push_back({.name = "", .endpoint = worker.endpoint, .local = false});
  if (hosts.empty())
    throw Error(
        "flag '--browse': no worker was found; start 'tandem worker' with --announce on each "
        "device, or name them with --hosts");
  if (hosts.size() >= static_cast<std::size_t>(exec::kMostNetworkDevices))
    throw Error("flag '--browse': " + std::to_string(hosts.size()) +
                " workers were found, expected at most " +
                std::to_string(exec::kMostNetworkDevices - 1) + "; name them with --hosts");
  return hosts;
}

// Runs the discovery; profiles go to `folder` as soon as they are there, and an Error says so.
exec::Discovery discover(exec::DiscoveryOptions discovery, const std::filesystem::path& folder,
                         Ending& ending, bool quiet) {
  Stages stages(!quiet);
  std::vector<std::string> kept;
  discovery.progress = [&](exec::DiscoveryStage stage, std::size_t done, std::size_t total) {
    stages.show(stage, done, total);
  };
  discovery.on_profile = [&](const exec::DiscoveredDevice& device) {
    const std::string name = device.name + ".profile.json";
    write_file(folder / name, to_json(device.profile));
    kept.push_back(name);
  };
  try {
    exec::Discoverer discoverer(std::move(discovery));
    ending.watch(&discoverer);
    const std::unique_ptr<Ending, void (*)(Ending*)> watched(
        &ending, [](Ending* one) { one->watch(nullptr); });
    return discoverer.run();
  } catch (const Error& error) {
    if (kept.empty()) throw;
    std::ranges::sort(kept);
    std::string names;
    for (const std::string& name : kept) names += (names.empty() ? "" : ", ") + name;
    throw Error(std::string(error.what()) + "; kept in " + folder.string() + ": " + names);
  }
}

void print_next_command(const std::filesystem::path& folder, const std::string& model,
                        const std::string& format, std::ostream& out) {
  out << "\nnext: tandem plan --platform " << model::shell_word((folder / "platform.xml").string())
      << " --profile " << model::shell_word(folder.string()) << " --model "
      << model::shell_word(model) << (format.empty() ? "" : " --dtype " + format) << " --out "
      << model::shell_word((folder / "plan.json").string()) << '\n';
}

}  // namespace

int discover_command(const Arguments& arguments, std::ostream& out) {
  Options options(discover_syntax(), arguments);
  const std::optional<std::string> list = options.text("hosts");
  const bool browse = options.has("browse");
  if (browse) options.refuse({"hosts"}, "with '--browse', which finds the workers");
  if (!browse && !list) throw Usage("flag '--hosts' or '--browse' is missing; name the workers");
  exec::DiscoveryOptions discovery;
  if (const auto key = options.text("key")) discovery.key = exec::read_key_file(*key);
  if (browse && !discovery.key) throw Usage("flag '--key' is missing; give the workers' one");
  const std::string model_name = options.text_or("model", "tinyllama-1.1b");
  const model::Transformer transformer = load_model(model_name);
  discovery.profile = order_of(options, transformer);
  discovery.walked = exec::weights_between_messages(transformer);
  // A geometry alone is planned in f32 unless the plan says otherwise.
  const std::vector<model::WeightFormat> stored = transformer.formats_used();
  const bool plain = stored == std::vector{model::WeightFormat::f32};
  const std::string format =
      plain && !discovery.profile.formats.empty() ? discovery.profile.formats.front() : "";
  const exec::WorkerOptions local = local_options(options, discovery.key);
  const std::filesystem::path folder = options.required("out");
  const bool quiet = options.has("quiet");
  FileRoles files;
  files.reads(options, "key");
  files.reads(options, "hosts");
  files.reads("flag '--model'", find_config(model_name));
  files.writes_in("flag '--out'", folder, {"platform.xml", "hosts.txt"});
  files.check();
  options.settle();
  if (list) discovery.hosts = exec::parse_host_list(read_file(*list), *list);
  static_cast<void>(make_folder(folder));
  for (const char* name : {"platform.xml", "hosts.txt"}) check_writable(folder / name);

  Ending ending;
  // Before there is any other thread.
  const Interruption interruption([&](const std::string& reason) { ending.end(reason); });
  if (browse) discovery.hosts = browsed(ending.cancellation());
  LocalWorker here(local);
  const auto named = std::ranges::find_if(discovery.hosts, &exec::DiscoveryHost::local);
  if (named != discovery.hosts.end()) {
    named->endpoint = here.start();
  } else {
    discovery.start_local = [&] { return here.start(); };
  }
  const exec::Discovery found = discover(std::move(discovery), folder, ending, quiet);
  exec::NetworkSegments network;
  if (found.devices.size() > 1) network = exec::infer_network(found.network);
  write_all(folder, found, network);
  for (const std::string& fault : found.faults) std::cerr << "tandem discover: " << fault << '\n';
  if (!found.faults.empty())
    std::cerr << "tandem discover: " << folder.string()
              << " is written without what failed, and has " << found.devices.size()
              << (found.devices.size() == 1 ? " device\n" : " devices\n");
  if (!quiet) {
    print_discovery(found, network, out);
    print_next_command(folder, model_name, format, out);
  }
  return found.faults.empty() ? 0 : 1;
}

}  // namespace tandem::cli
