#include "planner/search/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/namesakes.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::test::search_test {
namespace {

using planner::Infeasible;
using planner::make_plan;
using planner::Plan;
using planner::Request;

Request request_for(const std::vector<DeviceSpec>& devices, const ModelSizes& sizes = {}) {
  return {.model = small_model(sizes),
          .cluster = star_cluster(devices),
          .workload = {.prompt_tokens = 5, .new_tokens = 3}};
}

std::string reason(const Request& request) {
  const auto result = make_plan(request);
  REQUIRE(std::holds_alternative<Infeasible>(result));
  return std::get<Infeasible>(result).reason;
}

TEST_CASE("planner/search: every strategy and partition gives a valid plan") {
  for (const char* strategy : {"local", "tensor", "pipeline"}) {
    for (const char* partition : {"auto", "galaxy", "equal", "3:1:2"}) {
      CAPTURE(strategy);
      CAPTURE(partition);
      Request request = request_for({{1e9}, {2e9}, {1e9}}, {.layers = 6});
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
        CHECK(plan.allreduce == planner::AllreduceChoice{});
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

TEST_CASE("planner/search: columns are dealt in cache lines, single ones where that left nothing") {
  const auto columns_of = [](const Request& request) {
    const auto result = make_plan(request);
    REQUIRE(std::holds_alternative<Plan>(result));
    std::vector<std::int64_t> columns;
    for (const planner::DevicePlan& device : std::get<Plan>(result).devices)
      columns.push_back(device.share.columns.size());
    return columns;
  };
  const auto in_lines = [](const std::vector<std::int64_t>& columns) {
    return std::ranges::all_of(columns, [](std::int64_t count) { return count % 16 == 0; });
  };
  const ModelSizes sizes{.heads = 8, .kv_heads = 4, .intermediate = 2048};
  for (const char* partition : {"auto", "galaxy", "equal", "3:1:2"}) {
    CAPTURE(partition);
    Request request = request_for({{1e9}, {2.1e9}, {0.7e9}}, sizes);
    request.partition = partition;
    const std::vector<std::int64_t> free = columns_of(request);
    CHECK(in_lines(free));
    CHECK(std::ranges::find(free, 0) == free.end());
    if (std::string(partition) == "equal") CHECK(free == std::vector<std::int64_t>{688, 688, 672});
  }
  // A line would be eight times what the second device is to have.
  Request uneven = request_for({{1e9}, {1e9}}, sizes);
  uneven.partition = "1000:1";
  CHECK(columns_of(uneven) == std::vector<std::int64_t>{2046, 2});
}

TEST_CASE("planner/search: memory is predicted from what the graphs declare and send") {
  Request request = request_for({{}, {}, {}});
  request.partition = "equal";
  const Plan plan = std::get<Plan>(make_plan(request));
  // Prompt 5 rows; 5 + 3 - 1 positions; one term waits at the master to be added. Two messages
  // wait in each direction between the master and each of the 2 workers.
  const double row = 4.0 * static_cast<double>(plan.model.hidden);
  for (std::size_t d = 0; d < 3; ++d) {
    CAPTURE(d);
    const bool master = d == 0;
    model::MemoryUse want = memory_of(plan.model, plan.devices[d].share, 5, 7, master ? 1 : 0);
    want.weights = model::weight_bytes(plan.model, plan.devices[d].share);
    want.buffers += (master ? 8 : 4) * 5 * row;
    CHECK(plan.devices[d].memory == want);
  }
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

TEST_CASE("planner/search: what weights alone exceed is refused, and nothing that fits is") {
  for (const planner::Strategy& strategy : planner::strategies()) {
    CAPTURE(strategy.name);
    const auto fits = [&](double bytes, double disk) {
      Request request = request_for({{1e9, bytes, disk}, {2e9, bytes, disk}});
      request.strategy = strategy.name;
      if (!strategy.allreduce.empty()) request.allreduce = strategy.allreduce;
      request.window = {.blocks = {}, .retain = {}};
      const auto answer = make_plan(request);
      if (const auto* const no = std::get_if<planner::Infeasible>(&answer)) {
        CHECK(no->reason.find("lacks ") != std::string::npos);
        CHECK(no->reason.find("remedy: fewer tokens, more devices or memory") != std::string::npos);
      }
      return std::holds_alternative<Plan>(answer);
    };
    // Without a disk the least memory that is enough exceeds that of the weights that a device must
    // hold, and from there on there is a plan.
    double least = 1.0;
    while (!fits(least, 0.0)) least *= 1.1;
    const model::Transformer transformer = request_for({{}}).model;
    const double weights = model::weight_bytes(
        transformer, {.layers = model::Range{0, static_cast<std::int32_t>(transformer.layers)},
                      .heads = {0, static_cast<std::int32_t>(transformer.heads)},
                      .columns = {0, static_cast<std::int32_t>(transformer.intermediate)}});
    CHECK(least > (strategy.sharding.splits_weights() ? 0.5 : 0.99) * weights);
    CHECK(least < 20.0 * weights);
    for (const double more : {1.05, 1.5, 3.0}) CHECK(fits(more * least, 0.0));
  }
}

TEST_CASE("planner/search: one device needs no memory of others, who shares needs the program's") {
  Request request = request_for({{1e9, 1e12}, {1e9, 100.0}});
  for (model::DeviceProfile& profile : request.profiles) profile.program_bytes = 1e6;
  request.strategy = "local";
  const std::variant<Plan, planner::Infeasible> answer = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(answer));
  CHECK(std::get<Plan>(answer).devices[1].memory.total() == 0.0);
  request.strategy = "tensor";
  request.partition = "equal";
  CHECK(reason(request).find("device 'd1': lacks ") == 0);
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
  request.partition = "galaxy";
  CHECK(reason(request).find("device 'd1': its share is less than one head") == 0);
  request.partition = "1000:1";
  CHECK(reason(request).find("device 'd1'") == 0);
  CHECK(reason(request).find("remedy: leave it out of the platform, free memory on it, or use "
                             "--partition equal") != std::string::npos);
}

TEST_CASE("planner/search: blocks of columns that are too long are not blamed on memory") {
  Request request = request_for({{1e9}, {1e9}, {1e6}});
  request.model.hidden = 512;
  request.model.heads = request.model.kv_heads = 2;
  request.model.head_dim = 256;
  request.model.intermediate = 512;  // two blocks of 256
  request.model.formats = model::WeightFormats(model::WeightFormat::q4_k);
  request.partition = "1000:1000:1";
  CHECK(reason(request) ==
        "device 'd2': its share is less than one head and one block of 256 FFN columns by "
        "partition '1000:1000:1'\nremedy: leave it out of the platform, or keep weights in a "
        "format of shorter blocks (--dtype q8_0), as the model has 2 such blocks for 3 devices");
  const std::string several =
      "free memory on it, keep weights in a format of shorter blocks (--dtype q8_0), or use "
      "--partition equal";
  request.model.intermediate = 1024;
  CHECK(reason(request).find(several) != std::string::npos);
  // Two blocks again, but a head for each of the three.
  request.model.intermediate = 512;
  request.model.heads = request.model.kv_heads = 3;
  CHECK(reason(request).find(several) != std::string::npos);
  request.partition = "equal";
  CHECK(std::holds_alternative<Plan>(make_plan(request)));
}

TEST_CASE("planner/search: devices beyond the heads get FFN columns alone") {
  // 4 heads: the fastest devices get one each.
  Request request =
      request_for({{1e9}, {3e9}, {2e9}, {2e9}, {2e9}, {1e9}, {1e9}}, {.intermediate = 40});
  request.partition = "galaxy";
  const auto result = make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(result));
  std::int64_t with_heads = 0;
  for (const planner::DevicePlan& device : std::get<Plan>(result).devices) {
    with_heads += device.share.heads.empty() ? 0 : 1;
    CHECK(!device.share.columns.empty());
  }
  CHECK(with_heads <= 4);
  CHECK(!std::get<Plan>(result).devices[1].share.heads.empty());
}

TEST_CASE("planner/search: more devices than heads and columns are refused with the reason") {
  const std::string why = reason(request_for(std::vector<DeviceSpec>(4000)));
  CHECK(why.find("4000 devices but only 4 attention heads and ") != std::string::npos);
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

// The memory that a device of `plan` needs, and whether it is what it holds.
void check_within_budget(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    CAPTURE(d);
    const planner::DevicePlan& device = plan.devices[d];
    CHECK(device.memory.total() <= plan.cluster.devices()[d].memory.value());
    if (!device.share.layers.empty())
      CHECK(device.memory.weights ==
            planner::weight_bytes(plan.model, device.share, device.window));
  }
}

// Blocks of several pages, so that windows differ in memory.
constexpr ModelSizes kLarge{
    .layers = 4, .heads = 8, .kv_heads = 8, .head_dim = 8, .intermediate = 160, .vocab = 700};

TEST_CASE("planner/search: auto streams only where whole weights do not fit") {
  Request request = request_for({{1e9, 1e9}, {2e9, 1e9}}, kLarge);
  request.window = {.blocks = std::nullopt};
  const Plan whole = std::get<Plan>(make_plan(request));
  for (const planner::DevicePlan& device : whole.devices) CHECK(!device.window.streams());
  double most = 0.0;
  for (const planner::DevicePlan& device : whole.devices)
    most = std::max(most, device.memory.total());

  bool streamed = false;
  double before = 0.0;
  for (const double part : {0.9, 0.7, 0.5, 0.4}) {
    CAPTURE(part);
    request.memory_limit = model::Bytes{most * part};
    const Plan plan = std::get<Plan>(make_plan(request));
    CHECK_NOTHROW(plan.validate());
    CHECK(plan.cluster.devices()[0].memory.value() == most * part);
    check_within_budget(plan);
    for (const planner::DevicePlan& device : plan.devices)
      streamed = streamed || device.window.streams();
    const double time = planner::predicted_request_time(plan);
    CHECK(time >= before * (1.0 - 1e-9));  // less memory is not faster
    before = time;
  }
  CHECK(streamed);
}

TEST_CASE("planner/search: where not even one block fits, device, need and budget are named") {
  Request request = request_for({{1e9, 1e9}, {2e9, 1e9}}, kLarge);
  request.window = {.blocks = std::nullopt};
  request.memory_limit = model::Bytes{20e3};
  const std::string text = reason(request);
  CHECK(text.find("device 'd0'") != std::string::npos);
  CHECK(text.find("has 19.5 KiB") != std::string::npos);
  CHECK(text.find("window of 1 block") != std::string::npos);
  SUBCASE("without a disk nothing is streamed") {
    request = request_for({{1e9, 60e3, 0.0}, {2e9, 60e3, 0.0}}, kLarge);
    request.window = {.blocks = std::nullopt};
    CHECK(reason(request).find("tandem:disk_bandwidth") != std::string::npos);
  }
}

TEST_CASE("planner/search: a given window is every device's, all where it holds every block") {
  Request request = request_for({{1e9}, {2e9}}, kLarge);
  request.window = {.blocks = 3, .retain = 2};
  request.release = model::ReleaseRule::late;
  const Plan plan = std::get<Plan>(make_plan(request));
  CHECK(plan.release == model::ReleaseRule::late);
  for (const planner::DevicePlan& device : plan.devices) {
    CHECK(device.window.blocks == 3);
    CHECK(device.window.retain == 2);
  }
  check_within_budget(plan);
  request.window = {.blocks = 1000, .retain = std::nullopt};
  const Plan whole = std::get<Plan>(make_plan(request));
  for (const planner::DevicePlan& device : whole.devices) CHECK(device.window == planner::Window{});
}

TEST_CASE("planner/search: a window that makes no sense is an Error that names it") {
  const auto says = [](planner::WindowRequest window, std::vector<DeviceSpec> devices) {
    Request request = request_for(devices, kLarge);
    request.window = window;
    try {
      (void)make_plan(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(says({.blocks = -1}, {{}, {}}).find("window -1") != std::string::npos);
  CHECK(says({.blocks = 2, .retain = -1}, {{}, {}}).find("retain -1") != std::string::npos);
  CHECK(says({.blocks = 2, .retain = 5}, {{}, {}}).find("retain 5") != std::string::npos);
  CHECK(says({.blocks = 0, .retain = 2}, {{}, {}}).find("window all") != std::string::npos);
  const std::string diskless = says({.blocks = 2, .retain = 0}, {{}, {1e9, 1e12, 0.0}});
  CHECK(diskless.find("device 'd1'") != std::string::npos);
  CHECK(diskless.find("'tandem:disk_bandwidth'") != std::string::npos);
}

// The shortest request of all windows and retentions within the budgets.
double exhaustive(const Plan& chosen) {
  Plan plan = chosen;
  std::vector<std::vector<planner::Window>> all(plan.devices.size());
  for (std::size_t d = 0; d < all.size(); ++d) {
    const planner::DevicePlan& device = plan.devices[d];
    const double rest = device.memory.total() - device.memory.weights;
    for (std::int32_t blocks = 0; blocks <= 20; ++blocks) {
      for (std::int32_t retain = 0; retain <= (blocks == 0 ? 0 : plan.model.layers); ++retain) {
        const planner::Window window{.blocks = blocks, .retain = retain};
        if (blocks > 0 && normalized(plan.model, device.share, window) != window) continue;
        const double bytes = planner::weight_bytes(plan.model, device.share, window);
        if (rest + bytes <= plan.cluster.devices()[d].memory.value()) all[d].push_back(window);
      }
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const planner::Window first : all[0]) {
    for (const planner::Window second : all[1]) {
      plan.devices[0].window = first;
      plan.devices[1].window = second;
      best = std::min(best, planner::predicted_request_time(plan));
    }
  }
  return best;
}

TEST_CASE("planner/search: windows are as fast as the best of all, or within 5%, in tiny cases") {
  std::mt19937 random(5);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  ModelSizes sizes = kLarge;
  sizes.layers = 3;
  int cases = 0;
  int missed = 0;
  for (int trial = 0; trial < 30; ++trial) {
    CAPTURE(trial);
    Request request =
        request_for({{1e8, 1e12, draw(1e5, 1e8)}, {2e8, 1e12, draw(1e5, 1e8)}}, sizes);
    request.window = {.blocks = std::nullopt};
    request.memory_limit = model::Bytes{draw(150e3, 500e3)};
    const auto result = make_plan(request);
    if (std::holds_alternative<Infeasible>(result)) continue;
    const Plan& plan = std::get<Plan>(result);
    if (!plan.devices[0].window.streams() && !plan.devices[1].window.streams()) continue;
    ++cases;
    const double best = exhaustive(plan);
    const double found = planner::predicted_request_time(plan);
    CHECK(found <= best * 1.05);
    if (found > best * (1.0 + 1e-9)) ++missed;
  }
  CAPTURE(missed);
  CHECK(cases >= 10);
  CHECK(missed <= cases / 4);
}

}  // namespace
TEST_CASE("planner/search: where rows need an owner, auto has a plan wherever exact has one") {
  int found = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const auto among = [&](double least, double most) {
      return std::exp(
          std::uniform_real_distribution<double>(std::log(least), std::log(most))(random));
    };
    std::vector<DeviceSpec> devices;
    for (int d = 0; d < 3; ++d)
      devices.push_back({.flops_per_s = among(1e7, 1e11),
                         .memory_bytes = among(1e4, 2e5),
                         .disk_bytes_per_s = 0.0});
    planner::Request request{
        .model = small_model(
            {.layers = 5, .heads = 4, .kv_heads = 4, .head_dim = 8, .intermediate = 64}),
        .cluster = star_cluster(devices),
        .strategy = "galaxy",
        .partition = "exact",
        .workload = {.prompt_tokens = 1, .new_tokens = 2}};
    if (!std::holds_alternative<planner::Plan>(planner::make_plan(request))) continue;
    ++found;
    CAPTURE(trial);
    request.partition = "auto";
    CHECK(std::holds_alternative<planner::Plan>(planner::make_plan(request)));
  }
  CHECK(found > 20);
}

TEST_CASE("planner/namesakes: each is one strategy's, and names no strategy itself") {
  std::set<std::string_view> seen;
  for (const planner::Strategy& strategy : planner::strategies()) {
    for (const planner::Namesake& one : strategy.namesakes) {
      CAPTURE(one.name);
      CHECK(seen.insert(one.name).second);
      CHECK_THROWS_AS(planner::find_strategy(std::string(one.name)), Error);
      CHECK(planner::namesake_remedy(one.name).find("--strategy " + strategy.name) !=
            std::string::npos);
    }
  }
  CHECK(!seen.empty());
}

}  // namespace tandem::test::search_test
