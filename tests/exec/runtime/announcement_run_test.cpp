// Devices that begin a step on their own, and so wait for its announcement.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/emulation/ledger_transport.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/graph/announcement.hpp"
#include "model/predict/analytic.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::announcement_run_test {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

constexpr std::int32_t kRows = 2;
constexpr BufferRef kHidden{BufferKind::hidden, 0};
constexpr BufferRef kPartial{BufferKind::partial, 0};
constexpr BufferRef kReceive{BufferKind::receive, 0};

model::Cluster pair_of(double latency_s, double bandwidth_Bps) {
  const auto device = [](const char* name) {
    return model::Device{.name = name,
                         .flop_rate = model::FlopsPerSecond{1e9},
                         .memory_bandwidth = model::BytesPerSecond{1e9},
                         .memory = model::Bytes{1e9}};
  };
  return {"pair",
          {device("a"), device("b")},
          {},
          {{.name = "wire",
            .latency = model::Seconds{latency_s},
            .bandwidth = model::BytesPerSecond{bandwidth_Bps},
            .sharing = model::Sharing::split_duplex}},
          {{"a", "b", {{0, model::Direction::up}}, true}}};
}

Task sum(DeviceIndex device, BufferRef from, BufferRef to, std::int32_t hidden) {
  Task task{.kind = TaskKind::add, .rows = {0, kRows}, .columns = {0, hidden}};
  task.device = device;
  task.input = from;
  task.output = to;
  return task;
}

// The second device adds up what it has, and sends that; the first one adds it to its own.
TaskGraph graph_of(std::int32_t hidden) {
  TaskGraph graph({{{.sequence = 0, .past = 0, .rows = kRows}}});
  const TaskIndex own = graph.add(sum(1, kHidden, kPartial, hidden), {});
  const TaskIndex masters = graph.add(sum(0, kHidden, kPartial, hidden), {});
  Task message = sum(1, kPartial, kReceive, hidden);
  message.kind = TaskKind::transfer;
  message.lane = model::LaneKind::channel;
  message.peer = 0;
  const TaskIndex sent = graph.add(message, {own});
  graph.add(sum(0, kReceive, kPartial, hidden), {masters, sent});
  return graph;
}

std::vector<Compute> devices_of(const model::Transformer& t, const std::filesystem::path& weights) {
  std::vector<Compute> devices;
  for (int d = 0; d < 2; ++d) {
    devices.emplace_back(
        t, Shard::slice(weights, t, testing::whole_share(t)),
        ComputeLimits{.max_rows = kRows,
                      .cache_positions = 4,
                      .buffers = tandem::test::buffers_of(t, testing::whole_share(t), 1)});
    const auto hidden = static_cast<std::int32_t>(t.hidden);
    std::vector<float> values(static_cast<std::size_t>(kRows * hidden), static_cast<float>(d + 1));
    for (const BufferRef buffer : {kHidden, kPartial, kReceive})
      devices.back().write_rows(buffer, {0, kRows}, {0, hidden}, values);
  }
  return devices;
}

float first_sum(const std::vector<Compute>& devices) {
  std::array<float, 1> value{};
  devices[0].read_rows(kPartial, {0, 1}, {0, 1}, value);
  return value[0];
}

TEST_CASE("exec/announcement: a device that begins on its own executes what others announce") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const model::Cluster cluster = pair_of(1e-3, 1e6);
  const TaskGraph graph =
      model::announced(graph_of(static_cast<std::int32_t>(t.hidden)), cluster, 0);
  REQUIRE(model::announces(graph));
  for (const testing::MemoryOptions& network :
       {testing::MemoryOptions{.capacity = 1, .max_delay = std::chrono::microseconds(200)},
        testing::MemoryOptions{.sends_inline = true, .receives_inline = true}}) {
    std::vector<Compute> devices = devices_of(t, folder.path());
    for (const std::string& error : testing::execute_on_threads(graph, devices, network, 3))
      CHECK(error == "");
    // The first has 1, of which each step adds 1; the second 2, and 2, which is added as it grows.
    CHECK(first_sum(devices) == 1.0F + 3.0F * 1.0F + (4.0F + 6.0F + 8.0F));
  }
}

TEST_CASE("exec/announcement: emulated links delay it as they are predicted to") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const model::Cluster cluster = pair_of(40e-3, 1e5);
  const TaskGraph graph =
      model::announced(graph_of(static_cast<std::int32_t>(t.hidden)), cluster, 0);
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices())
    profiles.push_back(model::nominal_profile(device));
  const model::CostModel costs(t, profiles);

  class OneStep : public model::Steps {
   public:
    explicit OneStep(const TaskGraph& graph) : graph_(graph) {}
    [[nodiscard]] std::int32_t count() const override { return 1; }
    const TaskGraph& graph(std::int32_t /*i*/) override { return graph_; }

   private:
    const TaskGraph& graph_;
  } steps(graph);
  model::RunRecorder recorder(cluster, 0, true);
  model::evaluate_analytic(cluster, costs, steps, recorder);
  std::map<std::pair<TaskIndex, bool>, model::Span> predicted;  // by task, and whether a copy
  for (const model::Span& span : recorder.trace().spans) {
    const bool copy = span.kind == TaskKind::capture || span.kind == TaskKind::deliver;
    if (copy && span.kind == TaskKind::deliver) predicted[{span.task, true}] = span;
    if (!copy) predicted[{span.task, false}] = span;
  }

  std::vector<Compute> devices = devices_of(t, folder.path());
  testing::MemoryNetwork network({});
  const auto ledger = std::make_shared<Ledger>(cluster);
  std::vector<std::unique_ptr<LedgerTransport>> transports;
  for (DeviceIndex d : {0, 1}) {
    transports.push_back(
        std::make_unique<LedgerTransport>(std::make_unique<testing::MemoryTransport>(network, d),
                                          ledger, cluster, d, std::make_shared<Cancellation>()));
  }
  std::array<TimeLog, 2> logs;
  const auto errors = testing::on_each_device(2, [&](DeviceIndex self) {
    const auto d = static_cast<std::size_t>(self);
    Pacer pacer({.pace = Pace::nominal, .costs = &costs});
    Runtime runtime(devices[d], transports[d].get(), nullptr, pacer, {.device = self});
    runtime.prepare(graph);
    static_cast<void>(runtime.step(0, graph, nullptr, {}, logs[d]));
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(first_sum(devices) == 1.0F + 1.0F + 4.0F);
  // By the announcement's first byte at the master: emulated time, whenever threads were scheduled.
  std::int64_t origin_ns = 0;
  for (const TaskTime& time : logs[0]) {
    if (time.of() == 0 && !time.copy()) origin_ns = time.start_ns;
  }
  const double origin = predicted.at({0, false}).start;
  // A frame of 24 bytes, and 16 for the only segment, at 100 kB/s.
  CHECK(predicted.at({1, false}).start >= origin + 40e-3 + 40e-5);
  for (const TaskTime& time : logs[1]) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(time.of())];
    const bool runs = !time.copy() && task.lane == model::LaneKind::cpu;
    const bool delivers = time.copy() && task.peer == 1;
    if (!runs && !delivers) continue;
    CAPTURE(time.task);
    const model::Span& span = predicted.at({time.of(), time.copy()});
    const double measured = static_cast<double>(time.start_ns - origin_ns) * 1e-9;
    CHECK(std::abs(measured - (span.start - origin)) <= 1e-6);
  }
}

}  // namespace
}  // namespace tandem::exec::announcement_run_test
