// Random graphs of adds and transfers, executed by runtimes on threads over channels that delay,
// must leave the same bits as executing them serially in index order.

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/runtime/runtime.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/graph/message_schedule.hpp"
#include "tests/exec/transport/transport_pair.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/relay_support.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::random_graph_run_test {
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
    devices.emplace_back(
        t, Shard::slice(weights, t, testing::whole_share(t)),
        ComputeLimits{.max_rows = kRows,
                      .cache_positions = 4,
                      .buffers = tandem::test::buffers_of(t, testing::whole_share(t), 3)});
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
    if (i > 0 && devices > 1 && below(4) == 0) {
      tandem::test::try_relay(
          graph, static_cast<model::TaskIndex>(below(static_cast<std::size_t>(i))),
          static_cast<model::DeviceIndex>(below(static_cast<std::size_t>(devices))), task,
          dependencies);
    }
    graph.add(task, dependencies);
  }
  return graph;
}

int relays_of(const TaskGraph& graph) {
  const model::MessageSchedule schedule = model::message_schedule(graph);
  int relays = 0;
  for (model::TaskIndex i = 0; i < graph.size(); ++i) relays += schedule.is_relay(i) ? 1 : 0;
  return relays;
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
      {.sends_inline = true, .receives_inline = true, .capacity = 1, .seed = 8},
      {.sends_inline = true, .receives_inline = true, .capacity = 2, .seed = 9},
      {.receives_inline = true, .rendezvous = true, .seed = 10},
      {.rendezvous = true, .seed = 11},
      {.sends_inline = true,
       .capacity = 1,
       .max_delay = std::chrono::microseconds(100),
       .seed = 12},
      {.sends_inline = true, .max_delay = std::chrono::microseconds(300), .seed = 6},
      {.receives_inline = true, .max_delay = std::chrono::microseconds(300), .seed = 7}};
  constexpr int kSteps = 2;
  int relays = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const int count = 1 + trial % 7;
    const TaskGraph graph = random_graph(random, count, 10 + trial, hidden);
    std::vector<Compute> serial = make_devices(t, folder.path(), count);
    for (int step = 0; step < kSteps; ++step) execute_serially(graph, serial);
    const std::vector<float> expected = contents(serial, hidden);
    CAPTURE(trial);
    std::vector<Compute> devices = make_devices(t, folder.path(), count);
    for (const std::string& error : testing::execute_on_threads(
             graph, devices, networks[static_cast<std::size_t>(trial) % networks.size()], kSteps))
      CHECK(error == "");
    CHECK(contents(devices, hidden) == expected);
    relays += relays_of(graph);
  }
  CHECK(relays > 500);
}

// The sender's buffer next to nothing. The receiver's window, 64 KiB, stays: with a smaller one the
// kernel sends at the pace of its timers.
void narrow(Connection& connection) {
  const int least = 1;
  ::setsockopt(connection.descriptor(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
}

// Rows of 32 KiB, so that a message of all of them fits into no socket, and next to nothing else.
model::Transformer wide() {
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.hidden = 8192;
  t.heads = t.kv_heads = 1;
  t.head_dim = 2;
  t.intermediate = 1;
  t.vocab = 8;
  return t;
}

void check_over_sockets(const TaskGraph& graph, const model::Transformer& t,
                        const std::filesystem::path& weights, int count, int steps) {
  std::vector<ChannelId> channels;
  for (model::DeviceIndex from = 0; from < count; ++from) {
    for (model::DeviceIndex to = 0; to < count; ++to) {
      if (from != to) channels.push_back({.from = from, .to = to});
    }
  }
  test::Mesh mesh =
      test::open_mesh(count, channels, Key{}, {.inline_bytes = std::size_t{1} << 20}, narrow);
  std::vector<Compute> serial = make_devices(t, weights, count);
  for (int step = 0; step < steps; ++step) execute_serially(graph, serial);
  std::vector<Compute> devices = make_devices(t, weights, count);
  const auto transport_of = [&](model::DeviceIndex self) -> Transport& {
    return *mesh.devices[static_cast<std::size_t>(self)];
  };
  for (const std::string& error : testing::execute_on_threads(graph, devices, transport_of, steps))
    CHECK(error == "");
  const auto hidden = static_cast<std::int32_t>(t.hidden);
  CHECK(contents(devices, hidden) == contents(serial, hidden));
}

TEST_CASE(
    "exec/runtime: peers that both send much before they receive do not wait for each other") {
  const model::Transformer t = wide();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  // Each sends 96 KiB eight times, through one buffer, before it needs what the other sent.
  TaskGraph graph(kBatch);
  const Task message{.kind = TaskKind::transfer,
                     .lane = model::LaneKind::channel,
                     .rows = {0, kRows},
                     .columns = {0, static_cast<std::int32_t>(t.hidden)},
                     .input = kBuffers[0],
                     .output = kBuffers[2]};
  for (model::DeviceIndex from : {0, 1}) {
    for (int i = 0; i < 8; ++i) {
      Task task = message;
      task.device = from;
      task.peer = 1 - from;
      graph.add(task, {});
    }
  }
  for (model::DeviceIndex device : {0, 1}) {
    Task sum{.kind = TaskKind::add, .rows = message.rows, .columns = message.columns};
    sum.device = device;
    sum.input = kBuffers[2];
    sum.output = kBuffers[1];
    graph.add(sum, {});
  }
  check_over_sockets(graph, t, folder.path(), 2, 3);
}

TEST_CASE("exec/runtime: any graph passes through sockets that hold less than a message") {
  const model::Transformer t = wide();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  std::mt19937 random(23);
  for (int trial = 0; trial < 12; ++trial) {
    CAPTURE(trial);
    const int count = 2 + trial % 4;
    const TaskGraph graph =
        random_graph(random, count, 20 + trial * 8, static_cast<std::int32_t>(t.hidden));
    check_over_sockets(graph, t, folder.path(), count, 2);
  }
}

}  // namespace
}  // namespace tandem::exec::random_graph_run_test
