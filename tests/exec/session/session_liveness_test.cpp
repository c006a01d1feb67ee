// Who is alive is waited for, who is silent is not, and what is done is kept.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_assembly.hpp"
#include "model/report/result.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/block_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_liveness_test {
namespace {

using std::chrono::milliseconds;
using testing::eventually;
using testing::has;
using testing::seconds_since;
using testing::TemporaryFolder;
using testing::Workers;

const std::vector<std::int32_t> prompt_ids{79, 110, 99, 101};

struct Home {
  explicit Home(int workers, testing::TuneWorker tune = {}) {
    write_random_weights(model, 17, model::DType::f32, folder.path() / "weights");
    processes = std::make_unique<Workers>(folder.path(), workers, key, std::move(tune));
  }
  [[nodiscard]] planner::Plan plan(int devices, std::int64_t new_tokens) const {
    return testing::plan_for(model, "tensor", devices, "equal",
                             static_cast<std::int64_t>(prompt_ids.size()), new_tokens);
  }
  [[nodiscard]] GenerateOptions options(const planner::Plan& plan, const char* cache = "cache-0") {
    GenerateOptions options;
    options.weights = folder.path() / "weights";
    options.cache_dir = folder.path() / cache;
    options.prompt = prompt_ids;
    options.new_tokens = plan.workload.new_tokens;
    options.workers = processes->endpoints();
    options.key = key;
    options.on_warning = [this](const std::string& text) { warnings.push_back(text); };
    return options;
  }
  static Generation generate(const planner::Plan& plan, const GenerateOptions& options) {
    Interrupt interrupt;
    return exec::generate(plan, options, interrupt);
  }
  static std::string error_of(const planner::Plan& plan, const GenerateOptions& options) {
    try {
      static_cast<void>(generate(plan, options));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  [[nodiscard]] std::vector<std::int32_t> expected(const planner::Plan& plan) const {
    testing::SerialExecutor serial(plan, folder.path() / "weights");
    std::vector<std::vector<float>> logits;
    return serial.generate(prompt_ids, static_cast<int>(plan.workload.new_tokens), logits);
  }

  TemporaryFolder folder;
  model::Transformer model = testing::eight_heads();
  Key key = random_key();
  std::vector<std::string> warnings;
  std::unique_ptr<Workers> processes;
};

TEST_CASE("exec/liveness: a device that answers two seconds late joins, the others stay alive") {
  Home home(3, [](int d, WorkerOptions&) {
    if (d == 2) std::this_thread::sleep_for(milliseconds(2500));
  });
  const planner::Plan plan = home.plan(4, 3);
  CHECK(Home::generate(plan, home.options(plan)).tokens == home.expected(plan));
  CHECK(home.warnings.empty());
}

TEST_CASE("exec/liveness: one that never answers is named, and no other is blamed") {
  Home home(2);
  const planner::Plan plan = home.plan(3, 3);
  GenerateOptions options = home.options(plan);
  const ListenSocket silent({.host = "127.0.0.1"}, true);
  options.workers[2] = silent.endpoint();
  // Longer than the silence that device-1 may keep, and than it needs on a busy machine.
  options.times.connect = std::chrono::seconds(6);
  const std::string error = Home::error_of(plan, options);
  CAPTURE(error);
  CHECK(has(error, "device-2 at"));
  CHECK_FALSE(has(error, "device-1"));
}

TEST_CASE("exec/liveness: a second master is told that the worker is busy, the first goes on") {
  Home home(1);
  const planner::Plan plan = home.plan(2, 60);
  GenerateOptions options = home.options(plan);
  std::string told;
  double seconds = 0.0;
  int tokens = 0;
  options.on_token = [&](std::int32_t) {
    if (++tokens != 3) return;
    const auto begin = Clock::now();
    told = Home::error_of(plan, home.options(plan, "cache-other"));
    seconds = seconds_since(begin);
  };
  CHECK(Home::generate(plan, options).tokens == home.expected(plan));
  CAPTURE(told);
  CHECK(has(told, "device-1 at"));
  CHECK(has(told, "busy with another run (from 127.0.0.1"));
  CHECK(seconds < 20.0);
  CHECK(Home::generate(plan, home.options(plan)).tokens == home.expected(plan));
}

TEST_CASE("exec/liveness: two names of one worker are refused, by both devices' names") {
  Home home(2);
  const planner::Plan plan = home.plan(3, 3);
  GenerateOptions options = home.options(plan);
  options.workers[2] = {.host = "localhost", .port = options.workers[1].port};
  const std::string error = Home::error_of(plan, options);
  CAPTURE(error);
  CHECK(has(error, "the worker that serves device-"));
  CHECK(has(error, "device-1"));
  CHECK(has(error, "device-2"));
  CHECK(Home::generate(plan, home.options(plan)).tokens == home.expected(plan));
}

// Kills worker `victim` when the master turns to the report of worker `during`.
void lose_at_the_end(int victim, int during) {
  CAPTURE(victim);
  CAPTURE(during);
  Home home(2);
  const planner::Plan plan = home.plan(3, 5);
  GenerateOptions options = home.options(plan);
  options.keep_spans = true;
  options.on_stage = [&](const std::string& stage) {
    if (!has(stage, "the report of device-" + std::to_string(during))) return;
    kill(home.processes->pid(victim), SIGKILL);
    std::this_thread::sleep_for(milliseconds(100));
  };
  const auto begin = Clock::now();
  const Generation generation = Home::generate(plan, options);
  CHECK(seconds_since(begin) < 20.0);
  CHECK(generation.tokens == home.expected(plan));
  const model::Result& result = generation.run.result;
  CHECK(result.tokens == generation.tokens);
  CHECK(result.metrics.ttft_s > 0.0);
  CHECK(result.metrics.token_times_s.size() == 5);
  REQUIRE(home.warnings.size() == 1);
  CAPTURE(home.warnings[0]);
  CHECK(has(home.warnings[0], "device-" + std::to_string(victim) + " at"));
  const bool reported = victim < during;
  CHECK(has(home.warnings[0], "the result lacks") == !reported);
  for (int d = 0; d < 3; ++d) {
    const model::DeviceMetrics& device = result.devices[static_cast<std::size_t>(d)];
    CHECK(std::isnan(device.busy_cpu_s) == (d == victim && !reported));
    CHECK(std::isnan(device.peak_memory.weights) == (d == victim && !reported));
  }
  for (const model::LinkMetrics& link : result.links) CHECK(link.bytes > 0.0);
  for (const model::Span& span : generation.run.trace.spans) CHECK(span.end >= span.start);
  const std::string json = model::to_json(result);
  CHECK(has(json, "\"cpu\": null") == !reported);
  const model::Result again = model::parse_result_json(json, "result");
  CHECK(model::to_json(again) == json);
}

TEST_CASE("exec/liveness: a worker that dies after its last step takes only its times with it") {
  lose_at_the_end(1, 1);
  lose_at_the_end(2, 2);
}

TEST_CASE("exec/liveness: a worker that dies after its report costs a warning") {
  lose_at_the_end(1, 2);
}

TEST_CASE("exec/liveness: a worker that does not part in time costs a warning") {
  Home home(2);
  const planner::Plan plan = home.plan(3, 3);
  GenerateOptions options = home.options(plan);
  options.times.close = milliseconds(300);
  options.on_stage = [&](const std::string& stage) {
    if (has(stage, "the report of device-2")) kill(home.processes->pid(1), SIGSTOP);
  };
  CHECK(Home::generate(plan, options).tokens == home.expected(plan));
  REQUIRE(home.warnings.size() == 1);
  CHECK(has(home.warnings[0], "device-1 at"));
  CHECK(has(home.warnings[0], "did not end the run in time"));
  kill(home.processes->pid(1), SIGCONT);
  CHECK(Home::generate(plan, home.options(plan)).tokens == home.expected(plan));
}

// A master's end of a session with worker 1 that has just begun.
std::unique_ptr<Control> control_of_worker(const Home& home, ControlOptions options = {}) {
  std::vector<ControlPeer> peers;
  peers.push_back({.device = 1,
                   .connection = connect_to(home.processes->endpoints()[1], home.key,
                                            {.role = Role::master,
                                             .session = random_session(),
                                             .device = 0,
                                             .peer = 1,
                                             .sends = true},
                                            {.deadline = Clock::now() + std::chrono::seconds(5)})});
  return std::make_unique<Control>(std::move(peers), std::move(options));
}

TEST_CASE(
    "exec/liveness: a worker that checks its weights tells how far it is, and is called off") {
  Home home(1, [](int, WorkerOptions& options) { options.times.heartbeat = milliseconds(20); });
  model::Transformer large = testing::eight_heads();
  large.intermediate = 2'800'000;  // a block of 700 MiB
  const planner::Plan plan = testing::plan_for(large, "tensor", 2, "equal", 4, 3);
  const ShardLayout layout = layout_of(plan.model, plan.devices[1].share);
  REQUIRE(layout.blocks[1].bytes > std::uint64_t{500} << 20U);
  std::vector<BlockLabel> labels;
  for (const LayoutBlock& block : {layout.blocks[0], layout.blocks[1]}) {
    const BlockPieces pieces = pieces_of(plan.model, block);
    labels.emplace_back(pieces, std::vector<model::Digest>(pieces.count));
  }
  const auto blocks = home.folder.path() / "cache-1" / "blocks";
  std::filesystem::create_directories(blocks);
  const auto file = blocks / labels[1].id();
  std::ofstream(file).close();
  std::filesystem::resize_file(file, labels[1].pieces().bytes);  // of holes
  auto control = control_of_worker(home);
  control->send(1, PlanOffer{.sha256 = planner::plan_sha256(plan),
                             .plan = planner::to_json(plan),
                             .options = to_json(RunOptions{.workload = plan.workload})});
  CHECK(control->expect<PlanAnswer>(1).verdict == PlanVerdict::accepted);
  control->send(1, BlocksOffer{.blocks = {labels[0].digests(), labels[1].digests()}});
  CHECK(eventually([&] {
    const Heartbeat said = control->state_of(1).activity;
    return said.phase == Phase::checking && said.done > 0;
  }));
  control.reset();  // as Ctrl-C does
  const planner::Plan small = home.plan(2, 3);
  CHECK(Home::generate(small, home.options(small)).tokens == home.expected(small));
  CHECK(std::filesystem::exists(file));  // nobody knows whether it is sound
}

TEST_CASE("exec/liveness: a session for which there are no descriptors ends alone") {
  Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  static_cast<void>(Home::generate(plan, home.options(plan)));
  const pid_t worker = home.processes->pid(1);
  rlimit usual{};
  REQUIRE(prlimit(worker, RLIMIT_NOFILE, nullptr, &usual) == 0);
  const std::filesystem::path open = "/proc/" + std::to_string(worker) + "/fd";
  rlimit few = usual;
  few.rlim_cur = 0;
  for (int more = 1; more <= 6; ++more) {  // descriptors than it has when nobody is served
    CAPTURE(more);
    while (std::filesystem::exists(open / std::to_string(few.rlim_cur))) ++few.rlim_cur;
    ++few.rlim_cur;
    REQUIRE(prlimit(worker, RLIMIT_NOFILE, &few, nullptr) == 0);
    GenerateOptions options = home.options(plan);
    options.times.connect = milliseconds(1500);
    static_cast<void>(Home::error_of(plan, options));
    REQUIRE(prlimit(worker, RLIMIT_NOFILE, &usual, nullptr) == 0);
    REQUIRE(home.processes->alive(1));
  }
  CHECK(Home::generate(plan, home.options(plan)).tokens == home.expected(plan));
}

// A master that takes its time: everything lasts several times what anybody may be silent.
TEST_CASE("exec/liveness: a worker waits for a master that slices and ships for long") {
  Home home(1, [](int, WorkerOptions& options) {
    options.times.heartbeat = milliseconds(40);
    options.times.silence = milliseconds(700);  // a busy machine may not let it say so sooner
    options.times.unread = milliseconds(700);
    options.times.notice = milliseconds(100);
  });
  const planner::Plan plan = home.plan(2, 3);
  Activity activity;
  const auto connected =
      control_of_worker(home, {.heartbeat = milliseconds(40), .activity = &activity});
  Control& control = *connected;
  BlockStore store(home.folder.path() / "c");
  const auto made =
      testing::blocks_of(home.folder.path() / "weights", home.model, plan.devices[1].share, store);
  activity.enter(Phase::slicing, 7, 100);
  activity.advance(34);
  std::this_thread::sleep_for(milliseconds(1800));
  CHECK(eventually([&] {
    return home.processes->count_in_log(
               1, "waiting for the master, which slices the weights of device 7, 34%") > 0;
  }));
  control.send(1, PlanOffer{.sha256 = planner::plan_sha256(plan),
                            .plan = planner::to_json(plan),
                            .options = to_json(RunOptions{.workload = plan.workload})});
  CHECK(control.expect<PlanAnswer>(1).verdict == PlanVerdict::accepted);
  std::this_thread::sleep_for(milliseconds(1500));
  BlocksOffer offer;
  for (const MadeBlock& block : made) offer.blocks.push_back(block.label.digests());
  control.send(1, offer);
  const auto wanted = control.expect<BlocksWanted>(1);
  REQUIRE(wanted.blocks.size() == made.size());
  std::this_thread::sleep_for(milliseconds(1500));
  bool first = true;
  for (std::size_t i = 0; i < made.size(); ++i) {
    send_pieces(made[i].file, made[i].label.pieces(), wanted.blocks[i], 65536,
                [&](std::span<const std::byte> chunk) {
                  control.send(1, WeightChunk{.bytes = {chunk.begin(), chunk.end()}});
                  if (!std::exchange(first, false)) return;
                  std::this_thread::sleep_for(milliseconds(1500));
                  CHECK(control.state_of(1).activity.phase == Phase::receiving);
                });
  }
  static_cast<void>(control.expect<BlocksWanted>(1));
  static_cast<void>(control.expect<Ready>(1));
  CHECK(home.processes->count_in_log(1, "6 put together") == 1);
}

TEST_CASE("exec/liveness: who is waited for is said, with what it does, and Ctrl-C ends it") {
  Home home(2);
  const planner::Plan plan = home.plan(3, 3);
  GenerateOptions options = home.options(plan);
  options.times.notice = milliseconds(100);
  // A worker that is alive and never gets on: it says so in every heartbeat.
  Listener listener(ListenSocket({.host = "127.0.0.1"}, true), home.key);
  options.workers[2] = listener.endpoint();
  std::atomic<bool> over = false;
  std::thread stuck([&] {
    std::optional<Incoming> incoming =
        listener.accept({.deadline = Clock::now() + std::chrono::seconds(5)});
    if (!incoming) return;
    incoming->welcome();
    Activity activity;
    activity.enter(Phase::loading, Activity::kNobody, 100);
    activity.advance(25);
    std::vector<ControlPeer> peers;
    peers.push_back({.device = 0, .connection = std::move(incoming->connection)});
    const Control control(std::move(peers), {.activity = &activity});
    while (!over) std::this_thread::sleep_for(milliseconds(20));
  });
  Interrupt interrupt;
  std::vector<std::string> notices;
  options.on_notice = [&](const std::string& text) {
    notices.push_back(text);
    if (has(text, "has not got on")) interrupt.trip("interrupted");
  };
  const auto begin = Clock::now();
  CHECK_THROWS_WITH_AS(static_cast<void>(exec::generate(plan, options, interrupt)), "interrupted",
                       Error);
  CHECK(seconds_since(begin) < 20.0);
  over = true;
  stuck.join();
  REQUIRE_FALSE(notices.empty());
  CAPTURE(notices.back());
  CHECK(has(notices.back(), "waiting for device-2 at"));
  CHECK(has(notices.back(), "loads its weights, 25%"));
}

}  // namespace
}  // namespace tandem::exec::session_liveness_test
