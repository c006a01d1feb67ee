// Master and workers as real processes over loopback TLS.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_assembly.hpp"
#include "planner/plan/file/plan_words.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/block_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::session_test {
namespace {

using testing::eventually;
using testing::has;
using testing::seconds_since;
using testing::TemporaryFolder;
using testing::Workers;

const std::vector<std::int32_t> kPrompt{79, 110, 99, 101, 32, 117, 112, 111, 110};

// Two seconds are promised; a loaded or instrumented machine may add to it.
constexpr double kPromptly = 20.0;

struct Home {
  explicit Home(int workers, std::int32_t columns = 59)
      : key(random_key()), processes(start(workers, columns)) {}

  [[nodiscard]] planner::Plan plan(int devices, std::int64_t new_tokens,
                                   const char* partition = "equal") const {
    return testing::plan_for(model, devices == 1 ? "local" : "tensor", devices, partition,
                             static_cast<std::int64_t>(kPrompt.size()), new_tokens);
  }
  [[nodiscard]] GenerateOptions options(const planner::Plan& plan) const {
    GenerateOptions options;
    options.weights = weights();
    options.cache_dir = folder.path() / "cache-0";
    options.prompt = kPrompt;
    options.new_tokens = plan.workload.new_tokens;
    options.workers = processes->endpoints();
    options.key = key;
    return options;
  }
  [[nodiscard]] std::vector<std::int32_t> generate(const planner::Plan& plan) const {
    Interrupt interrupt;
    return exec::generate(plan, options(plan), interrupt).tokens;
  }
  // What generate() throws; "" if it does not.
  [[nodiscard]] static std::string error_of(const planner::Plan& plan,
                                            const GenerateOptions& options) {
    Interrupt interrupt;
    try {
      static_cast<void>(exec::generate(plan, options, interrupt));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  [[nodiscard]] std::vector<std::int32_t> expected(const planner::Plan& plan) const {
    testing::SerialExecutor serial(plan, weights());
    std::vector<std::vector<float>> logits;
    return serial.generate(kPrompt, static_cast<int>(plan.workload.new_tokens), logits);
  }
  [[nodiscard]] std::filesystem::path weights() const { return folder.path() / "weights"; }
  // A master's end of a session with worker 1 that has just begun.
  [[nodiscard]] std::unique_ptr<Control> control() const {
    Hello hello;
    hello.role = Role::master;
    hello.session = random_session();
    hello.peer = 1;
    std::vector<ControlPeer> peers;
    peers.push_back({.device = 1,
                     .connection = connect_to(processes->endpoints()[1], key, hello,
                                              {.deadline = Clock::now() + std::chrono::seconds(5),
                                               .cancellation = nullptr})});
    return std::make_unique<Control>(std::move(peers), ControlOptions{});
  }
  [[nodiscard]] static PlanOffer offer(const planner::Plan& plan) {
    return {.sha256 = planner::plan_sha256(plan),
            .plan = planner::to_json(plan),
            .options = to_json(RunOptions{.workload = plan.workload})};
  }

  TemporaryFolder folder;
  model::Transformer model = testing::eight_heads();
  Key key;
  std::unique_ptr<Workers> processes;

 private:
  std::unique_ptr<Workers> start(int workers, std::int32_t columns) {
    model.intermediate = columns;
    write_random_weights(model, 17, model::DType::f32, weights());
    return std::make_unique<Workers>(folder.path(), workers, key);
  }
};

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

TEST_CASE("exec/session: a worker keeps its weights and is not sent them again") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  const auto tokens = home.generate(plan);
  CHECK(home.generate(plan) == tokens);
  CHECK(eventually([&] { return home.processes->count_in_log(1, "is done") == 2; }));
  CHECK(home.processes->count_in_log(1, "0 in memory, 0 in the cache, 6 put together") == 1);
  CHECK(home.processes->count_in_log(
            1, "6 in memory, 0 in the cache, 0 put together, 0 B received, 0 B read into memory") ==
        1);
}

std::uint64_t sent_in(const Generation& generation) {
  return std::stoull(generation.run.result.environment.at("weights_sent_bytes"));
}

TEST_CASE("exec/session: the second run sends nothing, another placement what differs") {
  const Home home(1, 1280);
  Interrupt interrupt;
  const planner::Plan first = home.plan(2, 3, "5:3");
  const planner::Plan second = home.plan(2, 3, "4:4");
  const auto run = [&](const planner::Plan& plan) {
    const Generation generation = exec::generate(plan, home.options(plan), interrupt);
    CHECK(generation.tokens == home.expected(plan));
    return sent_in(generation);
  };
  const std::uint64_t all = run(first);
  CHECK(all > 0);
  CHECK(run(first) == 0);
  const std::uint64_t some = run(second);
  CHECK(some > 0);
  CHECK(some < all / 2);  // a head and 160 columns more, and 32 of the group of 64 that grew
  CHECK(run(second) == 0);
  CHECK(run(first) == 0);
  // From the disk: what is in memory is the last placement alone.
  CHECK(eventually([&] { return home.processes->count_in_log(1, "is done") == 5; }));
  CHECK(home.processes->count_in_log(1, "6 in memory") == 2);
  CHECK(home.processes->count_in_log(1, "0 in memory, 6 in the cache") == 1);
}

TEST_CASE("exec/session: what a worker was sent outlives it, and masters share it") {
  const TemporaryFolder folder;
  const planner::Plan plan = [] {
    return testing::plan_for(testing::eight_heads(), "tensor", 2, "equal",
                             static_cast<std::int64_t>(kPrompt.size()), 3);
  }();
  std::vector<std::uint64_t> sent;
  for (int life = 0; life < 2; ++life) {
    const Key key = random_key();
    const Workers workers(folder.path(), 1, key);
    for (const char* master : {"one", "another"}) {
      GenerateOptions options;
      options.weights = folder.path() / master;
      if (!std::filesystem::exists(options.weights))
        write_random_weights(plan.model, 17, model::DType::f32, options.weights);
      options.cache_dir = folder.path() / (std::string(master) + "-cache");
      options.prompt = kPrompt;
      options.new_tokens = 3;
      options.workers = workers.endpoints();
      options.key = key;
      Interrupt interrupt;
      sent.push_back(sent_in(exec::generate(plan, options, interrupt)));
    }
  }
  CHECK(sent[0] > 0);
  CHECK(sent[1] == 0);
  CHECK(sent[2] == 0);
  CHECK(sent[3] == 0);
}

TEST_CASE("exec/session: a worker that starts anew hashes nothing it has, unless it is told to") {
  const TemporaryFolder folder;
  const planner::Plan plan = testing::plan_for(testing::eight_heads(), "tensor", 2, "equal",
                                               static_cast<std::int64_t>(kPrompt.size()), 3);
  write_random_weights(plan.model, 17, model::DType::f32, folder.path() / "weights");
  const auto run = [&](bool verify) {
    const Key key = random_key();
    const Workers workers(folder.path(), 1, key,
                          [verify](int, WorkerOptions& options) { options.verify = verify; });
    GenerateOptions options;
    options.weights = folder.path() / "weights";
    options.cache_dir = folder.path() / "cache";
    options.prompt = kPrompt;
    options.new_tokens = 3;
    options.workers = workers.endpoints();
    options.key = key;
    Interrupt interrupt;
    const Generation done = exec::generate(plan, options, interrupt);
    return std::pair(done.tokens, workers.log(1));  // of all lives so far
  };
  const auto [tokens, first] = run(false);
  CHECK(has(first, "0 in memory, 0 in the cache"));
  const auto [again, second] = run(false);
  CHECK(again == tokens);
  CHECK(has(second, "0 in memory, 6 in the cache, 0 put together, 0 B received"));
  CHECK(has(second.substr(first.size()), ", 0 B hashed again"));
  const auto [verified, third] = run(true);
  CHECK(verified == tokens);
  CHECK(has(third.substr(second.size()), "6 in the cache"));
  CHECK_FALSE(has(third.substr(second.size()), ", 0 B hashed again"));
}

TEST_CASE("exec/session: a session that breaks off keeps the blocks that it had received") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  BlockStore store(home.folder.path() / "c");
  const auto blocks = testing::blocks_of(home.weights(), home.model, plan.devices[1].share, store);
  {
    const auto control = home.control();
    control->send(1, home.offer(plan));
    const auto soon = [] { return Clock::now() + std::chrono::seconds(10); };
    CHECK(control->expect<PlanAnswer>(1, soon()).verdict == PlanVerdict::accepted);
    control->send(1, BlocksOffer{.blocks = {blocks[0].label.digests()}});
    const auto wanted = control->expect<BlocksWanted>(1, soon());
    REQUIRE(wanted.blocks.size() == 1);
    CHECK(wanted.blocks[0].size() == blocks[0].label.pieces().count);
    send_pieces(blocks[0].file, blocks[0].label.pieces(), wanted.blocks[0], 4096,
                [&](std::span<const std::byte> bytes) {
                  control->send(1, WeightChunk{.bytes = {bytes.begin(), bytes.end()}});
                });
    CHECK(control->expect<BlocksWanted>(1, soon()).blocks[0].empty());
  }
  CHECK(home.generate(plan) == home.expected(plan));
  CHECK(home.processes->count_in_log(1, "0 in memory, 1 in the cache, 5 put together") == 1);
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

TEST_CASE("exec/session: a damaged block in the master's own cache heals") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  const std::filesystem::path block = [&] {
    BlockStore store(home.folder.path() / "cache-0");
    return testing::blocks_of(home.weights(), home.model, plan.devices[1].share, store)[1]
        .file.path;
  }();
  const std::string sound = testing::read_all(block);
  std::fstream file(block, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file.put('!');
  file.close();
  GenerateOptions options = home.options(plan);
  std::vector<std::string> warnings;
  options.on_warning = [&](const std::string& warning) { warnings.push_back(warning); };
  Interrupt interrupt;
  CHECK(exec::generate(plan, options, interrupt).tokens == home.expected(plan));
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0], block.string()));
  CHECK(testing::read_all(block) == sound);
}

TEST_CASE("exec/session: weights that are not what was announced are refused, and not kept") {
  const Home home(1);
  const planner::Plan plan = home.plan(2, 3);
  const auto connected = home.control();
  Control& control = *connected;
  BlockStore store(home.folder.path() / "c");
  const auto blocks = testing::blocks_of(home.weights(), home.model, plan.devices[1].share, store);
  control.send(1, Home::offer(plan));
  const auto soon = [] { return Clock::now() + std::chrono::seconds(10); };
  CHECK(control.expect<PlanAnswer>(1, soon()).verdict == PlanVerdict::accepted);
  BlocksOffer offer{.blocks = {blocks[0].label.digests()}};
  bool sends = true;
  SUBCASE("other bytes") {}
  SUBCASE("a piece too many") {
    offer.blocks[0].emplace_back();
    sends = false;
  }
  SUBCASE("no block") {
    offer.blocks.clear();
    sends = false;
  }
  SUBCASE("more blocks than the share has") {
    for (const MadeBlock& block : blocks) offer.blocks.push_back(block.label.digests());
    sends = false;
  }
  control.send(1, offer);
  if (sends) {
    CHECK(control.expect<BlocksWanted>(1, soon()).blocks.size() == 1);
    std::uint64_t left = blocks[0].file.bytes;  // the padding too, which is more than was asked for
    while (left > 0) {
      const std::uint64_t piece = std::min<std::uint64_t>(left, 4096);
      control.send(1, WeightChunk{.bytes = std::vector<std::byte>(piece)});
      left -= piece;
    }
  }
  CHECK_THROWS_AS(static_cast<void>(control.receive(1, soon())), Error);
  CHECK(eventually([&] { return home.processes->count_in_log(1, "failed") == 1; }));
  CHECK(home.generate(plan) == home.expected(plan));
  CHECK(home.processes->count_in_log(1, "0 in the cache, 6 put together") == 1);
}

}  // namespace
}  // namespace tandem::exec::session_test
