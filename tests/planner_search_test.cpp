#include <doctest/doctest.h>

#include "model/error.hpp"
#include "planner/search.hpp"
#include "planner_fixture.hpp"

namespace tandem::test {
namespace {

using planner::Infeasible;
using planner::make_plan;
using planner::Plan;
using planner::Request;

Request request_for(const std::vector<DeviceSpec>& devices, const Shape& shape = {}) {
  return {.model = small_model(shape),
          .cluster = star_cluster(devices),
          .workload = {.prompt_tokens = 5, .new_tokens = 3}};
}

std::string reason(const Request& request) {
  const auto result = make_plan(request);
  REQUIRE(std::holds_alternative<Infeasible>(result));
  return std::get<Infeasible>(result).reason;
}

TEST_CASE("planner/search: every strategy and partition gives a valid plan") {
  for (const char* strategy : {"local", "tensor"}) {
    for (const char* partition : {"galaxy", "equal", "3:1:2"}) {
      CAPTURE(strategy);
      CAPTURE(partition);
      Request request = request_for({{1e9}, {2e9}, {1e9}});
      request.strategy = strategy;
      request.partition = partition;
      request.master = "d1";
      const auto result = make_plan(request);
      REQUIRE(std::holds_alternative<Plan>(result));
      const Plan& plan = std::get<Plan>(result);
      CHECK_NOTHROW(plan.validate());
      CHECK(plan.master == 1);
      CHECK(plan.devices[1].share.embedding);
      for (const planner::DevicePlan& device : plan.devices) {
        const bool holds = device.memory.weights > 0.0;
        CHECK(holds == !device.share.layers.empty());
      }
      if (std::string(strategy) == "local") {
        CHECK(plan.partition.empty());
        CHECK(plan.allreduce.empty());
        CHECK(plan.devices[0].share == model::Share{});
        CHECK(plan.devices[1].share.heads.size() == plan.model.heads);
      }
    }
  }
}

TEST_CASE(
    "planner/search: a profile by which computing takes no time is an Error, not a quotient") {
  Request request = request_for({{}, {}});
  for (const double seconds_per_byte : {0.0, 5e-324}) {
    model::DeviceProfile free;
    for (auto& rate : free.rate) rate.points = {{1.0, seconds_per_byte}};
    request.profiles = {model::nominal_profile(request.cluster.devices()[0]), free};
    CHECK_THROWS_WITH_AS(static_cast<void>(make_plan(request)),
                         doctest::Contains("profile of device 'd1'"), Error);
  }
}

TEST_CASE("planner/search: given proportions 3:1 split 4 heads and 6 columns 3 1, 5 1") {
  Request request = request_for({{}, {}});
  request.partition = "3:1";  // 4.5 and 1.5 columns: the odd one to the first
  const Plan plan = std::get<Plan>(make_plan(request));
  CHECK(plan.devices[0].share.heads == model::Range{0, 3});
  CHECK(plan.devices[1].share.heads == model::Range{3, 4});
  CHECK(plan.devices[0].share.columns == model::Range{0, 5});
  CHECK(plan.devices[1].share.columns == model::Range{5, 6});
}

TEST_CASE("planner/search: memory is predicted from share, workload and row buffers") {
  Request request = request_for({{}, {}, {}});
  request.partition = "equal";
  const Plan plan = std::get<Plan>(make_plan(request));
  // Prompt 5 rows; 5 + 3 - 1 positions; the master receives from 2 workers. Two messages wait in
  // each direction between it and each of them.
  CHECK(plan.devices[0].memory ==
        model::memory_use(plan.model, plan.devices[0].share, 5, 7, 2 + 8, 0.0));
  CHECK(plan.devices[1].memory ==
        model::memory_use(plan.model, plan.devices[1].share, 5, 7, 4, 0.0));
}

TEST_CASE("planner/search: an infeasible cluster is told which device lacks how much") {
  Request request = request_for({{1e9, 1e12}, {1e9, 100.0}});
  request.partition = "equal";
  CHECK(reason(request).find("device 'd1': lacks ") == 0);
  CHECK(reason(request).find("whole cluster") == std::string::npos);
  CHECK(reason(request).find("remedy: ") != std::string::npos);
  request = request_for({{1e9, 100.0}, {1e9, 100.0}});
  CHECK(reason(request).find("device 'd0': lacks ") == 0);
  CHECK(reason(request).find("\ndevice 'd1': lacks ") != std::string::npos);
  CHECK(reason(request).find("\nthe whole cluster lacks ") != std::string::npos);
  request.strategy = "local";
  CHECK(reason(request).find("device 'd0': lacks ") == 0);
  CHECK(reason(request).find("device 'd1'") == std::string::npos);
}

TEST_CASE("planner/search: more memory never makes a feasible cluster infeasible") {
  // Scaling all budgets: infeasible up to some point, feasible from there on.
  bool was_feasible = false;
  int changes = 0;
  for (double bytes = 100.0; bytes < 1e5; bytes *= 1.1) {
    CAPTURE(bytes);
    const auto result = make_plan(request_for({{1e9, bytes}, {3e9, bytes}, {1e9, bytes}}));
    const bool feasible = std::holds_alternative<Plan>(result);
    CHECK((feasible || !was_feasible));
    changes += feasible != was_feasible ? 1 : 0;
    was_feasible = feasible;
  }
  CHECK(changes == 1);
}

TEST_CASE("planner/search: a device whose share rounds to nothing is refused with the reason") {
  Request request = request_for({{1e9}, {1e6}});
  CHECK(reason(request).find("device 'd1': its share is less than one head") == 0);
  request.partition = "1000:1";
  CHECK(reason(request).find("device 'd1'") == 0);
}

TEST_CASE("planner/search: more devices than heads are refused with the reason") {
  const Request request = request_for(std::vector<DeviceSpec>(5));
  CHECK(reason(request).find("5 devices but only 4 attention heads") != std::string::npos);
}

TEST_CASE("planner/search: more devices than key/value heads is fine") {
  Request request = request_for(std::vector<DeviceSpec>(4), {.heads = 4, .kv_heads = 1});
  CHECK(std::holds_alternative<Plan>(make_plan(request)));
}

TEST_CASE("planner/search: a request that makes no sense is one clear error") {
  struct Fault {
    const char* what;
    void (*spoil)(Request&);
    const char* says;
  };
  const Fault faults[] = {
      {"strategy", [](Request& r) { r.strategy = "x"; }, "strategy 'x'"},
      {"partition", [](Request& r) { r.partition = "x"; }, "partition 'x'"},
      {"too few proportions", [](Request& r) { r.partition = "1"; }, "1 proportions"},
      {"zero proportion", [](Request& r) { r.partition = "0:1"; }, "device 'd0' gets no share"},
      {"allreduce", [](Request& r) { r.allreduce = "x"; }, "allreduce 'x'"},
      {"master", [](Request& r) { r.master = "x"; }, "x"},
      {"no prompt", [](Request& r) { r.workload.prompt_tokens = 0; }, "prompt tokens: 0"},
      {"no new tokens", [](Request& r) { r.workload.new_tokens = 0; }, "new tokens: 0"},
      {"too long", [](Request& r) { r.workload.new_tokens = 60; }, "at most 64 together"},
      {"far too long", [](Request& r) { r.workload.new_tokens = INT64_MAX; }, "at most 64"},
      {"model", [](Request& r) { r.model.kv_heads = 3; }, "key/value heads"},
      {"profiles", [](Request& r) { r.profiles.resize(1); }, "profiles: 1"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.what);
    Request request = request_for({{}, {}});
    fault.spoil(request);
    CHECK_THROWS_WITH_AS((void)make_plan(request), doctest::Contains(fault.says), Error);
  }
}

}  // namespace
}  // namespace tandem::test
