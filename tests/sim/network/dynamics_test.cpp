// Jitter, loss, background traffic, and what changes during a run.

#include "sim/network/dynamics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "sim/platform/platform.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace tandem::sim::testing::dynamics_test {
namespace {

using model::Direction;
using model::Seconds;
using model::Sharing;

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

// Two devices and a link of 1000 B/s and 100 ms between them.
model::Cluster pair(model::Link given, std::vector<model::SpeedChange> speeds = {}) {
  model::Device a = device("a");
  a.speeds = std::move(speeds);
  const Direction up = given.sharing == Sharing::split_duplex ? Direction::up : Direction::none;
  return {"pair", {a, device("b")}, {}, {std::move(given)}, {{"a", "b", {{0, up}}, true}}};
}

model::Link plain() { return link("l", 0.1, 1000.0, Sharing::split_duplex); }

std::vector<double> ends(const model::Cluster& cluster, const TaskGraph& graph,
                         std::uint64_t seed = 1) {
  GraphSteps steps({graph});
  model::RunRecorder recorder(cluster, 0, true);
  replay_seeded(cluster, free_costs(cluster), steps, recorder, seed);
  std::vector<double> times;
  for (const auto& [id, span] : spans_of(recorder)) times.push_back(span.end);
  return times;
}

TaskGraph messages(const std::vector<std::int32_t>& columns) {
  TaskGraph graph(one_row());
  for (const std::int32_t each : columns) graph.add(message(0, 1, each), {});
  return graph;
}

// As read from a file with these additions to two hosts and a link.
Platform read(const std::string& props, const std::string& after) {
  std::string path = (std::filesystem::temp_directory_path() / "tandem-varies-XXXXXX").string();
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  const std::string file = path + "/p.xml";
  std::ofstream(file) << "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                         "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n<zone "
                         "id=\"z\" routing=\"Full\">\n<host id=\"a\" speed=\"1Gf\"/>\n<host "
                         "id=\"b\" speed=\"1Gf\"/>\n<link id=\"l\" bandwidth=\"1MBps\" "
                         "latency=\"1ms\" sharing_policy=\"SPLITDUPLEX\">"
                      << props
                      << "</link>\n<route src=\"a\" dst=\"b\"><link_ctn id=\"l\" "
                         "direction=\"UP\"/></route>\n"
                      << after << "\n</zone>\n</platform>\n";
  try {
    Platform platform = read_platform(file);
    std::filesystem::remove_all(path);
    return platform;
  } catch (const Error&) {
    std::filesystem::remove_all(path);
    throw;
  }
}

std::string prop(const std::string& id, const std::string& value) {
  return "<prop id=\"tandem:" + id + "\" value=\"" + value + "\"/>";
}

std::string trace(const std::string& lines, const std::string& connect) {
  return "<trace id=\"t\" periodicity=\"-1\">\n" + lines +
         "\n</trace>\n<trace_connect trace=\"t\" " + connect + "/>";
}

}  // namespace

TEST_CASE("sim/dynamics: work over speeds 1, 1/2 from 1 s, 2 from 4 s") {
  const std::vector<model::SpeedChange> speeds{{Seconds{1.0}, 0.5}, {Seconds{4.0}, 2.0}};
  CHECK(end_of_work(speeds, 0.0, 1.0) == 1.0);
  CHECK(same(end_of_work(speeds, 0.0, 1.5), 2.0));    // 1 + 0.5 / 0.5
  CHECK(same(end_of_work(speeds, 0.0, 4.5), 5.0));    // 1 + 1.5, then 2 / 2
  CHECK(same(end_of_work(speeds, 2.0, 0.25), 2.5));   // slow throughout
  CHECK(same(end_of_work(speeds, 10.0, 3.0), 11.5));  // fast throughout
  CHECK(end_of_work({}, 3.0, 2.0) == 5.0);
}

TEST_CASE("sim/dynamics: a device that slows down by half after 1 s takes 3 s for work of 2 s") {
  const model::Cluster cluster = pair(plain(), {{Seconds{1.0}, 0.5}});
  std::vector<model::DeviceProfile> profiles(2, free_profile());
  for (auto& profile : profiles) {
    for (auto& rate : profile.rate) rate.overhead_s = 2.0;
  }
  TaskGraph graph(one_row());
  graph.add(addition(0, 1), {});
  graph.add(addition(1, 1), {});
  GraphSteps steps({graph});
  const Spans spans = simulated(cluster, {small_llama(), profiles}, steps);
  CHECK(same(spans.at({0, 0}).end, 3.0));
  CHECK(same(spans.at({0, 1}).end, 2.0));
}

TEST_CASE("sim/dynamics: half the bandwidth after 1 s: 2000 bytes take 1 + 1000 / 500 s") {
  model::Link link = plain();
  link.changes = {{Seconds{1.0}, Direction::up, model::BytesPerSecond{500.0}, {}}};
  CHECK(same(ends(pair(link), messages({500}))[0], 3.1));
  link.changes[0].direction = Direction::down;  // the other way
  CHECK(same(ends(pair(link), messages({500}))[0], 2.1));
}

TEST_CASE("sim/dynamics: the latency is the one when the last byte leaves, and nothing overtakes") {
  model::Link link = plain();
  link.changes = {{Seconds{0.5}, Direction::up, {}, Seconds{2.0}},
                  {Seconds{1.5}, Direction::up, {}, Seconds{0.2}}};
  // Sent after 0.4, 1.4 and 2.4 s: 0.5; 3.4; 2.6, but not before the one before.
  const std::vector<double> times = ends(pair(link), messages({100, 250, 250}));
  CHECK(same(times[0], 0.5));
  CHECK(same(times[1], 3.4));
  CHECK(same(times[2], 3.4));
}

TEST_CASE("sim/dynamics: background traffic takes its rate, but no more than a fair share") {
  for (const Sharing sharing : {Sharing::split_duplex, Sharing::shared}) {
    model::Link link = plain();
    link.sharing = sharing;
    link.background = model::BytesPerSecond{300.0};
    CHECK(same(ends(pair(link), messages({175}))[0], 1.1));  // 700 B at 1000 - 300 B/s
    link.background = model::BytesPerSecond{800.0};
    CHECK(same(ends(pair(link), messages({250}))[0], 2.1));  // 1000 B at 1000 / 2 B/s
  }
}

TEST_CASE("sim/dynamics: jitter is exponential: mean m, and e^-1 of the delays are longer") {
  model::Link link = plain();
  link.jitter = Seconds{0.02};
  const model::Cluster cluster = pair(link);
  constexpr std::uint64_t kDraws = 40000;
  double sum = 0.0;
  int longer = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double delay = extra_delay(cluster, 0, 1, 1000.0, 7, i);
    sum += delay;
    longer += delay > 0.02 ? 1 : 0;
  }
  CHECK(sum / kDraws == doctest::Approx(0.02).epsilon(0.03));
  CHECK(longer / static_cast<double>(kDraws) == doctest::Approx(std::exp(-1.0)).epsilon(0.03));
}

TEST_CASE(
    "sim/dynamics: loss p of n segments delays by (1 - (1 - p)^n) RTO / (1 - 2 p) on average") {
  model::Link link = plain();
  link.loss = 0.1;
  const model::Cluster cluster = pair(link);
  constexpr std::uint64_t kDraws = 60000;
  constexpr double kTimeout_s = 0.2 + 2 * 0.1;
  for (const int segments : {1, 5, 23}) {
    CAPTURE(segments);
    double sum = 0.0;
    for (std::uint64_t i = 0; i < kDraws; ++i)
      sum += extra_delay(cluster, 0, 1, 1448.0 * segments, 3, i);
    const double expected = (1.0 - std::pow(0.9, segments)) * kTimeout_s / (1.0 - 2 * 0.1);
    CHECK(sum / kDraws == doctest::Approx(expected).epsilon(0.04));
  }
}

TEST_CASE(
    "sim/dynamics: a seed gives the same run again, another seed another, and nothing overtakes") {
  model::Link link = plain();
  link.jitter = Seconds{0.5};
  link.loss = 0.01;
  const model::Cluster cluster = pair(link);
  const TaskGraph graph = messages(std::vector<std::int32_t>(50, 10));
  const std::vector<double> first = ends(cluster, graph, 5);
  CHECK(first == ends(cluster, graph, 5));
  CHECK(first != ends(cluster, graph, 6));
  for (std::size_t i = 1; i < first.size(); ++i) {
    CHECK(first[i] >= first[i - 1]);
    CHECK(first[i] >= 0.04 * static_cast<double>(i + 1) + 0.1);
  }
}

TEST_CASE("sim/dynamics: read from XML, which SimGrid reads too") {
  const model::Cluster cluster =
      read(prop("jitter", "2ms") + prop("loss", "0.01") + prop("background", "100kBps"),
           trace("1 0.5\n 2.5 0.25", "kind=\"SPEED\" element=\"b\""))
          .cluster;
  const model::Link& link = cluster.links()[0];
  CHECK(link.jitter.value() == doctest::Approx(2e-3));
  CHECK(link.loss == 0.01);
  CHECK(link.background.value() == doctest::Approx(1e5));
  CHECK(cluster.devices()[0].speeds.empty());
  CHECK(cluster.devices()[1].speeds ==
        std::vector<model::SpeedChange>{{Seconds{1.0}, 0.5}, {Seconds{2.5}, 0.25}});
  const model::Cluster slower =
      read("", trace("3 500000", "kind=\"BANDWIDTH\" element=\"l_DOWN\"")).cluster;
  CHECK(slower.links()[0].changes ==
        std::vector<model::LinkChange>{
            {Seconds{3.0}, Direction::down, model::BytesPerSecond{500000.0}, {}}});
  CHECK(!variation(slower).empty());
  CHECK(variation(read("", "").cluster).empty());
}

TEST_CASE("sim/dynamics: bad values are one clear error each") {
  struct Fault {
    std::string props;
    std::string after;
    const char* says;
  };
  const std::string speed = "kind=\"SPEED\" element=\"a\"";
  const std::vector<Fault> faults{
      {prop("jitter", "2"), "", "jitter"},
      {prop("jitter", "-2ms"), "", "jitter"},
      {prop("loss", "0.5"), "", "below 0.5"},
      {prop("loss", "1%"), "", "below 0.5"},
      {prop("loss", "-0.1"), "", "below 0.5"},
      {prop("loss", "nan"), "", "below 0.5"},
      {prop("background", "5"), "", "background"},
      {prop("lag", "5ms"), "", "is unknown"},
      {prop("loss", "0.1") + prop("loss", "0.1"), "", "given twice"},
      {"", trace("1 0", speed), "speed factor"},
      {"", trace("1 x", speed), "two numbers"},
      {"", trace("1", speed), "two numbers"},
      {"", trace("2 1\n1 1", speed), "ascending"},
      {"", trace("-1 1", speed), "two numbers"},
      {"", trace("", speed), "is empty"},
      {"", trace("1 1", "kind=\"SPEED\" element=\"c\""), "no host"},
      {"", trace("1 1", "kind=\"BANDWIDTH\" element=\"l\""), "no link"},
      {"", trace("1 1", "kind=\"LINK_AVAIL\" element=\"l_UP\""), "expected SPEED"},
      {"", trace("1 -1", "kind=\"BANDWIDTH\" element=\"l_UP\""), "bandwidth"},
      {"", "<trace_connect trace=\"t\" kind=\"SPEED\" element=\"a\"/>", "no trace"},
      {"", "<trace id=\"t\" periodicity=\"10\">1 1</trace>", "periodicity"},
      {"", "<trace id=\"t\" periodicity=\"-1\" file=\"x\"/>", "file"},
      {"", trace("1 1", speed) + "<trace_connect trace=\"t\" " + speed + "/>", "second trace"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.props);
    CAPTURE(fault.after);
    std::string message;
    try {
      (void)read(fault.props, fault.after);
    } catch (const Error& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find(fault.says) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("sim/dynamics: the plan carries it, and a plan without it does not mention it") {
  planner::Request request{
      .model = test::small_model({}),
      .cluster =
          read(prop("jitter", "2ms") + prop("loss", "0.01") + prop("background", "1kBps"),
               trace("1 0.5", "kind=\"SPEED\" element=\"b\"") +
                   "<trace id=\"u\" periodicity=\"-1\">3 5</trace><trace_connect trace=\"u\" "
                   "kind=\"LATENCY\" element=\"l_UP\"/>")
              .cluster,
      .workload = {.prompt_tokens = 2, .new_tokens = 2}};
  const auto made = [&] { return std::get<planner::Plan>(planner::make_plan(request)); };
  const planner::Plan plan = made();
  CHECK(planner::parse_plan_json(planner::to_json(plan), "test") == plan);
  request.cluster = read("", "").cluster;
  const std::string text = planner::to_json(made());
  for (const char* word : {"jitter", "loss", "background", "changes", "speeds"})
    CHECK(text.find(word) == std::string::npos);
}

}  // namespace tandem::sim::testing::dynamics_test
