// Collectives executed by runtimes on threads, over channels that delay.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "exec/runtime/device_run.hpp"
#include "exec/runtime/runtime.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::collective_run_test {
namespace {

using model::Range;
using planner::Participant;
using testing::TemporaryFolder;

constexpr model::BufferRef kPartial{model::BufferKind::partial, 0};
const std::vector<std::string> kAll = test::with_compositions(test::kAllreduces);

// Whole, so that sums of them are exact in any order.
float term(model::DeviceIndex device, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(device) * 7919 + i * 31) % 4096);
}

std::vector<Compute> devices_of(const model::Transformer& t, const std::filesystem::path& weights,
                                const std::vector<Participant>& participants, std::int32_t columns,
                                std::int16_t slots = 1, float divisor = 1.0F) {
  std::vector<Compute> devices;
  std::vector<float> values(static_cast<std::size_t>(test::kSumRows * columns));
  for (const Participant& p : participants) {
    devices.emplace_back(
        t, Shard::slice(weights, t, testing::whole_share(t)),
        ComputeLimits{.max_rows = test::kSumRows,
                      .cache_positions = 4,
                      .buffers = tandem::test::buffers_of(t, testing::whole_share(t), slots)});
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = p.contributes ? term(p.device, i) / divisor : 0.5F;  // that no sum may have
    devices.back().write_rows(kPartial, {0, test::kSumRows}, {0, columns}, values);
  }
  return devices;
}

TEST_CASE("exec/collective: exact sums on 1 to 9 devices, odd sizes, whoever takes part" *
          doctest::test_suite("long")) {
  const model::Transformer t = testing::small_llama();
  const TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  std::uint64_t seed = 0;
  for (const std::string& allreduce : kAll) {
    for (int count = 1; count <= 9; ++count) {
      const model::Cluster cluster = test::some_homes(count);
      for (const std::int32_t columns : {1, count, 13}) {
        for (const unsigned absent : {0U, 0x0AU}) {  // devices 1 and 3 give or need nothing
          std::vector<Participant> participants = test::everyone(count);
          for (Participant& p : participants) {
            const bool off = ((absent >> static_cast<unsigned>(p.device)) & 1U) != 0;
            p.contributes = !off;
            p.receives = !off || p.device == 3;
          }
          CAPTURE(allreduce);
          CAPTURE(count);
          CAPTURE(columns);
          CAPTURE(absent);
          const model::TaskGraph graph = test::sum_graph(cluster, count / 2 == 1 ? 0 : count / 2,
                                                         allreduce, columns, participants);
          std::vector<Compute> devices = devices_of(t, folder.path(), participants, columns);
          const testing::MemoryOptions network{.sends_inline = seed % 2 == 0,
                                               .receives_inline = seed % 3 == 0,
                                               .capacity = seed % 2 == 0 ? 1000U : 1U,
                                               .max_delay = std::chrono::microseconds(100),
                                               .seed = ++seed};
          for (const std::string& error : testing::execute_on_threads(graph, devices, network, 1))
            CHECK(error == "");
          std::vector<float> values(static_cast<std::size_t>(test::kSumRows * columns));
          int wrong = 0;
          for (const Participant& p : participants) {
            if (!p.receives) continue;
            devices[static_cast<std::size_t>(p.device)].read_rows(kPartial, {0, test::kSumRows},
                                                                  {0, columns}, values);
            for (std::size_t i = 0; i < values.size(); ++i) {
              float expected = 0.0F;
              for (const Participant& q : participants)
                if (q.contributes) expected += term(q.device, i);
              if (values[i] != expected) ++wrong;
            }
          }
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("exec/collective: all devices have equal bits of a sum, whatever the wire's type") {
  testing::Sampled taken(7);
  model::Transformer t = testing::small_llama();
  t.hidden = 9 * 32;  // a block of q8_0 for each of 9 devices
  const auto columns = static_cast<std::int32_t>(t.hidden);
  const TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  for (const std::string& allreduce : kAll) {
    for (int count = 2; count <= 9; ++count) {
      for (const model::WireFormat wire : model::kWireFormats) {
        if (!taken()) continue;
        CAPTURE(allreduce);
        CAPTURE(count);
        CAPTURE(to_string(wire));
        std::vector<Participant> participants = test::everyone(count);
        const model::TaskGraph graph =
            test::sum_graph_of(planner::proximity(test::some_homes(count), 0), 0, allreduce,
                               columns, participants, wire);
        // Terms in sevenths, which no type holds exactly.
        std::vector<Compute> devices = devices_of(t, folder.path(), participants, columns, 1, 7.0F);
        for (const std::string& error :
             testing::execute_on_threads(graph, devices, testing::MemoryOptions{.seed = 3}, 1))
          CHECK(error == "");
        std::vector<float> first(static_cast<std::size_t>(test::kSumRows * columns));
        std::vector<float> values(first.size());
        devices.front().read_rows(kPartial, {0, test::kSumRows}, {0, columns}, first);
        for (std::size_t d = 1; d < devices.size(); ++d) {
          CAPTURE(d);
          devices[d].read_rows(kPartial, {0, test::kSumRows}, {0, columns}, values);
          CHECK(std::ranges::equal(values, first));
        }
        double error = 0.0;
        for (std::size_t i = 0; i < first.size(); ++i) {
          double exact = 0.0;
          for (const Participant& p : participants) exact += term(p.device, i) / 7.0;
          error = std::max(error, std::abs(first[i] - exact));
        }
        // A few roundings of numbers up to 9 * 585: q8_0 has 127 steps, bf16 8 bits.
        CHECK(error < 0.02 * count * 4096 / 7);
      }
    }
  }
}

TEST_CASE("exec/collective: broadcasts reach all that receive") {
  const model::Transformer t = testing::small_llama();
  const TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  constexpr std::int32_t kColumns = 13;
  std::uint64_t seed = 0;
  for (const std::string& name : kAll) {
    for (const int count : {1, 2, 3, 6, 8}) {
      for (const bool all : {true, false}) {
        CAPTURE(name);
        CAPTURE(count);
        CAPTURE(all);
        std::vector<Participant> participants = test::everyone(count);
        std::vector<bool> receives;
        for (Participant& p : participants) {
          p.contributes = p.device == 0;
          receives.push_back(all || p.device % 2 == 0);
        }
        const model::TaskGraph graph = test::broadcast_graph(
            planner::proximity(test::some_homes(count), 0), name, kColumns, receives);
        std::vector<Compute> devices = devices_of(t, folder.path(), participants, kColumns);
        const testing::MemoryOptions network{.sends_inline = seed % 2 == 0,
                                             .max_delay = std::chrono::microseconds(100),
                                             .seed = ++seed};
        for (const std::string& error : testing::execute_on_threads(graph, devices, network, 1))
          CHECK(error == "");
        std::vector<float> values(static_cast<std::size_t>(test::kSumRows * kColumns));
        int wrong = 0;
        for (std::size_t d = 0; d < devices.size(); ++d) {
          if (!receives[d]) continue;
          devices[d].read_rows(kPartial, {0, test::kSumRows}, {0, kColumns}, values);
          for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] == term(0, i) ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("exec/collective: all-to-alls bring every chunk to its slot") {
  const model::Transformer t = testing::small_llama();
  const TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  std::uint64_t seed = 0;
  for (const std::string& name : kAll) {
    for (const int count : {2, 3, 6, 8}) {
      CAPTURE(name);
      CAPTURE(count);
      std::vector<std::int32_t> sizes;
      for (int rank = 0; rank < count; ++rank) sizes.push_back((rank * 5 + 1) % 4);
      const std::int32_t columns = std::accumulate(sizes.begin(), sizes.end(), 0);
      const planner::Cut cut = test::cut_of(planner::Cut::Axis::columns, sizes);
      const test::Dealt made = test::dealt(planner::proximity(test::some_homes(count), 0), name,
                                           test::kSumRows, columns, cut);
      const std::vector<Participant> participants = test::everyone(count);
      std::vector<Compute> devices =
          devices_of(t, folder.path(), participants, columns, static_cast<std::int16_t>(count - 1));
      const testing::MemoryOptions network{.sends_inline = seed % 2 == 0,
                                           .max_delay = std::chrono::microseconds(100),
                                           .seed = ++seed};
      for (const std::string& error : testing::execute_on_threads(made.graph, devices, network, 1))
        CHECK(error == "");
      int wrong = 0;
      for (std::size_t to = 0; to < made.devices.size(); ++to) {
        const Range own = cut.chunks[to];
        if (own.empty()) continue;
        std::vector<float> values(static_cast<std::size_t>(test::kSumRows * own.size()));
        for (std::size_t from = 0; from < made.devices.size(); ++from) {
          if (from == to) continue;
          const auto slot = static_cast<std::int16_t>(from < to ? from : from - 1);
          devices[static_cast<std::size_t>(made.devices[to])].read_rows(
              {model::BufferKind::receive, slot}, {0, test::kSumRows}, own, values);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const auto width = static_cast<std::size_t>(own.size());
            const std::size_t place = i / width * static_cast<std::size_t>(columns) +
                                      static_cast<std::size_t>(own.begin) + i % width;
            wrong += values[i] == term(made.devices[from], place) ? 0 : 1;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

// Rows in parts that differ, one of them empty where there are three ranks or more.
TEST_CASE("exec/collective: exact reduce-scatters and all-gathers of uneven rows") {
  const model::Transformer t = testing::small_llama();
  const TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  constexpr std::int32_t kColumns = 13;
  std::uint64_t seed = 0;
  for (const std::string& allreduce : kAll) {
    for (const int count : {1, 2, 3, 5, 8}) {
      for (const bool gathers : {true, false}) {
        CAPTURE(allreduce);
        CAPTURE(count);
        CAPTURE(gathers);
        std::vector<std::int32_t> sizes;
        sizes.reserve(static_cast<std::size_t>(count));
        for (int rank = 0; rank < count; ++rank) sizes.push_back(rank % 3 == 2 ? 0 : 1 + rank % 4);
        const std::int32_t rows = std::accumulate(sizes.begin(), sizes.end(), 0);
        const test::Halved halved =
            test::half_graph(test::some_homes(count), allreduce, gathers, rows, kColumns,
                             test::cut_of(planner::Cut::Axis::rows, sizes, 2));
        std::vector<Compute> devices;
        std::vector<float> values(static_cast<std::size_t>(rows * kColumns));
        const auto part = [&](std::size_t rank) {
          return Range{halved.parts[rank].begin, halved.parts[rank].end};
        };
        for (model::DeviceIndex device = 0; device < count; ++device) {
          const auto rank = static_cast<std::size_t>(std::ranges::find(halved.devices, device) -
                                                     halved.devices.begin());
          devices.emplace_back(
              t, Shard::slice(folder.path(), t, testing::whole_share(t)),
              ComputeLimits{.max_rows = rows,
                            .cache_positions = 4,
                            .buffers = tandem::test::buffers_of(t, testing::whole_share(t), 1)});
          for (std::size_t i = 0; i < values.size(); ++i) {
            const bool own = part(rank).contains({static_cast<std::int32_t>(i) / kColumns,
                                                  static_cast<std::int32_t>(i) / kColumns + 1});
            values[i] = gathers ? (own ? term(0, i) : 0.5F) : term(device, i);
          }
          devices.back().write_rows(kPartial, {0, rows}, {0, kColumns}, values);
        }
        const testing::MemoryOptions network{.sends_inline = seed % 2 == 0,
                                             .receives_inline = seed % 3 == 0,
                                             .capacity = seed % 2 == 0 ? 1000U : 1U,
                                             .max_delay = std::chrono::microseconds(100),
                                             .seed = ++seed};
        for (const std::string& error :
             testing::execute_on_threads(halved.graph, devices, network, 1))
          CHECK(error == "");
        int wrong = 0;
        for (std::size_t rank = 0; rank < halved.devices.size(); ++rank) {
          devices[static_cast<std::size_t>(halved.devices[rank])].read_rows(kPartial, {0, rows},
                                                                            {0, kColumns}, values);
          const Range mine = gathers ? Range{0, rows} : part(rank);
          for (std::int32_t at = mine.begin * kColumns; at < mine.end * kColumns; ++at) {
            const auto i = static_cast<std::size_t>(at);
            float expected = gathers ? term(0, i) : 0.0F;
            for (model::DeviceIndex q = 0; !gathers && q < count; ++q) expected += term(q, i);
            if (values[i] != expected) ++wrong;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

const std::vector<std::int32_t> kPrompt{79, 110, 99, 101, 32, 117, 112, 111, 110};
constexpr int kTokens = 8;

// A plan's compositions want groups.
std::vector<std::string> names_for(int devices) {
  return devices > 2 && devices % 2 == 0 ? kAll : test::kAllreduces;
}

planner::Plan planned(const model::Transformer& t, int devices, const std::string& allreduce) {
  planner::Request request{.model = t,
                           .cluster = test::some_homes(devices),
                           .partition = "equal",
                           .allreduce = allreduce,
                           .workload = {static_cast<std::int64_t>(kPrompt.size()), kTokens}};
  return std::get<planner::Plan>(make_plan(request));
}

// Every device on a thread; what the master generated, greedily, with the logits.
std::vector<std::int32_t> generate(const planner::Plan& plan, const std::filesystem::path& weights,
                                   std::vector<std::vector<float>>& logits) {
  testing::MemoryNetwork network({.max_delay = std::chrono::microseconds(100), .seed = 9});
  std::vector<std::int32_t> generated;
  const auto errors = testing::on_each_device(
      plan.devices.size(),
      [&](model::DeviceIndex self) {
        testing::MemoryTransport transport(network, self);
        DeviceRun device(
            plan, {.self = self, .run = {.workload = plan.workload}},
            {Shard::slice(weights, plan.model, plan.devices[static_cast<std::size_t>(self)].share),
             nullptr},
            &transport);
        Sampler greedy({});
        std::vector<std::int32_t> tokens = kPrompt;
        for (int i = 0; i < kTokens; ++i) {
          const auto sample = [&](std::span<const float> values) {
            logits.emplace_back(values.begin(), values.end());
            return greedy.sample(values);
          };
          const bool master = self == plan.master;
          const std::int32_t token =
              device.step(i, master ? tokens : std::vector<std::int32_t>{}, sample);
          if (!master) continue;
          generated.push_back(token);
          tokens = {token};
        }
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  return generated;
}

TEST_CASE(
    "exec/collective: every collective generates the star's tokens, bit for bit the serial "
    "order's" *
    doctest::test_suite("long")) {
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 17, model::DType::f32, folder.path());
  std::vector<std::int32_t> expected;
  for (const int devices : {2, 3, 5, 6, 8}) {
    for (const std::string& allreduce : names_for(devices)) {
      for (const bool both : {true, false}) {
        CAPTURE(devices);
        CAPTURE(allreduce);
        CAPTURE(both);
        const planner::Plan plan = planned(t, devices, allreduce + (both ? "" : ",star"));
        std::vector<std::vector<float>> logits;
        const std::vector<std::int32_t> tokens = generate(plan, folder.path(), logits);
        if (expected.empty()) expected = tokens;
        CHECK(tokens == expected);
        std::vector<std::vector<float>> serial_logits;
        testing::SerialExecutor serial(plan, folder.path());
        CHECK(serial.generate(kPrompt, kTokens, serial_logits) == tokens);
        CHECK(logits == serial_logits);
      }
    }
  }
}

TEST_CASE("exec/collective: buffers that a device allocates are within the prediction") {
  testing::Sampled taken(7);
  const model::Transformer t = testing::eight_heads();
  const TemporaryFolder folder;
  write_random_weights(t, 3, model::DType::f32, folder.path());
  for (const int devices : {2, 3, 5, 6, 8}) {
    for (const std::string& allreduce : names_for(devices)) {
      for (const char* const decode : {"", ",star", ",ring"}) {
        if (!taken()) continue;
        CAPTURE(devices);
        CAPTURE(allreduce);
        CAPTURE(decode);
        const planner::Plan plan = planned(t, devices, allreduce + decode);
        testing::MemoryNetwork network({});
        for (std::size_t d = 0; d < plan.devices.size(); ++d) {
          CAPTURE(d);
          const auto self = static_cast<model::DeviceIndex>(d);
          testing::MemoryTransport transport(network, self);
          const DeviceRun run(plan, {.self = self, .run = {.workload = plan.workload}},
                              {Shard::slice(folder.path(), t, plan.devices[d].share), nullptr},
                              &transport);
          const double got = run.report().peak_memory.buffers;
          const double predicted = plan.devices[d].memory.buffers;
          // Predictions are whole rows of the prompt, and the same for all ranks of a ring, some of
          // which pass on less than others; buffers are whole cache lines.
          const double row = 4.0 * static_cast<double>(kPrompt.size()) * 44.0;
          CHECK(got <= predicted + 64.0);
          CHECK(got > predicted - (allreduce == "ring" ? 2.0 : 1.0) * row);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::exec::collective_run_test
