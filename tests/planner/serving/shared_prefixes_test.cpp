// Requests that share the caches of common prefixes: contents, capacity and what is read.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/block_table.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/prefix_sharing.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/sequence_cache.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::shared_prefixes_test {
namespace {

using planner::Capacity;
using planner::InferenceRequest;
using planner::RequestScheduler;
using Tokens = std::vector<std::int32_t>;

InferenceRequest request_of(double arrival_s, Tokens prompt, std::int64_t tokens) {
  InferenceRequest request{.id = "r" + std::to_string(arrival_s),
                           .arrival_s = arrival_s,
                           .prompt_tokens = std::ssize(prompt),
                           .new_tokens = tokens};
  request.prompt_ids = std::move(prompt);
  return request;
}

// A device's cache with the tokens whose keys and values it holds.
class Contents {
 public:
  explicit Contents(std::int64_t positions) : table_(positions / 64) {}
  void execute(const model::Batch& batch, const Tokens& rows) {
    for (const model::CacheOp& op : batch.cache) {
      if (op.kind == model::CacheOpKind::fork) {
        const Tokens& from = tokens_.at(op.from);
        tokens_[op.sequence].assign(from.begin(), from.begin() + op.positions);
      } else {
        REQUIRE(op.kind == model::CacheOpKind::free);
        tokens_.erase(op.sequence);
      }
      table_.apply(op);
    }
    auto row = rows.begin();
    for (const model::Segment& s : batch.segments) {
      Tokens& own = tokens_[s.sequence];
      REQUIRE(std::ssize(own) == s.past);
      own.insert(own.end(), row, row + s.rows);
      row += s.rows;
      // Throws if more is needed than there is.
      static_cast<void>(table_.append(s.sequence, {s.past, s.past + s.rows}));
    }
  }
  [[nodiscard]] const Tokens& of(std::int32_t sequence) const { return tokens_.at(sequence); }
  [[nodiscard]] const model::BlockTable& table() const { return table_; }

 private:
  std::map<std::int32_t, Tokens> tokens_;
  model::BlockTable table_;
};

// Requests join and leave at random; prompts are new texts or continue or change earlier ones, with
// their answers. What must hold: a sequence's cache has its own tokens, whatever it began with;
// what is cached and what is read make the prompt; no step needs more blocks than there are; and
// when all have gone and one needs all blocks, it gets them.
TEST_CASE("planner/shared prefixes: every cache holds its own request's tokens") {
  std::mt19937 random(8);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::int64_t all_cached = 0;
  std::int64_t all_prompts = 0;
  for (int round = 0; round < 120; ++round) {
    for (const planner::Policy& policy : planner::policies()) {
      const std::int64_t chunk = policy.budget() ? draw(4, 90) : draw(0, 1) * draw(2, 90);
      const Capacity capacity{.rows = 400,
                              .positions = 64 * draw(5, 16),
                              .sequences = draw(1, 5),
                              .steps = policy.several() ? draw(1, 3) : 1};
      CAPTURE(round);
      CAPTURE(policy.name);
      RequestScheduler scheduler(policy,
                                 {.chunk = chunk, .capacity = capacity, .shares_prefixes = true});
      struct Own {
        Tokens tokens;  // prompt and answer
        std::int64_t prompt = 0;
        std::int64_t limit = 0;
        std::int64_t first = -1;  // position of its first row
        std::int64_t read = 0;
        bool left = false;
      };
      std::vector<Own> all;
      std::vector<std::pair<std::int32_t, model::Batch>> flying;
      Contents cache(capacity.positions);
      std::int32_t made = 0;
      double now = 0.0;
      int to_come = draw(1, 14);
      const auto ask = [&](std::span<const model::StepOutcome> ended) {
        while (true) {
          const auto step = scheduler.next(now, ended).step;
          ended = {};
          if (!step) return;
          const Tokens rows = scheduler.row_tokens();
          for (const model::Segment& s : step->batch.segments) {
            Own& own = all.at(static_cast<std::size_t>(s.sequence));
            CHECK_FALSE(own.left);
            if (own.first < 0) {
              own.first = own.read = s.past;
              CHECK(s.past < own.prompt);
              all_cached += s.past;
              all_prompts += own.prompt;
            }
            CHECK(s.past == own.read);
            own.read += s.rows;
          }
          cache.execute(step->batch, rows);
          for (const model::Segment& s : step->batch.segments) {
            const Tokens& held = cache.of(s.sequence);
            const Tokens& own = all.at(static_cast<std::size_t>(s.sequence)).tokens;
            CHECK(std::equal(held.begin(), held.end(), own.begin()));
          }
          flying.emplace_back(made++, step->batch);
        }
      };
      const auto prompt = [&] {
        Tokens tokens;
        if (!all.empty() && draw(0, 3) > 0) {
          const Tokens& from =
              all[static_cast<std::size_t>(draw(0, static_cast<int>(all.size()) - 1))].tokens;
          const int whole = static_cast<int>(from.size());
          tokens.assign(from.begin(), from.begin() + (draw(0, 1) == 0 ? whole : draw(1, whole)));
        }
        for (int i = draw(tokens.empty() ? 1 : 0, 80); i > 0; --i) tokens.push_back(draw(0, 3));
        if (tokens.size() > 200) tokens.resize(200);
        return tokens;
      };
      while (to_come > 0 || !flying.empty() || scheduler.has_requests()) {
        now += 1.0;
        if (to_come > 0 && (flying.empty() || draw(0, 2) == 0)) {
          --to_come;
          Own own{.tokens = prompt(), .limit = draw(1, 60)};
          own.prompt = std::ssize(own.tokens);
          CHECK(scheduler.join(request_of(now, own.tokens, own.limit)) == all.size());
          all.push_back(std::move(own));
          ask({});
        } else if (!all.empty() && draw(0, 9) == 0) {
          const auto number = static_cast<std::size_t>(draw(0, static_cast<int>(all.size()) - 1));
          all[number].left = true;
          scheduler.leave(number);
          ask({});
        } else if (!flying.empty()) {
          const auto [number, batch] = flying.front();
          flying.erase(flying.begin());
          std::vector<model::StepOutcome> ended{{.step = number, .tokens = {}}};
          for (const model::Segment& s : batch.segments) {
            if (s.sampled == 0) continue;
            Own& own = all.at(static_cast<std::size_t>(s.sequence));
            ended.front().tokens.push_back(draw(0, 3));
            if (!own.left) own.tokens.push_back(ended.front().tokens.back());
          }
          ask(ended);
        }
      }
      for (const Own& own : all) {
        if (own.left) continue;
        CHECK(std::ssize(own.tokens) == own.prompt + own.limit);
        CHECK(own.read == own.prompt + own.limit - 1);
      }
      // What is kept gives way to one that needs all blocks.
      const std::int64_t whole = capacity.positions;
      scheduler.join(request_of(now, Tokens(1, 9), whole));
      auto step = scheduler.next(now, {}).step;
      while (step) {
        cache.execute(step->batch, scheduler.row_tokens());
        const std::vector<model::StepOutcome> ended{{.step = made++, .tokens = {9}}};
        step = scheduler.next(now, ended).step;
      }
      CHECK(cache.table().free_blocks() == 0);
    }
  }
  CHECK(all_cached > all_prompts / 4);
}

std::vector<model::ServedStep> served(const planner::Plan& plan, model::Scheduler& scheduler) {
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder.served();
}

std::vector<std::int64_t> cached_of(const std::vector<InferenceRequest>& requests,
                                    const std::string& policy, std::int64_t chunk,
                                    const Capacity& capacity) {
  const planner::Plan plan = plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}});
  RequestScheduler scheduler(requests, planner::find_policy(policy),
                             {.chunk = chunk, .capacity = capacity, .shares_prefixes = true});
  std::vector<std::int64_t> cached;
  for (const model::RequestResult& result :
       planner::request_results(requests, served(plan, scheduler)))
    cached.push_back(result.cached_tokens);
  return cached;
}

InferenceRequest lengths(const std::string& id, double arrival_s, std::int64_t prompt,
                         std::int64_t tokens, std::vector<planner::PrefixPiece> prefix) {
  return {.id = id,
          .arrival_s = arrival_s,
          .prompt_tokens = prompt,
          .new_tokens = tokens,
          .prefix = std::move(prefix)};
}

TEST_CASE("planner/shared prefixes: a workload of lengths states what its prompts share") {
  const Capacity capacity{.rows = 300, .positions = 64 * 40, .sequences = 8, .steps = 1};
  SUBCASE("turns of a chat: all of the turn before but its last token, which was not fed back") {
    std::vector<InferenceRequest> turns;
    for (int turn = 0; turn < 4; ++turn)
      turns.push_back(lengths("t" + std::to_string(turn), 1000.0 * turn, 40 + turn * 50, 20,
                              {{"chat", 60 + turn * 50}}));
    CHECK(cached_of(turns, "sequential", 0, capacity) ==
          std::vector<std::int64_t>{0, 59, 109, 159});
  }
  SUBCASE("one system prompt, at once: read once, in chunks, and shared while it is active") {
    std::vector<InferenceRequest> requests;
    for (int i = 0; i < 4; ++i)
      requests.push_back(lengths("r" + std::to_string(i), 0.0, 210, 5, {{"system", 200}}));
    CHECK(cached_of(requests, "continuous", 70, capacity) ==
          std::vector<std::int64_t>{0, 200, 200, 200});
    CHECK(cached_of(requests, "continuous", 0, capacity) ==
          std::vector<std::int64_t>{0, 200, 200, 200});
  }
  SUBCASE("two chats with one system prompt share that alone") {
    const std::vector<InferenceRequest> requests{
        lengths("a1", 0.0, 100, 10, {{"system", 80}, {"a", 30}}),
        lengths("b1", 1e3, 100, 10, {{"system", 80}, {"b", 30}}),
        lengths("a2", 2e3, 150, 10, {{"system", 80}, {"a", 80}})};
    CHECK(cached_of(requests, "continuous", 0, capacity) == std::vector<std::int64_t>{0, 80, 109});
  }
  SUBCASE("a prompt that is all there: its last token is read, for its logits") {
    const std::vector<InferenceRequest> requests{lengths("a", 0.0, 100, 1, {{"p", 100}}),
                                                 lengths("b", 1e3, 100, 1, {{"p", 100}})};
    CHECK(cached_of(requests, "continuous", 0, capacity) == std::vector<std::int64_t>{0, 99});
  }
  SUBCASE("memory for one at a time: the least recently used makes room") {
    const Capacity small{.rows = 300, .positions = 64 * 4, .sequences = 1, .steps = 1};
    const std::vector<InferenceRequest> requests{
        lengths("a1", 0.0, 100, 1, {{"a", 100}}), lengths("b1", 1e3, 100, 1, {{"b", 100}}),
        lengths("a2", 2e3, 120, 1, {{"a", 120}}),  // copies a block of a1, for which b1 goes
        lengths("c1", 3e3, 100, 1, {{"c", 100}}), lengths("a3", 4e3, 130, 1, {{"a", 130}}),
        lengths("b2", 5e3, 120, 1, {{"b", 120}})};
    CHECK(cached_of(requests, "sequential", 0, small) ==
          std::vector<std::int64_t>{0, 0, 100, 0, 120, 0});
  }
}

TEST_CASE("planner/shared prefixes: without anything in common the steps are those without") {
  std::mt19937 random(21);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const planner::Plan plan = pipeline_of(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<InferenceRequest> requests;
    double arrival_s = 0.0;
    for (int i = draw(1, 8); i > 0; --i) {
      requests.push_back(lengths("r" + std::to_string(i), arrival_s, draw(1, 90), draw(1, 30), {}));
      if (draw(0, 2) > 0) arrival_s += draw(0, 50) * 1e-3;
    }
    for (const planner::Policy& policy : planner::policies()) {
      const std::int64_t chunk = draw(0, 1) * 16;
      if (!planner::serves(policy, chunk)) continue;
      CAPTURE(round);
      CAPTURE(policy.name);
      planner::ServingOptions options{
          .chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk, 3)};
      RequestScheduler without(requests, policy, options);
      options.shares_prefixes = true;
      RequestScheduler with(requests, policy, options);
      const auto expected = served(plan, without);
      const auto steps = served(plan, with);
      REQUIRE(steps.size() == expected.size());
      for (std::size_t s = 0; s < steps.size(); ++s) CHECK(steps[s].step == expected[s].step);
    }
  }
}

// What admission counts never exceeds what it counts without sharing, so nobody waits longer.
TEST_CASE("planner/shared prefixes: admission counts no more than without") {
  std::mt19937 random(4);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const std::int64_t blocks = draw(4, 20);
    planner::SequenceCache cache(64 * blocks, true);
    model::BlockTable table(blocks);
    struct Active {
      Tokens tokens;  // up to the limit
      std::int64_t limit = 0;
      std::int64_t length = 0;
      bool begun = false;
    };
    std::map<std::int32_t, Active> active;
    for (std::int32_t i = 0; i < 60; ++i) {
      std::int64_t without = 0;
      for (const auto& [sequence, own] : active) without += planner::reserved_positions(own.limit);
      CHECK(cache.reserved() <= without);
      if (draw(0, 2) == 0) {
        Active own{.tokens = Tokens(static_cast<std::size_t>(draw(2, 300)), draw(0, 1))};
        own.tokens[static_cast<std::size_t>(draw(0, static_cast<int>(own.tokens.size()) - 1))] = 7;
        own.limit = std::ssize(own.tokens) + draw(0, 60);
        const std::int64_t more = cache.needs(own.limit, own.tokens);
        CHECK(more <= planner::reserved_positions(own.limit));
        if (cache.reserved() + more > 64 * blocks) continue;
        const std::int64_t before = cache.reserved();
        cache.admit(i, own.limit, own.tokens);
        CHECK(cache.reserved() == before + more);
        active.emplace(i, std::move(own));
      } else if (!active.empty() && draw(0, 3) == 0) {
        const auto gone = std::next(active.begin(), draw(0, static_cast<int>(active.size()) - 1));
        Tokens contents = gone->second.tokens;
        if (!gone->second.begun) gone->second.length = cache.begin(gone->first);
        contents.resize(static_cast<std::size_t>(gone->second.length), 9);
        cache.end(gone->first, std::move(contents));
        active.erase(gone);
      } else {
        std::vector<model::Segment> rows;
        for (auto& [sequence, own] : active) {
          if (draw(0, 1) == 0) continue;
          if (!std::exchange(own.begun, true)) own.length = cache.begin(sequence);
          const std::int64_t count = std::min<std::int64_t>(draw(1, 100), own.limit - own.length);
          if (count < 1) continue;
          rows.push_back({.sequence = sequence,
                          .past = static_cast<std::int32_t>(own.length),
                          .rows = static_cast<std::int32_t>(count)});
          own.length += count;
        }
        for (const model::CacheOp& op : cache.enter(rows)) table.apply(op);
        for (const model::Segment& s : rows)
          REQUIRE_NOTHROW((void)table.append(s.sequence, {s.past, s.past + s.rows}));
      }
    }
  }
}

TEST_CASE("planner/shared prefixes: steps that were made are written, read and replayed") {
  planner::Plan plan = plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}});
  plan.model.max_context = 200;
  const planner::Policy& policy = planner::find_policy("continuous");
  std::vector<InferenceRequest> requests;
  for (int i = 0; i < 6; ++i)
    requests.push_back(lengths("r" + std::to_string(i), 0.01 * i, 90 + 10 * (i % 3), 6,
                               {{i % 2 == 0 ? "even" : "odd", 80}}));
  const Capacity capacity{.rows = 60, .positions = 64 * 6, .sequences = 3, .steps = 1};
  RequestScheduler scheduler(requests, policy,
                             {.chunk = 32, .capacity = capacity, .shares_prefixes = true});
  model::Result made;
  planner::fill_requests(requests, served(plan, scheduler), made);
  planner::set_prefix_hits(made);
  std::int64_t cached = 0;
  for (const model::RequestResult& request : made.requests) cached += request.cached_tokens;
  CHECK(cached > 0);
  CHECK(*made.prefix_hit_rate == doctest::Approx(static_cast<double>(cached) / 600.0));

  made.evaluator = "analytic";
  const model::Result read = model::parse_result_json(to_json(made), "r.json");
  CHECK(read.prefix_hit_rate == made.prefix_hit_rate);
  REQUIRE(read.schedule.size() == made.schedule.size());
  const auto steps = planner::replayed_steps(read.schedule, requests, plan.model, "r.json");
  for (std::size_t s = 0; s < steps.size(); ++s) CHECK(steps[s].batch == made.schedule[s].batch);
  CHECK_NOTHROW(planner::check_schedule(steps, capacity, "r.json"));
  Capacity less = capacity;
  less.positions = 128;
  CHECK_THROWS_WITH_AS(planner::check_schedule(steps, less, "r.json"),
                       doctest::Contains("positions in the cache, expected at most 128"), Error);
  model::RecordedScheduler again(steps);
  model::Result replayed;
  planner::fill_requests(requests, served(plan, again), replayed);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    CHECK(replayed.requests[r].cached_tokens == made.requests[r].cached_tokens);
    CHECK(replayed.requests[r].end_s == doctest::Approx(made.requests[r].end_s));
  }

  using Step = model::ScheduledStep;
  for (const auto& spoil : std::vector<std::function<void(model::CacheOp&)>>{
           [](model::CacheOp& op) { op.sequence = 77; }, [](model::CacheOp& op) { op.from = 77; },
           [](model::CacheOp& op) { op.positions = 4000; },
           [](model::CacheOp& op) { op.kind = model::CacheOpKind::truncate; }}) {
    std::vector<Step> spoiled = read.schedule;
    const auto step = std::ranges::find_if(spoiled, [](const Step& one) {
      return model::shares_prefixes({&one, 1});
    });
    REQUIRE(step != spoiled.end());
    for (model::CacheOp& op : step->batch.cache)
      if (op.kind == model::CacheOpKind::fork) spoil(op);
    CHECK_THROWS_AS((void)planner::replayed_steps(spoiled, requests, plan.model, "r.json"), Error);
  }
}

// A shares C's blocks, and D is admitted into what that spares. When A begins, the kept text of B
// is longer than what it shares with C, but nobody active holds B's blocks.
TEST_CASE("planner/shared prefixes: nothing is taken over in place of what others paid for") {
  constexpr std::int64_t kPositions = 40 * model::kCacheBlock;
  planner::SequenceCache cache(kPositions, true);
  const auto text = [](std::int32_t common, std::int32_t all, std::int32_t own) {
    Tokens tokens;
    for (std::int32_t i = 0; i < all; ++i) tokens.push_back(i < common ? i : own * 10000 + i);
    return tokens;
  };
  const auto read = [&](std::int32_t sequence, std::int32_t past, std::int32_t rows) {
    static_cast<void>(cache.enter(std::vector<model::Segment>{
        {.sequence = sequence, .past = past, .rows = rows, .sampled = 0}}));
  };
  cache.admit(0, 338, text(10, 10, 0));  // B, whose answer goes on as the common text does
  read(0, 0, 10);
  cache.admit(1, 575, text(321, 500, 1));  // C
  CHECK(cache.begin(1) == 10);
  read(1, 10, 490);
  read(0, 10, 327);
  cache.admit(2, 701, text(336, 641, 2));  // A waits for rows
  CHECK(cache.reserved() == (6 + 9 + 11 - 5) * model::kCacheBlock);
  cache.end(0, text(337, 337, 0));
  cache.admit(3, 25 * model::kCacheBlock, text(0, 700, 3));  // D
  CHECK(cache.reserved() == kPositions);
  CHECK(cache.available(2) == cache.begin(2));
  CHECK(cache.reserved() <= kPositions);
  read(2, static_cast<std::int32_t>(cache.available(2)), 1);
  read(3, 0, 25 * model::kCacheBlock);
}

TEST_CASE("planner/shared prefixes: pieces are read from a workload, or refused by name") {
  const auto line = [](const std::string& rest) {
    return R"({"id": "a", "arrival_s": 0, "new_tokens": 4, )" + rest + "}";
  };
  const auto requests =
      planner::parse_requests(line(R"("prompt_tokens": 9, "prefix": [{"group": "s", "tokens": 3},)"
                                   R"( {"group": "c", "tokens": 10}])"),
                              "w.jsonl");
  CHECK(requests[0].prefix == std::vector<planner::PrefixPiece>{{"s", 3}, {"c", 10}});
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"("prompt_tokens": 9, "prefix": [])", "at least one"},
      {R"("prompt_tokens": 9, "prefix": [{"group": "", "tokens": 3}])", "expected a name"},
      {R"("prompt_tokens": 9, "prefix": [{"group": "s", "tokens": 0}])", "tokens"},
      {R"("prompt_tokens": 9, "prefix": [{"group": "s", "tokens": 9}, {"group": "c", "tokens": 5}])",
       "expected at most 13 with those before"},
      {R"("prompt_tokens": 9, "prefix": [{"group": "s", "tokens": 3}, {"group": "s", "tokens": 5}])",
       "expected a group that no piece before has"},
      {R"("prompt_ids": [1, 2], "prefix": [{"group": "s", "tokens": 1}])", "beside a prompt"}};
  for (const auto& [text, part] : cases) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)planner::parse_requests(line(text), "w.jsonl"),
                         doctest::Contains(part.c_str()), Error);
  }
}

}  // namespace
}  // namespace tandem::test::shared_prefixes_test
