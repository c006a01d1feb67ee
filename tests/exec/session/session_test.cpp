// Master and workers as real processes over loopback TLS.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_words.hpp"
#include "tests/exec/session/session_home.hpp"
#include "tests/exec/session/session_processes.hpp"

namespace tandem::exec::session_test {
namespace {

using session_home::Home;
using session_home::kPromptly;
using session_home::prompt_ids;
using testing::eventually;
using testing::has;
using testing::seconds_since;

TEST_CASE("exec/session: the same greedy tokens from 1, 2, 3, 4, 5 and 7 devices") {
  const Home home(6);
  const std::vector<std::int32_t> tokens = home.expected(home.plan(1, 16));
  for (const auto& [devices, partition] :
       std::vector<std::pair<int, const char*>>{{1, "equal"},
                                                {2, "equal"},
                                                {2, "3:1"},
                                                {3, "equal"},
                                                {4, "4:2:1:1"},
                                                {5, "equal"},
                                                {7, "1:2:1:1:1:1:1"}}) {
    CAPTURE(devices);
    CAPTURE(partition);
    CHECK(home.generate(home.plan(devices, 16, partition)) == tokens);
  }
}

TEST_CASE("exec/session: the result says what every device did") {
  const Home home(2);
  const planner::Plan plan = home.plan(3, 5);
  GenerateOptions options = home.options(plan);
  options.keep_spans = true;
  Interrupt interrupt;
  const Generation generation = exec::generate(plan, options, interrupt);
  const model::Result& result = generation.run.result;
  CHECK(result.tokens == home.expected(plan));
  CHECK(result.metrics.token_times_s.size() == 5);
  CHECK(result.origin == model::ResultOrigin::measured);
  double wire_bytes = 0.0;
  std::set<std::tuple<std::int32_t, model::TaskIndex, model::TaskKind>> seen;
  int copies = 0;
  int messages = 0;
  for (const model::Span& span : generation.run.trace.spans) {
    CHECK(span.end >= span.start);
    CHECK(seen.emplace(span.step, span.task, span.kind).second);
    const bool copy =
        span.kind == model::TaskKind::capture || span.kind == model::TaskKind::deliver;
    if (copy) ++copies;
    if (span.lane == model::LaneKind::channel) ++messages;
    if (span.lane == model::LaneKind::channel) wire_bytes += span.bytes;
  }
  double sent_bytes = 0.0;
  for (const model::DeviceMetrics& device : result.devices) {
    CHECK(device.peak_memory.weights > 0.0);
    CHECK(device.peak_memory.program > 0.0);
    CHECK(device.busy_cpu_s > 0.0);
    sent_bytes += device.bytes_sent;
  }
  CHECK(copies == 2 * messages);
  CHECK(sent_bytes == wire_bytes);
  CHECK(wire_bytes > 0.0);
  // Without spans it says as much.
  options.keep_spans = false;
  const RunResult untraced = exec::generate(plan, options, interrupt).run;
  CHECK(untraced.trace.spans.empty());
  REQUIRE(untraced.result.task_kinds.size() == result.task_kinds.size());
  for (std::size_t k = 0; k < result.task_kinds.size(); ++k) {
    CHECK(untraced.result.task_kinds[k].device == result.task_kinds[k].device);
    CHECK(untraced.result.task_kinds[k].kind == result.task_kinds[k].kind);
    CHECK(untraced.result.task_kinds[k].metrics.count == result.task_kinds[k].metrics.count);
    // A message between processes of one machine may arrive before its sender's call returns.
    if (result.task_kinds[k].kind == model::TaskKind::transfer) continue;
    CHECK(untraced.result.task_kinds[k].metrics.total_s > 0.0);
  }
}

TEST_CASE("exec/session: a stop token ends the run on every device") {
  const Home home(2);
  const planner::Plan plan = home.plan(3, 40);
  const std::vector<std::int32_t> tokens = home.expected(plan);
  GenerateOptions options = home.options(plan);
  options.stop_tokens = {tokens[4]};
  Interrupt interrupt;
  const Generation generation = exec::generate(plan, options, interrupt);
  const auto end = std::find(tokens.begin(), tokens.end(), tokens[4]) + 1;
  CHECK(generation.tokens == std::vector<std::int32_t>(tokens.begin(), end));
  CHECK(home.generate(plan) == tokens);  // and leaves the workers ready
}

TEST_CASE("exec/session: a killed worker costs one error on every device, in time") {
  const Home home(3);
  const planner::Plan plan = home.plan(4, 100);
  GenerateOptions options = home.options(plan);
  int tokens = 0;
  Clock::time_point killed;
  options.on_token = [&](std::int32_t) {
    if (++tokens != 3) return;
    killed = Clock::now();
    kill(home.processes->pid(2), SIGKILL);
  };
  const std::string error = Home::error_of(plan, options);
  CHECK(seconds_since(killed) < kPromptly);
  CAPTURE(error);
  CHECK((has(error, "device-2") || has(error, "device 2")));
  for (const int d : {1, 3}) {
    CHECK(eventually([&] { return home.processes->count_in_log(d, "failed") == 1; }));
    CHECK(home.processes->alive(d));
  }
  // The others serve the next session.
  const planner::Plan smaller = home.plan(2, 4);
  CHECK(home.generate(smaller) == home.expected(smaller));
}

TEST_CASE("exec/session: a stopped worker counts as gone, and comes back") {
  const Home home(2);
  const planner::Plan plan = home.plan(3, 100);
  GenerateOptions options = home.options(plan);
  int tokens = 0;
  Clock::time_point stopped;
  options.on_token = [&](std::int32_t) {
    if (++tokens != 3) return;
    stopped = Clock::now();
    kill(home.processes->pid(1), SIGSTOP);
  };
  const std::string error = Home::error_of(plan, options);
  CHECK(seconds_since(stopped) < kPromptly);
  CAPTURE(error);
  CHECK(has(error, "device-1"));
  CHECK(has(error, "silent"));
  CHECK(eventually([&] { return home.processes->count_in_log(2, "failed") == 1; }));
  kill(home.processes->pid(1), SIGCONT);
  CHECK(eventually([&] { return home.processes->count_in_log(1, "failed") == 1; }));
  const planner::Plan shorter = home.plan(3, 4);
  CHECK(home.generate(shorter) == home.expected(shorter));
}

TEST_CASE("exec/session: workers survive a master that is killed") {
  const Home home(2);
  const planner::Plan plan = home.plan(3, 100);
  const pid_t master = testing::fork_child([&] {
    GenerateOptions options = home.options(plan);
    int tokens = 0;
    options.on_token = [&](std::int32_t) {
      if (++tokens == 3) raise(SIGKILL);
    };
    return Home::error_of(plan, options).empty() ? 0 : 1;
  });
  int status = 0;
  REQUIRE(waitpid(master, &status, 0) == master);
  CHECK(WIFSIGNALED(status));
  for (const int d : {1, 2}) {
    CHECK(eventually([&] { return home.processes->count_in_log(d, "failed") == 1; }));
  }
  const planner::Plan shorter = home.plan(3, 4);
  CHECK(home.generate(shorter) == home.expected(shorter));
}

TEST_CASE("exec/session: an interrupt ends the run on every device with its reason") {
  const Home home(2);
  const planner::Plan plan = home.plan(3, 100);
  GenerateOptions options = home.options(plan);
  Interrupt interrupt;
  int tokens = 0;
  options.on_token = [&](std::int32_t) {
    if (++tokens == 3) interrupt.trip("interrupted");
  };
  CHECK_THROWS_WITH_AS(static_cast<void>(exec::generate(plan, options, interrupt)), "interrupted",
                       Error);
  for (const int d : {1, 2}) {
    CHECK(eventually([&] { return home.processes->count_in_log(d, "interrupted") == 1; }));
  }
  SUBCASE("and one before the run, too") {
    CHECK_THROWS_WITH_AS(static_cast<void>(exec::generate(plan, options, interrupt)), "interrupted",
                         Error);
  }
}

TEST_CASE("exec/session: a wrong key is one clear error, and the worker goes on") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  GenerateOptions options = home.options(plan);
  options.key = random_key();
  const auto begin = Clock::now();
  const std::string error = Home::error_of(plan, options);
  CHECK(seconds_since(begin) < kPromptly);
  CAPTURE(error);
  CHECK(has(error, "key"));
  options.key = home.key;
  CHECK(Home::error_of(plan, options) == "");
}

TEST_CASE("exec/session: nobody at an address is one clear error") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  GenerateOptions options = home.options(plan);
  {
    const ListenSocket taken({.host = "127.0.0.1"}, true);
    options.workers[1] = taken.endpoint();
  }
  const auto begin = Clock::now();
  const std::string error = Home::error_of(plan, options);
  CHECK(seconds_since(begin) < kPromptly);
  CHECK(has(error, to_text(options.workers[1])));
}

TEST_CASE("exec/session: a plan that is wrong is refused with the reason") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  const auto answer_to = [&](const PlanOffer& offer) -> std::string {
    const auto connected = home.control();
    Control& control = *connected;
    control.send(1, offer);
    try {
      return control.expect<PlanAnswer>(1, Clock::now() + std::chrono::seconds(10)).reason;
    } catch (const Error& error) {
      return error.what();  // its Abort was faster
    }
  };
  PlanOffer offer = Home::offer(plan);
  SUBCASE("no JSON") {
    offer.plan = "not a plan";
    CHECK(has(answer_to(offer), "offered plan"));
  }
  SUBCASE("a plan of another version's schema") {
    const std::string schema(planner::kPlanSchema);
    offer.plan.replace(offer.plan.find(schema), schema.size(), "tandem.plan/999");
    const std::string answer = answer_to(offer);
    CHECK(has(answer, "offered plan: field 'schema' is \"tandem.plan/999\", expected \"" + schema +
                          "\"; install the same tandem on every device"));
    CHECK_FALSE(has(answer, "make the plan again"));
  }
  SUBCASE("another plan than its digest says") {
    offer.sha256 = std::string(64, '0');
    CHECK(has(answer_to(offer), "digest"));
  }
  SUBCASE("options that make no sense") {
    offer.options = R"({"pace": "real"})";
    CHECK(has(answer_to(offer), "prompt_tokens"));
  }
  SUBCASE("a prompt beyond the model's context") {
    offer.options = to_json(RunOptions{.workload = {.prompt_tokens = 1'000'000, .new_tokens = 1}});
    CHECK(answer_to(offer) != "");
  }
  SUBCASE("the master itself as worker") {
    planner::Plan other = plan;
    other.master = 1;
    offer.plan = planner::to_json(other);
    offer.sha256 = planner::plan_sha256(other);
    CHECK(answer_to(offer) != "");
  }
  CHECK(eventually([&] { return home.processes->count_in_log(1, "failed") == 1; }));
  CHECK(home.generate(plan) == home.expected(plan));
}

}  // namespace
}  // namespace tandem::exec::session_test
