// Activations that travel in fewer bytes, and keys and values that are kept in fewer, really
// executed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/collective_fixture.hpp"
#include "tests/support/device_runs.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::wire_type_run_test {
namespace {

using model::BufferKind;
using model::TaskKind;
using model::WireFormat;
using testing::TemporaryFolder;

constexpr int kTokens = 3;

struct Given {
  const char* strategy;
  int devices;
  const char* partition;
  const char* allreduce;
};
constexpr Given kAll[] = {{"tensor", 2, "equal", "star"},
                          {"tensor", 3, "1:2:5", "ring"},
                          {"tensor", 5, "equal", "halving"},
                          {"tensor", 4, "equal", "tree"},
                          {"tensor", 6, "equal", "hierarchical:ring+star"},
                          {"pipeline", 3, "equal", ""},
                          {"galaxy", 3, "1:2:5", "ring,star"},
                          {"galaxy", 4, "equal", "halving,ring"},
                          {"sp", 3, "auto", "ring"},
                          {"csps", 3, "1:2:5", "star"}};

model::Transformer geometry() {
  model::Transformer t = testing::eight_heads();
  t.max_context = 64;
  return t;
}

planner::Plan planned(const Given& given, WireFormat wire,
                      const model::Transformer& model = geometry()) {
  planner::Request request{.model = model,
                           .cluster = std::string(given.allreduce).starts_with("hierarchical")
                                          ? tandem::test::some_homes(given.devices)
                                          : testing::star_of(given.devices),
                           .strategy = given.strategy,
                           .partition = given.partition,
                           .workload = {11, kTokens},
                           .wire = wire};
  if (*given.allreduce != 0) request.allreduce = given.allreduce;
  return std::get<planner::Plan>(make_plan(request));
}

std::vector<std::int32_t> prompt() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 11; ++i) ids.push_back((17 + i * 31) % 250);
  return ids;
}

// The logits of each step.
std::vector<std::vector<float>> executed(const planner::Plan& plan,
                                         const std::filesystem::path& weights) {
  return testing::executed(plan, prompt(),
                           [&](std::size_t device) {
                             return Shard::slice(weights, plan.model, plan.devices[device].share);
                           })
      .logits;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference = d <= difference ? difference : d;  // keeps NaN
  }
  return difference / largest;
}

TEST_CASE("exec/wire type: sender and receiver have equal bits, and so have all replicas") {
  const TemporaryFolder folder;
  write_random_weights(geometry(), 17, model::DType::f32, folder.path());
  for (const Given& given : kAll) {
    for (const WireFormat wire : model::kWireFormats) {
      CAPTURE(given.strategy);
      CAPTURE(given.allreduce);
      CAPTURE(to_string(wire));
      const planner::Plan plan = planned(given, wire);
      testing::SerialExecutor executor(plan, folder.path());
      // The residual stream after each addition to it, by layer and row, of every device that has
      // it.
      std::map<std::pair<std::int32_t, std::int32_t>, std::map<int, std::vector<float>>> streams;
      std::map<std::pair<int, std::int32_t>, int> added;
      int ends = 0;
      executor.after = [&](const model::Task& task) {
        if (task.kind == TaskKind::transfer && task.input.kind != BufferKind::key_value) {
          ++ends;
          CHECK(executor.read(task.device, task.input, task.rows, task.columns) ==
                executor.read(task.peer, task.output, task.rows, task.columns));
        }
        const bool of_stream = task.kind == TaskKind::add && task.output.kind == BufferKind::hidden;
        if (!of_stream) return;
        const int nth = added[{task.device, task.layer}]++;
        for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
          std::vector<float> now =
              executor.read(task.device, task.output, {row, row + 1}, task.columns);
          const auto key = std::pair{task.layer * 2 + nth % 2, row};
          for (const auto& [device, other] : streams[key]) {
            if (device != task.device) CHECK(now == other);
          }
          streams[key][task.device] = std::move(now);
        }
      };
      std::vector<std::vector<float>> logits;
      executor.generate(prompt(), 1, logits);
      CHECK(ends > 0);
    }
  }
}

TEST_CASE("exec/wire type: a run has the serial one's bits, and is as near to f32 as the type is") {
  const TemporaryFolder folder;
  write_random_weights(geometry(), 17, model::DType::f32, folder.path());
  testing::Sampled taken(3);
  for (const Given& given : kAll) {
    if (!taken()) continue;
    CAPTURE(given.strategy);
    CAPTURE(given.allreduce);
    std::vector<std::vector<float>> exact;
    for (const WireFormat wire : model::kWireFormats) {
      CAPTURE(to_string(wire));
      const planner::Plan plan = planned(given, wire);
      std::vector<std::vector<float>> serial;
      testing::SerialExecutor(plan, folder.path()).generate(prompt(), kTokens, serial);
      CHECK(executed(plan, folder.path()) == serial);
      if (wire == WireFormat::f32) exact = serial;
      // Of the first token: later ones follow other tokens, where rounding turned one.
      const double error = relative_error(exact.front(), serial.front());
      CHECK(error < (wire == WireFormat::f32 ? 1e-12 : wire == WireFormat::f16 ? 0.01 : 0.1));
      if (wire != WireFormat::f32) CHECK(error > 0.0);
    }
  }
}

TEST_CASE("exec/cache type: several devices make one device's tokens, whatever the wire's type") {
  constexpr Given kAlone{"local", 1, "", ""};
  const auto tokens = [](const std::vector<std::vector<float>>& logits) {
    std::vector<std::ptrdiff_t> best;
    for (const std::vector<float>& row : logits)
      best.push_back(std::ranges::max_element(row) - row.begin());
    return best;
  };
  // Half precision has 11 bits, 5e-4 of a number; measured 1.0e-3 of the logits. Q8_0 has 8. Sums
  // in another order may round a number to the other neighbour.
  struct Type {
    model::CacheFormat format;
    double from_exact;
    double from_order;
  };
  for (const Type& type :
       {Type{model::CacheFormat::f16, 5e-3, 1e-3}, Type{model::CacheFormat::q8_0, 5e-2, 1e-2}}) {
    CAPTURE(to_string(type.format));
    const model::Transformer narrow = testing::with_cache(geometry(), type.format);
    model::Transformer whole = narrow;
    whole.cache = model::CacheFormat::f32;
    const TemporaryFolder folder;
    write_random_weights(narrow, 17, model::DType::f32, folder.path());
    std::vector<std::vector<float>> wanted;
    testing::SerialExecutor(planned(kAlone, WireFormat::f32, narrow), folder.path())
        .generate(prompt(), kTokens, wanted);
    std::vector<std::vector<float>> exact;
    testing::SerialExecutor(planned(kAlone, WireFormat::f32, whole), folder.path())
        .generate(prompt(), kTokens, exact);
    const double error = relative_error(exact.front(), wanted.front());
    CHECK(error > 0.0);
    CHECK(error < type.from_exact);
    testing::Sampled taken(3);
    for (const Given& given : kAll) {
      for (const WireFormat wire : model::kWireFormats) {
        if (!taken()) continue;
        CAPTURE(given.strategy);
        CAPTURE(given.allreduce);
        CAPTURE(to_string(wire));
        const planner::Plan plan = planned(given, wire, narrow);
        std::vector<std::vector<float>> serial;
        testing::SerialExecutor(plan, folder.path()).generate(prompt(), kTokens, serial);
        CHECK(executed(plan, folder.path()) == serial);
        if (wire != WireFormat::f32) continue;
        CHECK(tokens(serial) == tokens(wanted));
        CHECK(relative_error(wanted.front(), serial.front()) < type.from_order);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::exec::wire_type_run_test
