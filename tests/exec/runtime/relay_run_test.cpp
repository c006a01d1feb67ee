// A relay leaves its device when the message that it passes on arrives there, whatever the
// computing thread is at.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/runtime.hpp"
#include "exec/weights/random_weights.hpp"
#include "tests/exec/transport/transport_pair.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::relay_run_test {
namespace {

using model::BufferKind;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

const model::Batch kBatch{{{.sequence = 0, .past = 0, .rows = 1}}};
constexpr std::chrono::seconds kLong{30};

Task sample_on(model::DeviceIndex device) {
  return {
      .kind = TaskKind::sample, .device = device, .rows = {0, 1}, .input = {BufferKind::logits}};
}

Task hidden(model::DeviceIndex from, model::DeviceIndex to, std::int32_t columns) {
  return {.kind = TaskKind::transfer,
          .lane = model::LaneKind::channel,
          .device = from,
          .peer = to,
          .rows = {0, 1},
          .columns = {0, columns},
          .input = {BufferKind::hidden},
          .output = {BufferKind::hidden}};
}

// Device 1 computes (a sample, which may last as long as it likes), and passes on to 2 and 3 what 0
// sends it meanwhile; 2 samples when it has it.
struct Passing {
  TaskGraph graph{kBatch};
  TaskIndex busy = 0;
  TaskIndex sent = 0;
  TaskIndex relayed = 0;

  explicit Passing(std::int32_t columns) {
    busy = graph.add(sample_on(1), {});
    sent = graph.add(hidden(0, 1, columns), {});
    relayed = graph.add(hidden(1, 2, columns), {sent});
    graph.add(hidden(1, 3, columns), {sent});
    graph.add(sample_on(2), {relayed});
  }
};

std::vector<Compute> four_devices(const model::Transformer& t,
                                  const std::filesystem::path& weights) {
  std::vector<Compute> devices;
  for (int d = 0; d < 4; ++d) {
    devices.emplace_back(
        t, Shard::slice(weights, t, testing::whole_share(t)),
        ComputeLimits{.max_rows = 1,
                      .cache_positions = 1,
                      .buffers = tandem::test::buffers_of(t, testing::whole_share(t), 1)});
    std::vector<float> values(static_cast<std::size_t>(t.hidden), static_cast<float>(d));
    devices.back().write_rows({BufferKind::hidden}, {0, 1},
                              {0, static_cast<std::int32_t>(t.hidden)}, values);
  }
  return devices;
}

const TaskTime& record_of(const TimeLog& log, TaskIndex task) {
  const auto found = std::find_if(log.begin(), log.end(), [task](const TaskTime& time) {
    return !time.copy() && time.of() == task;
  });
  REQUIRE(found != log.end());
  return *found;
}

void check_passes_on(const model::Transformer& t, const std::filesystem::path& weights,
                     const std::function<Transport&(model::DeviceIndex)>& transport_of) {
  const Passing passing(static_cast<std::int32_t>(t.hidden));
  std::vector<Compute> devices = four_devices(t, weights);
  std::promise<void> arrived;
  std::shared_future<void> has_arrived = arrived.get_future().share();
  bool in_time = false;
  std::vector<TimeLog> logs(devices.size());
  const auto errors = testing::on_each_device(devices.size(), [&](model::DeviceIndex self) {
    const auto d = static_cast<std::size_t>(self);
    Pacer pacer({});
    Runtime runtime(devices[d], &transport_of(self), nullptr, pacer, {.device = self});
    runtime.prepare(passing.graph);
    const SampleToken sample = [&](std::span<const float>) {
      if (self == 2) arrived.set_value();
      // Device 1 computes until device 2 has what it shall pass on.
      if (self == 1) in_time = has_arrived.wait_for(kLong) == std::future_status::ready;
      return 0;
    };
    runtime.step(0, passing.graph, nullptr, sample, logs[d]);
    CHECK(logs[d].size() == runtime.records(passing.graph));
    const double passed_on = 2.0 * 4.0 * static_cast<double>(t.hidden);
    if (self == 1) CHECK(runtime.bytes_sent() == passed_on);
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(in_time);
  // A sender's record may end after the receiver has the message: only its begin is before that.
  const TaskTime& busy = record_of(logs[1], passing.busy);
  CHECK(record_of(logs[1], passing.relayed).start_ns < busy.end_ns);
  CHECK(record_of(logs[2], passing.relayed).end_ns < busy.end_ns);
  std::vector<float> values(static_cast<std::size_t>(t.hidden));
  for (const std::size_t d : {1U, 2U, 3U}) {
    devices[d].read_rows({BufferKind::hidden}, {0, 1}, {0, static_cast<std::int32_t>(t.hidden)},
                         values);
    CHECK(values == std::vector<float>(values.size(), 0.0F));
  }
}

TEST_CASE("exec/relay: what arrives while a device computes is at the next one before that ends") {
  const testing::TemporaryFolder folder;
  const model::Transformer t = testing::small_llama();
  write_random_weights(t, 5, model::DType::f32, folder.path());
  for (const testing::MemoryOptions& options : std::vector<testing::MemoryOptions>{
           {},
           {.sends_inline = true, .receives_inline = true},
           {.receives_inline = true, .rendezvous = true},
           {.sends_inline = true, .capacity = 1, .max_delay = std::chrono::microseconds(500)}}) {
    testing::MemoryNetwork network(options);
    std::vector<std::unique_ptr<testing::MemoryTransport>> transports;
    for (model::DeviceIndex d = 0; d < 4; ++d)
      transports.push_back(std::make_unique<testing::MemoryTransport>(network, d));
    check_passes_on(t, folder.path(), [&](model::DeviceIndex self) -> Transport& {
      return *transports[static_cast<std::size_t>(self)];
    });
  }
}

TEST_CASE("exec/relay: over sockets, small messages and large ones") {
  const testing::TemporaryFolder folder;
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.heads = t.kv_heads = 1;
  t.head_dim = 2;
  t.intermediate = 1;
  t.vocab = 8;
  for (const std::int64_t columns : {64, 40'000}) {  // 256 bytes, 160 kB
    CAPTURE(columns);
    t.hidden = columns;
    write_random_weights(t, 5, model::DType::f32, folder.path());
    test::Mesh mesh = test::open_mesh(
        4, {{.from = 0, .to = 1}, {.from = 1, .to = 2}, {.from = 1, .to = 3}}, Key{}, {});
    check_passes_on(t, folder.path(), [&](model::DeviceIndex self) -> Transport& {
      return *mesh.devices[static_cast<std::size_t>(self)];
    });
  }
}

TEST_CASE("exec/relay: a peer that takes nothing holds nobody beyond a cancellation") {
  const testing::TemporaryFolder folder;
  const model::Transformer t = testing::small_llama();
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const Passing passing(static_cast<std::int32_t>(t.hidden));
  std::vector<Compute> devices = four_devices(t, folder.path());
  testing::MemoryNetwork network({.rendezvous = true});  // sending waits for the receiver
  // Devices 2 and 3 do nothing at all.
  const auto errors = testing::on_each_device(2, [&](model::DeviceIndex self) {
    testing::MemoryTransport transport(network, self);
    Pacer pacer({});
    Runtime runtime(devices[static_cast<std::size_t>(self)], &transport, nullptr, pacer,
                    {.device = self});
    runtime.prepare(passing.graph);
    std::thread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (self == 1) runtime.cancel("the user said so");
    });
    TimeLog log;
    const auto end = [&] {
      runtime.step(
          0, passing.graph, nullptr, [](std::span<const float>) { return 0; }, log);
    };
    if (self == 1) {
      CHECK_THROWS_WITH_AS(end(), "the user said so", Error);
    } else {
      end();
    }
    user.join();
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("exec/relay: a relay that cannot be sent fails the step of its device, with the reason") {
  class Broken final : public Transport {
   public:
    explicit Broken(Transport& inner) : inner_(&inner) {}
    MessageTimes send(model::DeviceIndex to, MessageTag tag,
                      std::span<const std::byte> payload) override {
      if (to == 2) throw Error("device 2: the wire is cut");
      return inner_->send(to, tag, payload);
    }
    std::optional<MessageTimes> try_send(model::DeviceIndex to, MessageTag tag,
                                         std::span<const std::byte> payload) override {
      if (to == 2) throw Error("device 2: the wire is cut");
      return inner_->try_send(to, tag, payload);
    }
    MessageTimes receive(model::DeviceIndex from, MessageTag tag, std::span<std::byte> payload,
                         Clock::time_point deadline, bool may_spin) override {
      return inner_->receive(from, tag, payload, deadline, may_spin);
    }
    [[nodiscard]] bool receives_inline(model::DeviceIndex from, std::size_t bytes) const override {
      return inner_->receives_inline(from, bytes);
    }
    void cancel(const std::string& reason) noexcept override { inner_->cancel(reason); }

   private:
    Transport* inner_;
  };
  const testing::TemporaryFolder folder;
  const model::Transformer t = testing::small_llama();
  write_random_weights(t, 5, model::DType::f32, folder.path());
  const Passing passing(static_cast<std::int32_t>(t.hidden));
  std::vector<Compute> devices = four_devices(t, folder.path());
  testing::MemoryNetwork network({.sends_inline = true, .receives_inline = true});
  testing::MemoryTransport sender(network, 0);
  sender.send(1, {.step = 0, .task = passing.sent},
              std::as_bytes(
                  std::span<const float>(std::vector<float>(static_cast<std::size_t>(t.hidden)))));
  testing::MemoryTransport inner(network, 1);
  Broken broken(inner);
  Pacer pacer({});
  Runtime runtime(devices[1], &broken, nullptr, pacer, {.device = 1});
  runtime.prepare(passing.graph);
  TimeLog log;
  CHECK_THROWS_WITH_AS(
      runtime.step(
          0, passing.graph, nullptr, [](std::span<const float>) { return 0; }, log),
      "device 2: the wire is cut", Error);
}

}  // namespace
}  // namespace tandem::exec::relay_run_test
