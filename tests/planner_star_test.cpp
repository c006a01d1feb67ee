#include <doctest/doctest.h>

#include "model/analytic.hpp"
#include "model/cost_model.hpp"
#include "model/work.hpp"
#include "planner/collective/star.hpp"
#include "planner_fixture.hpp"

namespace tandem::test {
namespace {

using model::BufferKind;
using model::Task;
using model::TaskKind;
using planner::Participant;

constexpr model::Range kRows{0, 3};
constexpr model::Range kColumns{0, 8};

model::TaskGraph sum_graph(model::DeviceIndex master, std::vector<Participant>& participants) {
  model::TaskGraph graph(model::Batch{{{.rows = 3}}});
  planner::star_sum(graph, {.master = master, .layer = 7, .rows = kRows, .columns = kColumns},
                    participants);
  return graph;
}

std::vector<Participant> everyone(model::DeviceIndex devices) {
  std::vector<Participant> participants;
  for (model::DeviceIndex d = 0; d < devices; ++d) participants.push_back({.device = d});
  return participants;
}

TEST_CASE("planner/star: terms go to slots, are added in order, and the sum goes back") {
  std::vector<Participant> participants = everyone(4);
  const model::TaskGraph graph = sum_graph(2, participants);
  REQUIRE(graph.size() == 9);
  const model::DeviceIndex workers[] = {0, 1, 3};
  for (std::int16_t k = 0; k < 3; ++k) {
    CAPTURE(k);
    const Task& up = graph.tasks()[static_cast<std::size_t>(k)];
    CHECK(up.kind == TaskKind::transfer);
    CHECK(up.device == workers[k]);
    CHECK(up.peer == 2);
    CHECK(up.input.kind == BufferKind::partial);
    CHECK(up.output == model::BufferRef{BufferKind::receive, k});
    CHECK(up.layer == 7);
    CHECK(up.rows == kRows);
    CHECK(up.columns == kColumns);
    const Task& add = graph.tasks()[static_cast<std::size_t>(3 + k)];
    CHECK(add.kind == TaskKind::add);
    CHECK(add.device == 2);
    CHECK(add.input == up.output);
    CHECK(add.output.kind == BufferKind::partial);
    CHECK(graph.dependencies(3 + k)[0] == k);
    const Task& down = graph.tasks()[static_cast<std::size_t>(6 + k)];
    CHECK(down.kind == TaskKind::transfer);
    CHECK(down.device == 2);
    CHECK(down.peer == workers[k]);
    CHECK(down.output.kind == BufferKind::partial);
    REQUIRE(graph.dependencies(6 + k).size() == 1);
    CHECK(graph.dependencies(6 + k)[0] == 5);
  }
  CHECK(participants[0].ready == 6);
  CHECK(participants[1].ready == 7);
  CHECK(participants[2].ready == 5);
  CHECK(participants[3].ready == 8);
}

TEST_CASE("planner/star: alone, the master sends and adds nothing") {
  std::vector<Participant> participants = everyone(1);
  participants[0].ready = -1;
  CHECK(sum_graph(0, participants).size() == 0);
  CHECK(participants[0].ready == -1);
}

TEST_CASE(
    "planner/star: without a term of its own the master's sum begins with the first worker's") {
  std::vector<Participant> participants = everyone(3);
  participants[0].contributes = false;
  participants[2].receives = false;
  const model::TaskGraph graph = sum_graph(0, participants);
  REQUIRE(graph.size() == 4);  // two terms, one addition, one sum
  CHECK(graph.tasks()[0].output.kind == BufferKind::partial);
  CHECK(graph.tasks()[1].output == model::BufferRef{BufferKind::receive, 1});
  CHECK(graph.dependencies(2).size() == 2);  // the addition needs both terms
  CHECK(graph.tasks()[3].peer == 1);
  CHECK(participants[2].ready == -1);
}

TEST_CASE("planner/star: a sum without terms or without its master is the caller's fault") {
  std::vector<Participant> nobody = everyone(2);
  for (Participant& p : nobody) p.contributes = false;
  CHECK_THROWS_AS(sum_graph(0, nobody), std::logic_error);
  std::vector<Participant> others = everyone(2);
  CHECK_THROWS_AS(sum_graph(5, others), std::logic_error);
}

class OneStep : public model::Steps {
 public:
  explicit OneStep(const model::TaskGraph& graph) : graph_(&graph) {}
  [[nodiscard]] std::int32_t count() const override { return 1; }
  const model::TaskGraph& graph(std::int32_t /*i*/) override { return *graph_; }

 private:
  const model::TaskGraph* graph_;
};

TEST_CASE("planner/star: bytes are (C + R) S, time without contention is 2 l + 2 S / B") {
  // Device to router to device: l = 2 ms, B = 1 MB/s. S = 3 rows * 8 columns * 4 bytes = 96 bytes.
  for (model::DeviceIndex devices = 2; devices <= 7; ++devices) {
    CAPTURE(devices);
    std::vector<Participant> participants = everyone(devices);
    const model::TaskGraph graph = sum_graph(0, participants);
    const planner::Plan plan = plan_of("local", {}, 0, {{4}, {6}});
    double bytes = 0.0;
    for (const Task& task : graph.tasks()) {
      bytes += model::work_of(plan.model, graph.batch(), task).bytes_wire;
    }
    CHECK(bytes == 96.0 * 2 * (devices - 1));

    // Additions are all but free.
    const std::vector<DeviceSpec> fast(static_cast<std::size_t>(devices),
                                       DeviceSpec{.flops_per_s = 1e18});
    const model::Cluster cluster = star_cluster(fast);
    std::vector<model::DeviceProfile> profiles;
    for (const model::Device& device : cluster.devices()) {
      profiles.push_back(model::nominal_profile(device));
    }
    model::RunRecorder recorder(cluster, 0, true);
    OneStep steps(graph);
    evaluate_analytic(cluster, {plan.model, profiles}, steps, recorder);
    double end = 0.0;
    for (const model::Span& span : recorder.trace().spans) end = std::max(end, span.end);
    CHECK(end == doctest::Approx(2 * 2e-3 + 2 * 96.0 / 1e6).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace tandem::test
