#include "exec/emulation/local_cluster.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include "exec/weights/store/block_store.hpp"
#include "model/base/child_process.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The kernel's struct sched_attr (sched_setattr(2)), for which there is no header here.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 100'000;  // of SCHED_OTHER: the slice, since Linux 6.12
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

// Between fork and exec: only what is safe after a fork of a process with threads.
[[noreturn]] void become(const char* program, char* const* arguments, const DevicePlace& place,
                         std::span<const int> inherited, pid_t parent) {
  model::end_with_parent(parent);
  if (!enter(place)) _exit(126);
  for (const int descriptor : inherited) {
    if (descriptor >= 0) fcntl(descriptor, F_SETFD, 0);
  }
  std::signal(SIGINT, SIG_IGN);  // the terminal's Ctrl-C is for the master to handle
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, arguments);
  _exit(127);
}

// The port that a worker writes as one line, or 0 if it ends first.
std::uint16_t read_port(int descriptor, SteadyClock::time_point deadline) {
  std::string line;
  while (line.find('\n') == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now());
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0) return 0;
    std::array<char, 16> bytes{};
    const ssize_t got = read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > 16) return 0;
    line.append(bytes.data(), static_cast<std::size_t>(got));
  }
  std::uint16_t port = 0;
  std::from_chars(line.data(), line.data() + line.size(), port);
  return port;
}

DevicePlace place_of(const LocalClusterOptions& options, std::size_t device) {
  return options.places.empty() ? DevicePlace() : options.places.at(device);
}

}  // namespace

std::string ask_for_punctuality() {
  constexpr unsigned long kNanosecond = 1;
  const bool exact = prctl(PR_SET_TIMERSLACK, kNanosecond) == 0;
  constexpr int kAboveOthers = -10;
  const bool first = setpriority(PRIO_PROCESS, 0, kAboveOthers) == 0;
  // The shorter its slice, the sooner a thread that wakes runs before one that computes.
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  const bool sliced = syscall(SYS_sched_setattr, 0, &attributes, 0U) == 0;
  return std::string(first ? "nice -10" : "nice 0") +
         (exact ? ", exact timers" : ", timers with slack") +
         (sliced ? ", slices of 0.1 ms" : ", default slices");
}

LocalCluster::LocalCluster(const LocalClusterOptions& options)
    : processes_(options.wanted.size()), endpoints_(options.wanted.size()) {
  need_cache_dir(options.cache_dir);
  const int key_fd = key_memory_file(options.key);
  try {
    for (std::size_t d = 0; d < options.wanted.size(); ++d) {
      if (options.wanted[d]) start(options, place_of(options, d), key_fd, processes_[d]);
    }
    const auto deadline = SteadyClock::now() + options.start_time;
    for (std::size_t d = 0; d < processes_.size(); ++d) {
      if (!processes_[d].child.running()) continue;
      const std::uint16_t port = read_port(processes_[d].port.number(), deadline);
      if (port == 0) {
        throw Error("emulated device " + std::to_string(d) + ": its worker " +
                    options.program.string() + " did not start; run `tandem worker` to see why");
      }
      endpoints_[d] = {.host = place_of(options, d).host, .port = port};
    }
  } catch (...) {
    ::close(key_fd);
    stop();
    throw;
  }
  ::close(key_fd);
}

LocalCluster::~LocalCluster() { stop(); }

void LocalCluster::start(const LocalClusterOptions& options, const DevicePlace& place, int key_fd,
                         Process& process) {
  model::Pipe pipe = model::open_pipe("emulation");
  process.port = std::move(pipe.reading);
  std::vector<std::string> words{options.program.string(),
                                 "worker",
                                 "--listen",
                                 place.host + ":0",
                                 "--key",
                                 "/proc/self/fd/" + std::to_string(key_fd),
                                 "--threads",
                                 "1",
                                 "--kernels",
                                 std::string(to_string(options.kernels)),
                                 "--cache",
                                 options.cache_dir.string(),
                                 "--once",
                                 "--quiet",
                                 "--port-fd",
                                 std::to_string(pipe.writing.number())};
  if (options.verify) words.emplace_back("--verify");
  if (options.cache_bytes) {
    words.insert(words.end(), {"--cache-size", std::to_string(*options.cache_bytes) + "B"});
  }
  if (options.ledger_fd >= 0) {
    words.insert(words.end(), {"--ledger-fd", std::to_string(options.ledger_fd)});
  }
  if (options.turn_fd >= 0) {
    words.insert(words.end(), {"--turn-fd", std::to_string(options.turn_fd)});
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::array<int, 4> inherited{key_fd, pipe.writing.number(), options.ledger_fd,
                                     options.turn_fd};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(words[0].c_str(), arguments.data(), place, inherited, parent);
  if (child < 0) {
    throw Error("emulation: no new process: " + model::system_fault(errno, "close other programs"));
  }
  process.child = model::ChildProcess(child);
}

std::optional<LocalCluster::Crash> LocalCluster::crash(
    std::chrono::milliseconds patience) noexcept {
  const auto deadline = SteadyClock::now() + patience;
  while (true) {
    for (std::size_t d = 0; d < processes_.size(); ++d) {
      const std::optional<int> status = processes_[d].child.status_if_ended();
      if (status && WIFSIGNALED(*status)) return Crash{.device = d, .signal = WTERMSIG(*status)};
    }
    if (SteadyClock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void LocalCluster::wait(std::chrono::milliseconds patience) noexcept {
  const auto deadline = SteadyClock::now() + patience;
  for (Process& process : processes_) {
    while (!process.child.ended() && SteadyClock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

void LocalCluster::stop() noexcept {
  // One that fails by itself may be about to say why.
  constexpr std::chrono::milliseconds kLastWords{500};
  wait(kLastWords);
  for (const Process& process : processes_) process.child.kill();  // all, before one is waited for
  processes_.clear();
}

}  // namespace tandem::exec
