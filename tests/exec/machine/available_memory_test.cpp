// How much memory a process may still take, as the kernel tells it in files.

#include "exec/machine/available_memory.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "exec/runtime/lanes.hpp"
#include "planner/memory/plan_storage.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::available_memory_test {
namespace {

using testing::has;
using testing::TemporaryFolder;
using testing::write_text;

constexpr double kMiB = 1024.0 * 1024.0;

struct Machine {
  Machine() {
    write_text(root() / "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:  8388608 kB\n");
  }
  void groups(const std::string& cgroup, const std::string& mountinfo) const {
    write_text(root() / "proc/self/cgroup", cgroup);
    write_text(root() / "proc/self/mountinfo",
               "22 1 0:5 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" + mountinfo);
  }
  void file(const std::string& path, const std::string& text) const {
    write_text(root() / path, text);
  }
  [[nodiscard]] double mib() const { return available_memory(root()).bytes / kMiB; }
  [[nodiscard]] const std::filesystem::path& root() const { return folder.path(); }
  TemporaryFolder folder;
};

std::string bytes(double mib) { return std::to_string(static_cast<long long>(mib * kMiB)) + "\n"; }

TEST_CASE("exec/memory: without control groups the machine's") {
  const Machine machine;
  CHECK(machine.mib() == 8192.0);
  CHECK(available_memory(machine.root()).bound == "this machine");
  machine.groups("0::/\n", "");
  CHECK(machine.mib() == 8192.0);
}

TEST_CASE("exec/memory: the least of nested limits, page cache taken back, version 2") {
  const Machine machine;
  machine.groups("0::/user.slice/app\n",
                 "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
  machine.file("sys/fs/cgroup/user.slice/memory.current", bytes(900));
  machine.file("sys/fs/cgroup/user.slice/memory.max", "max\n");
  machine.file("sys/fs/cgroup/user.slice/app/memory.current", bytes(100));
  machine.file("sys/fs/cgroup/user.slice/app/memory.max", "max\n");
  CHECK(machine.mib() == 8192.0);
  machine.file("sys/fs/cgroup/user.slice/app/memory.max", bytes(120));
  CHECK(machine.mib() == 20.0);
  CHECK(has(available_memory(machine.root()).bound, "user.slice/app"));
  machine.file("sys/fs/cgroup/user.slice/app/memory.stat",
               "anon 1\nfile 99\ninactive_file " + bytes(30) + "active_file " + bytes(8) +
                   "slab_reclaimable " + bytes(2));
  CHECK(machine.mib() == 60.0);
  machine.file("sys/fs/cgroup/user.slice/app/memory.high", bytes(110));
  CHECK(machine.mib() == 50.0);
  machine.file("sys/fs/cgroup/user.slice/memory.max", bytes(910));
  CHECK(machine.mib() == 10.0);
  machine.file("sys/fs/cgroup/user.slice/memory.max", bytes(800));
  CHECK(machine.mib() == 0.0);
}

TEST_CASE("exec/memory: version 1, beside version 2 without memory") {
  const Machine machine;
  machine.groups("4:cpu,memory:/box\n1:name=systemd:/box\n0::/\n",
                 "31 22 0:27 / /groups/a\\040b rw - cgroup cgroup rw,cpu,memory\n"
                 "32 22 0:28 / /groups/cpu rw - cgroup cgroup rw,cpu\n"
                 "33 22 0:29 / /groups/unified rw - cgroup2 cgroup2 rw\n");
  machine.file("groups/a b/box/memory.usage_in_bytes", bytes(100));
  machine.file("groups/a b/box/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.mib() == 8192.0);
  machine.file("groups/a b/box/memory.limit_in_bytes", bytes(120));
  machine.file("groups/a b/box/memory.stat", "inactive_file 7\ntotal_inactive_file " + bytes(5));
  CHECK(machine.mib() == 25.0);
  machine.file("groups/a b/memory.usage_in_bytes", bytes(300));
  machine.file("groups/a b/memory.limit_in_bytes", bytes(310));
  CHECK(machine.mib() == 10.0);
}

TEST_CASE("exec/memory: a container that shows only its own group, and one beyond what it shows") {
  const Machine machine;
  const std::string mount = "31 22 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  machine.file("sys/fs/cgroup/memory.current", bytes(100));
  machine.file("sys/fs/cgroup/memory.max", bytes(150));
  machine.file("sys/fs/cgroup/inner/memory.current", bytes(10));
  machine.file("sys/fs/cgroup/inner/memory.max", bytes(20));
  machine.groups("0::/docker/abc\n", mount);
  CHECK(machine.mib() == 50.0);
  machine.groups("0::/docker/abc/inner\n", mount);
  CHECK(machine.mib() == 10.0);
  machine.groups("0::/docker/abcd/inner\n", mount);
  CHECK(machine.mib() == 50.0);
  machine.groups("0::/../other\n", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  CHECK(machine.mib() == 50.0);
}

TEST_CASE("exec/memory: devices that share a machine must fit together") {
  model::Transformer t = testing::eight_heads();
  // Prompts of any length, until caches and activations no longer fit.
  t.max_context = std::int64_t{1} << 30;
  const planner::Plan plan = testing::plan_for(t, "tensor", 3, "equal", 4, 4);
  const auto need = [&](std::int64_t prompt) {
    return RunOptions{.workload = {.prompt_tokens = prompt, .new_tokens = 1}};
  };
  const std::vector<model::DeviceIndex> all{0, 1, 2};
  std::int64_t prompt = 1024;
  const auto fits = [&](std::span<const model::DeviceIndex> devices) {
    try {
      check_memory(plan, devices, need(prompt));
      return true;
    } catch (const Error& error) {
      CHECK(has(error.what(), "available"));
      return false;
    }
  };
  while (fits(all)) prompt += prompt / 4;
  CHECK(fits(std::span(all).first(1)));
}

TEST_CASE("exec/memory: what a run needs is its workload, or what its requests may take") {
  const planner::Workload workload{.prompt_tokens = 70, .new_tokens = 5};
  CHECK(RunOptions{.workload = workload}.needs() ==
        planner::Capacity{.rows = 70, .positions = 128, .sequences = 1, .steps = 1});
  const planner::Capacity capacity{.rows = 20, .positions = 192, .sequences = 3, .steps = 2};
  const auto serving = [&](std::int64_t rows) {
    return RunOptions{.workload = {.prompt_tokens = rows, .new_tokens = 1}, .capacity = capacity};
  };
  // A prompt of all rows takes more positions by itself than requests within the capacity do.
  CHECK(serving(20).needs() == capacity);
  planner::Capacity more = capacity;
  more.rows = 200;
  CHECK(serving(200).needs() == more);
}

TEST_CASE(
    "exec/memory: a run that serves needs what its plan reserves, and no byte less suffices") {
  const model::Transformer t = testing::eight_heads();
  planner::Plan plan = testing::plan_for(t, "tensor", 3, "equal", 9, 4);
  plan.capacity = {.rows = 67, .positions = 128, .sequences = 2, .steps = 1};
  for (model::DeviceProfile& profile : plan.profiles) profile.program_bytes = 1e6;
  const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
  const RunOptions run{.workload = {.prompt_tokens = 67, .new_tokens = 1},
                       .capacity = plan.reserved()};
  const auto with_budget = [&](double spare) {
    std::vector<model::Device> devices = plan.cluster.devices();
    for (std::size_t d = 0; d < devices.size(); ++d)
      devices[d].memory = model::Bytes{memory[d].total() + spare};
    planner::Plan other = plan;
    other.cluster = model::Cluster(plan.cluster.name(), devices, plan.cluster.routers(),
                                   plan.cluster.links(), plan.cluster.edges());
    return other;
  };
  CHECK_NOTHROW(StepGraphs(with_budget(0.0), run));
  CHECK_THROWS_WITH_AS(
      StepGraphs(with_budget(-1.0), run),
      doctest::Contains("run: steps of 67 rows, of 2 sequences with 128 positions, need"), Error);
}

TEST_CASE("exec/memory: an offered run's sequences and steps are bounded") {
  const RunOptions run{.workload = {.prompt_tokens = 4, .new_tokens = 1},
                       .capacity = {.rows = 4, .positions = 64, .sequences = 2, .steps = 1},
                       .most_steps = 77};
  CHECK(parse_run_options(to_json(run), "offered run") == run);
  RunOptions many = run;
  many.capacity.sequences = planner::kMostSequences + 1;
  CHECK_THROWS_WITH_AS((void)parse_run_options(to_json(many), "offered run"),
                       doctest::Contains("'sequences' is 4097"), Error);
}

TEST_CASE("exec/memory: a channel's room is declared before its first step, and is all there is") {
  testing::MemoryNetwork network({});
  testing::MemoryTransport transport(network, 0);
  OutgoingLane lane(transport, 1, {});
  const auto program = [](std::int32_t slots, std::size_t bytes) {
    return ChannelProgram{.peer = 1, .messages = {}, .slots = slots, .slot_bytes = bytes};
  };
  const ChannelProgram two = program(2, 8);
  CHECK_THROWS_AS(lane.reserve(two), std::logic_error);
  lane.declare(16);
  CHECK_NOTHROW(lane.reserve(two));
  lane.declare(20);
  CHECK(lane.allocated_bytes() == 20.0);
  lane.begin(0, two, {});
  CHECK_NOTHROW(lane.declare(20));
  CHECK_NOTHROW(lane.reserve(program(4, 5)));
  CHECK_THROWS_AS(lane.declare(21), std::logic_error);
  CHECK_THROWS_AS(lane.reserve(program(3, 7)), std::logic_error);
}

}  // namespace
}  // namespace tandem::exec::available_memory_test
