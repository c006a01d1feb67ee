#include "exec/testbed/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "exec/emulation/device_place.hpp"
#include "exec/emulation/dilation.hpp"
#include "exec/emulation/local_cluster.hpp"
#include "exec/session/plan_workers.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "model/base/child_process.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/system_fault.hpp"
#include "model/base/text_table.hpp"

namespace tandem::exec {
namespace {

// A file in memory that other processes open by path_of().
model::Descriptor memory_file(const char* name, const std::string& contents) {
  model::Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.is_open() || ::write(file.number(), contents.data(), contents.size()) !=
                             static_cast<ssize_t>(contents.size()))
    throw Error(std::string("no memory file: ") + model::system_fault(errno, "free some memory"));
  return file;
}

std::string path_of(int descriptor) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
}

std::string hosts_text(const planner::Plan& plan, const std::vector<Endpoint>& endpoints,
                       const Testbed& testbed) {
  // Of devices without work, which nothing connects to: a line is expected all the same.
  constexpr std::uint16_t kIdlePort = 9;
  std::string text;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    if (d == plan.master) continue;
    Endpoint endpoint = endpoints[static_cast<std::size_t>(d)];
    if (endpoint.port == 0)
      endpoint = {.host = address_text(testbed.address(d)), .port = kIdlePort};
    text +=
        plan.cluster.devices()[static_cast<std::size_t>(d)].name + " " + to_text(endpoint) + "\n";
  }
  return text;
}

// Between fork and exec: only what is safe after a fork of a process with threads.
[[noreturn]] void become_master(char* const* words, const DevicePlace& place, bool silent,
                                pid_t parent) {
  model::end_with_parent(parent);
  ::setpgid(0, 0);  // the terminal's Ctrl-C is for the supervisor, which hands it on
  if (!enter(place)) ::_exit(126);
  if (silent) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  ::execv(words[0], words);
  ::_exit(127);
}

pid_t start_master(std::vector<std::string> words, const DevicePlace& place, bool silent) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become_master(arguments.data(), place, silent, parent);
  if (child < 0)
    throw Error("no new process: " + model::system_fault(errno, "close other programs"));
  return child;
}

// Whether `child` has ended before `end` came, or `most` has passed.
bool ends(pid_t child, const Cancellation* end, std::chrono::milliseconds most) {
  // As poll() awaits it.
  const model::Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)));
  if (!process.is_open())
    throw Error("cannot wait for the master: " +
                model::system_fault(errno, "use a kernel of Linux 5.3 or later"));
  std::array<pollfd, 2> polled{
      {{.fd = process.number(), .events = POLLIN, .revents = 0},
       {.fd = end != nullptr ? end->descriptor() : -1, .events = POLLIN, .revents = 0}}};
  while (::poll(polled.data(), polled.size(), static_cast<int>(most.count())) < 0 &&
         errno == EINTR) {
  }
  return polled[0].revents != 0;
}

std::vector<model::Bytes> memory_of(const model::Cluster& cluster) {
  std::vector<model::Bytes> memory;
  for (const model::Device& device : cluster.devices()) memory.push_back(device.memory);
  return memory;
}

// Throws Error if a device of `plan` was ended for the memory that it used.
void check_exhaustion(const MemoryGroups& groups, const planner::Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (!groups.was_exhausted(d)) continue;
    const model::Device& device = plan.cluster.devices()[d];
    throw Error("device '" + device.name + "' has used all of its memory, " +
                to_text(device.memory) + " in the platform, and was ended; give it more there");
  }
}

Testbed dilated_testbed(const model::Cluster& cluster, const SupervisorOptions& options) {
  check_testbed(cluster);
  return {dilated(cluster, options.dilation), options.tcp};
}

std::map<std::string, std::string> environment_of(const Testbed& testbed,
                                                  const std::string& punctuality,
                                                  const SupervisorOptions& options) {
  std::map<std::string, std::string> environment = testbed.environment();
  environment["scheduling"] = punctuality + ", devices compute in turns";
  environment["dilation"] = model::fixed(options.dilation, 2);
  return environment;
}

}  // namespace

Supervisor::Supervisor(const model::Cluster& cluster, const SupervisorOptions& options,
                       Cancellation& end)
    : end_(end),
      options_(options),
      door_(cluster.name(), [&end] { end.cancel("ended by `tandem testbed down`"); }),
      punctuality_((remove_memory_groups(), ask_for_punctuality())),
      testbed_(dilated_testbed(cluster, options)),
      facts_(memory_file(
          "tandem-testbed",
          to_json(TestbedFacts{.turn = path_of(turn_.descriptor()),
                               .network = network_digest(cluster),
                               .platform = cluster.name(),
                               .dilation = options.dilation,
                               .environment = environment_of(testbed_, punctuality_, options)}))) {
  end_.check();
}

int Supervisor::run(const planner::Plan& plan, const PlanRun& run) {
  end_.check();
  const MemoryGroups groups(memory_of(plan.cluster));
  limits_memory_ = groups.limits();
  std::vector<DevicePlace> places;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    places.push_back({.host = address_text(testbed_.address(d)),
                      .network = testbed_.namespaces()[i].descriptor(),
                      .memory_group = groups.entrance(i)});
  }
  const Key key = random_key();
  std::optional<LocalCluster> workers;
  try {
    workers.emplace(LocalClusterOptions{.program = options_.program,
                                        .key = key,
                                        .cache_dir = run.cache_dir,
                                        .cache_bytes = run.cache_bytes,
                                        .verify = run.verify,
                                        .kernels = run.kernels,
                                        .turn_fd = turn_.descriptor(),
                                        .wanted = workers_of(plan),
                                        .places = places});
  } catch (const Error&) {
    check_exhaustion(groups, plan);
    throw;
  }
  const model::Descriptor hosts =
      memory_file("tandem-hosts", hosts_text(plan, workers->endpoints(), testbed_));
  const model::Descriptor secret(key_memory_file(key));
  std::vector<std::string> words{options_.program.string(), "run"};
  words.insert(words.end(), run.words.begin(), run.words.end());
  words.insert(words.end(), {"--hosts", path_of(hosts.number()), "--key", path_of(secret.number()),
                             "--testbed", facts_path()});
  const auto master = static_cast<std::size_t>(plan.master);
  const pid_t id = start_master(std::move(words), places[master], run.silent);
  model::ChildProcess child(id);
  constexpr std::chrono::milliseconds kForever{-1};
  constexpr std::chrono::milliseconds kPatience{1200};
  if (!ends(id, &end_, kForever)) {
    ::kill(id, SIGTERM);
    if (!ends(id, nullptr, kPatience)) child.kill();
  }
  const int status = child.wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  check_exhaustion(groups, plan);
  end_.check();
  constexpr std::chrono::milliseconds kEnding{300};
  if (const auto crash = workers->crash(kEnding))
    throw Error("device '" + plan.cluster.devices()[crash->device].name +
                "': its worker was ended by signal " + std::to_string(crash->signal) + " (" +
                ::strsignal(crash->signal) + "), expected none; run it again");
  if (!WIFEXITED(status)) {
    throw Error("the master's process was ended by signal " + std::to_string(WTERMSIG(status)) +
                ", expected none; run it again");
  }
  constexpr int kNotStarted = 126;
  if (WEXITSTATUS(status) >= kNotStarted)
    throw Error("the master's process, " + options_.program.string() +
                ", did not start in its namespace; run `tandem run --help` to see why");
  return WEXITSTATUS(status);
}

void Supervisor::wait() const {
  pollfd polled{.fd = end_.descriptor(), .events = POLLIN, .revents = 0};
  while (::poll(&polled, 1, -1) < 0 && errno == EINTR) {
  }
}

std::string Supervisor::namespace_path(model::DeviceIndex device) const {
  return path_of(testbed_.namespaces()[static_cast<std::size_t>(device)].descriptor());
}

std::string Supervisor::facts_path() const { return path_of(facts_.number()); }

}  // namespace tandem::exec
