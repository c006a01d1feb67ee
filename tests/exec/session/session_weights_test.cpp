// What workers keep of the weights that they are sent.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_assembly.hpp"
#include "tests/exec/session/session_home.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::session_weights_test {
namespace {

using session_home::Home;
using session_home::prompt_ids;
using testing::eventually;
using testing::has;
using testing::seconds_since;
using testing::TemporaryFolder;
using testing::Workers;

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
                             static_cast<std::int64_t>(prompt_ids.size()), 3);
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
      options.prompt = prompt_ids;
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
                                               static_cast<std::int64_t>(prompt_ids.size()), 3);
  write_random_weights(plan.model, 17, model::DType::f32, folder.path() / "weights");
  const auto run = [&](bool verify) {
    const Key key = random_key();
    const Workers workers(folder.path(), 1, key,
                          [verify](int, WorkerOptions& options) { options.verify = verify; });
    GenerateOptions options;
    options.weights = folder.path() / "weights";
    options.cache_dir = folder.path() / "cache";
    options.prompt = prompt_ids;
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
}  // namespace tandem::exec::session_weights_test
