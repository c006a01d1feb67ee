// Random graphs of adds and transfers, executed by runtimes on threads over channels that delay,
// must leave the same bits as executing them serially in index order.

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device_threads.hpp"
#include "exec/runtime/runtime.hpp"
#include "exec/weights/random.hpp"
#include "weights_support.hpp"

namespace tandem::exec {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::Task;
using model::TaskGraph;
using model::TaskKind;

constexpr std::int32_t kRows = 3;
constexpr std::array kBuffers{BufferRef{BufferKind::hidden, 0}, BufferRef{BufferKind::partial, 0},
                              BufferRef{BufferKind::receive, 0}, BufferRef{BufferKind::receive, 1},
                              BufferRef{BufferKind::receive, 2}};

const model::Batch kBatch{{{.sequence = 0, .past = 0, .rows = kRows}}};

// All devices with their buffers filled: each buffer of each device differs.
std::vector<Compute> make_devices(const model::Transformer& t, const std::filesystem::path& weights,
                                  int count) {
  std::vector<Compute> devices;
  for (int d = 0; d < count; ++d) {
    devices.emplace_back(t, Shard::slice(weights, t, testing::whole_share(t)),
                         ComputeLimits{.max_rows = kRows, .max_positions = 4, .receive_slots = 3});
    std::mt19937 random(static_cast<unsigned>(d) + 1);
    std::vector<float> values(static_cast<std::size_t>(kRows) * static_cast<std::size_t>(t.hidden));
    for (const BufferRef buffer : kBuffers) {
      for (float& value : values) value = static_cast<float>(random() % 1000) * 1e-3F;
      devices.back().write_rows(buffer, {0, kRows}, {0, static_cast<std::int32_t>(t.hidden)},
                                values);
    }
  }
  return devices;
}

std::vector<float> contents(const std::vector<Compute>& devices, std::int32_t hidden) {
  std::vector<float> all;
  std::vector<float> values(static_cast<std::size_t>(kRows * hidden));
  for (const Compute& device : devices) {
    for (const BufferRef buffer : kBuffers) {
      device.read_rows(buffer, {0, kRows}, {0, hidden}, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

TaskGraph random_graph(std::mt19937& random, int devices, int tasks, std::int32_t hidden) {
  TaskGraph graph(kBatch);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int i = 0; i < tasks; ++i) {
    Task task;
    task.device = static_cast<model::DeviceIndex>(below(static_cast<std::size_t>(devices)));
    const auto row = static_cast<std::int32_t>(below(kRows));
    task.rows = {row,
                 row + 1 + static_cast<std::int32_t>(below(static_cast<std::size_t>(kRows - row)))};
    const auto first = static_cast<std::int32_t>(below(static_cast<std::size_t>(hidden)));
    const auto width = 1 + below(static_cast<std::size_t>(hidden - first));
    task.columns = below(2) == 0 ? model::Range{0, hidden}
                                 : model::Range{first, first + static_cast<std::int32_t>(width)};
    task.input = kBuffers[below(kBuffers.size())];
    task.output = kBuffers[below(kBuffers.size())];
    if (devices > 1 && below(2) == 0) {
      task.kind = TaskKind::transfer;
      task.lane = model::LaneKind::channel;
      task.peer = static_cast<model::DeviceIndex>((static_cast<std::size_t>(task.device) + 1 +
                                                   below(static_cast<std::size_t>(devices) - 1)) %
                                                  static_cast<std::size_t>(devices));
    } else {
      while (task.output == task.input) task.output = kBuffers[below(kBuffers.size())];
    }
    // Some depend on an earlier task that their device knows of.
    std::vector<model::TaskIndex> dependencies;
    for (model::TaskIndex j = 0; j < graph.size(); ++j) {
      const Task& before = graph.tasks()[static_cast<std::size_t>(j)];
      if ((before.device == task.device || before.peer == task.device) && below(8) == 0) {
        dependencies.push_back(j);
      }
    }
    graph.add(task, dependencies);
  }
  return graph;
}

void execute_serially(const TaskGraph& graph, std::vector<Compute>& devices) {
  std::vector<float> payload;
  for (const Task& task : graph.tasks()) {
    Compute& device = devices[static_cast<std::size_t>(task.device)];
    if (task.lane != model::LaneKind::channel) {
      device.execute(graph.batch(), task);
      continue;
    }
    payload.resize(static_cast<std::size_t>(task.rows.size() * task.columns.size()));
    device.read_rows(task.input, task.rows, task.columns, payload);
    devices[static_cast<std::size_t>(task.peer)].write_rows(task.output, task.rows, task.columns,
                                                            payload);
  }
}

TEST_CASE(
    "exec/runtime: any graph leaves the bits of its serial execution, however messages come") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const auto hidden = static_cast<std::int32_t>(t.hidden);
  std::mt19937 random(11);
  const std::vector<testing::MemoryOptions> networks{
      {.capacity = 1, .max_delay = std::chrono::microseconds(200), .seed = 3},
      {.capacity = 1, .max_delay = std::chrono::microseconds(0), .seed = 4},
      {.sends_inline = true, .receives_inline = true, .seed = 5},
      {.sends_inline = true, .max_delay = std::chrono::microseconds(300), .seed = 6},
      {.receives_inline = true, .max_delay = std::chrono::microseconds(300), .seed = 7}};
  constexpr int kSteps = 2;
  for (int trial = 0; trial < 40; ++trial) {
    const int count = 1 + trial % 5;
    const TaskGraph graph = random_graph(random, count, 10 + trial * 2, hidden);
    std::vector<Compute> serial = make_devices(t, folder.path(), count);
    for (int step = 0; step < kSteps; ++step) execute_serially(graph, serial);
    const std::vector<float> expected = contents(serial, hidden);
    CAPTURE(trial);
    std::vector<Compute> devices = make_devices(t, folder.path(), count);
    for (const std::string& error : testing::execute_on_threads(
             graph, devices, networks[static_cast<std::size_t>(trial) % networks.size()], kSteps))
      CHECK(error == "");
    CHECK(contents(devices, hidden) == expected);
  }
}

}  // namespace
}  // namespace tandem::exec
