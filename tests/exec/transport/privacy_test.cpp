// What a worker can read of the user's text: the attack that SECURITY.md describes, with public
// weights and the messages that one worker receives.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/kernels/wire_row.hpp"
#include "exec/runtime/device_run.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/model_folder.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::privacy_test {
namespace {

using model::BufferKind;
using model::DeviceIndex;
using model::Task;
using model::TaskIndex;
using Ids = std::vector<std::int32_t>;
using Floats = std::vector<float>;

constexpr int kTokens = 3;
constexpr std::string_view kText = "Hugo works as a baker. Ida is a baker.";

struct Message {
  DeviceIndex to = 0;
  MessageTag tag;
  std::vector<std::byte> payload;
  bool operator==(const Message&) const = default;
};

// The model that comes with tandem: its weights are public.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = testing::in_sources("scenarios/models/tandem-tiny");
  return path;
}

const model::Transformer& geometry() {
  static const model::Transformer transformer = read_geometry(folder());
  return transformer;
}

Ids prompt() { return load_tokenizer(folder(), geometry())->encode(kText); }

struct Case {
  std::string name;  // its row in SECURITY.md
  std::string strategy;
  int devices = 3;
  std::string groups{};
  planner::DecodeMoves moves = planner::DecodeMoves::queries;
  bool gather = false;
  model::WireFormat wire = model::WireFormat::f32;
  planner::HeadPlacement head = planner::HeadPlacement::master;
  std::optional<planner::SparseRequest> sparse{};
};

planner::Plan planned(const Case& given) {
  const planner::Request request{
      .model = geometry(),
      .cluster = testing::star_of(given.devices),
      .strategy = given.strategy,
      .partition = given.strategy == "local" || given.strategy == "sp" ? "auto" : "equal",
      .decode_moves = given.moves,
      .gather_weights = given.gather,
      .workload = {static_cast<std::int64_t>(prompt().size()), kTokens},
      .groups = given.groups,
      .wire = given.wire,
      .head = given.head,
      .sparse = given.sparse};
  auto plan = planner::make_plan(request);
  if (const auto* none = std::get_if<planner::Infeasible>(&plan)) throw Error(none->reason);
  return std::get<planner::Plan>(std::move(plan));
}

// Every message of a run in which `chosen` are sampled, or the likeliest tokens where it is empty,
// which are then stored there. Sorted, as channels run beside each other.
std::vector<Message> messages_of(const planner::Plan& plan, const Ids& ids, Ids& chosen) {
  testing::MemoryNetwork network({});
  std::vector<Message> seen;
  network.tap = [&](DeviceIndex, DeviceIndex to, MessageTag tag, std::span<const std::byte> bytes) {
    seen.push_back({to, tag, {bytes.begin(), bytes.end()}});
  };
  const Ids forced = chosen;
  Ids sampled;
  const auto errors = testing::on_each_device(
      plan.devices.size(),
      [&](DeviceIndex self) {
        testing::MemoryTransport transport(network, self);
        const model::Share& share = plan.devices[static_cast<std::size_t>(self)].share;
        DeviceRun device(plan, {.self = self, .run = {.workload = plan.workload}},
                         {Shard::slice(folder(), plan.model, share), nullptr}, &transport);
        Sampler greedy({});
        Ids next = ids;
        for (std::int32_t i = 0; i < plan.workload.steps(); ++i) {
          const bool master = self == plan.master;
          next = {device.step(i, master ? next : Ids{}, [&](const Scores& scores) {
            sampled.push_back(forced.empty() ? greedy.sample(scores)
                                             : forced[static_cast<std::size_t>(i)]);
            return sampled.back();
          })};
        }
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  chosen = sampled;
  std::ranges::sort(seen, {},
                    [](const Message& m) { return std::tuple(m.tag.step, m.tag.task, m.to); });
  return seen;
}

std::vector<Message> received_by(DeviceIndex device, std::vector<Message> all) {
  std::erase_if(all, [&](const Message& message) { return message.to != device; });
  return all;
}

// Whether a transfer's payload has one equal piece for each of its rows of the batch.
bool carries_rows(const Task& transfer) {
  return transfer.lane == model::LaneKind::channel && !model::moves_weights(transfer) &&
         !model::moves_cache(transfer) && transfer.selection == 0 &&
         transfer.output.kind != BufferKind::softmax;
}

// The part of a payload that is row `row` of the batch.
Floats row_of(const Task& transfer, std::span<const std::byte> payload, std::int32_t row) {
  const auto rows = static_cast<std::size_t>(model::sent_rows(transfer));
  const std::size_t bytes = payload.size() / rows;
  const auto columns = static_cast<std::size_t>(transfer.columns.size());
  Floats values(columns);
  decode_row(transfer.wire,
             payload.subspan(static_cast<std::size_t>(row - transfer.rows.begin) * bytes, bytes),
             values);
  return values;
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

// The first that a worker gets of a row of a step.
struct Clue {
  TaskIndex task = -1;
  BufferKind kind = BufferKind::none;
  Floats values;
};

std::vector<std::optional<Clue>> clues_of(const model::TaskGraph& graph, std::int32_t step,
                                          const std::vector<Message>& received) {
  std::vector<std::optional<Clue>> clues(static_cast<std::size_t>(graph.batch().rows()));
  for (const Message& message : received) {
    if (message.tag.step != step) continue;
    const Task& task = graph.tasks()[static_cast<std::size_t>(message.tag.task)];
    if (!carries_rows(task)) continue;
    for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
      std::optional<Clue>& clue = clues[static_cast<std::size_t>(row)];
      if (!clue) clue = {message.tag.task, task.output.kind, row_of(task, message.payload, row)};
    }
  }
  return clues;
}

// The public program with public weights: shows the attacker what a guess would have sent.
class Replay {
 public:
  explicit Replay(const planner::Plan& plan) : serial_(plan, folder()) {}

  struct Over {};
  // Executes `ids` from position `past` on, up to task `last` of their step, and calls
  // look(index, task, payload) after every transfer. `look` may throw Over to end the step.
  template <class Look>
  void step(const Ids& ids, std::int32_t past, TaskIndex last, const Look& look) {
    TaskIndex index = -1;
    serial_.after = [&](const Task& task) {
      ++index;
      if (task.lane == model::LaneKind::channel) look(index, task, serial_.payload());
      if (index == last) throw Over{};
    };
    serial_.rewind(past);
    try {
      static_cast<void>(serial_.step(ids));
    } catch (const Over&) {
    }
    serial_.after = {};
  }
  // Makes the sequence that of `ids`, then `tokens` one by one.
  void remember(const Ids& ids, const Ids& tokens) {
    serial_.rewind(0);
    static_cast<void>(serial_.step(ids));
    for (const std::int32_t token : tokens) static_cast<void>(serial_.step(Ids{token}));
  }
  // The residual stream of each token of the vocabulary before the first layer.
  std::vector<Floats> embedding(DeviceIndex master) {
    std::vector<Floats> rows;
    for (std::int32_t token = 0; token < geometry().vocab; ++token) {
      serial_.after = [&](const Task& task) {
        if (task.kind != model::TaskKind::embed) return;
        rows.push_back(serial_.read(master, task.output, {0, 1},
                                    {0, static_cast<std::int32_t>(geometry().hidden)}));
        throw Over{};
      };
      serial_.rewind(0);
      try {
        static_cast<void>(serial_.step(Ids{token}));
      } catch (const Over&) {
      }
    }
    serial_.after = {};
    return rows;
  }
  Ids greedy(const Ids& ids, int count) {
    std::vector<Floats> logits;
    serial_.rewind(0);
    return serial_.generate(ids, count, logits);
  }

 private:
  testing::SerialExecutor serial_;
};

// Whether two clues are the same but for rounding of other orders of additions.
bool same(double distance, const Floats& clue) {
  return distance <= 1e-6 * std::inner_product(clue.begin(), clue.end(), clue.begin(), 0.0);
}

// Tokens of rows whose clues depend on token and position alone: those that would have given the
// same clue there. -1: no clue. Nothing if some clue is not that of any token, so depends on more.
std::optional<Ids> by_own_token(Replay& replay, const std::vector<std::optional<Clue>>& clues,
                                std::int32_t past) {
  const std::size_t rows = clues.size();
  Ids best(rows, -1);
  std::vector<double> least(rows, std::numeric_limits<double>::infinity());
  TaskIndex last = -1;
  for (const auto& clue : clues) last = clue ? std::max(last, clue->task) : last;
  if (last < 0) return best;
  for (std::int32_t token = 0; token < geometry().vocab; ++token) {
    const auto look = [&](TaskIndex index, const Task& task, std::span<const std::byte> payload) {
      for (std::size_t row = 0; row < rows; ++row) {
        if (!clues[row] || clues[row]->task != index) continue;
        const double d =
            distance(clues[row]->values, row_of(task, payload, static_cast<std::int32_t>(row)));
        if (d < least[row]) {
          least[row] = d;
          best[row] = token;
        }
      }
    };
    replay.step(Ids(rows, token), past, last, look);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    if (clues[row] && !same(least[row], clues[row]->values)) return std::nullopt;
  }
  return best;
}

// Tokens of rows whose clues depend on all tokens before, one after another: those whose embedding
// is nearest are tried first, until one gives the clue.
Ids by_prefix(Replay& replay, const std::vector<Floats>& embedding, DeviceIndex worker,
              const std::vector<std::optional<Clue>>& clues, std::int32_t past) {
  Ids found;
  for (const auto& clue : clues) {
    if (!clue) return found;
    std::vector<std::int32_t> order(embedding.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> far;
    far.reserve(embedding.size());
    for (const Floats& row : embedding) far.push_back(distance(row, clue->values));
    std::ranges::sort(order, {},
                      [&](std::int32_t token) { return far[static_cast<std::size_t>(token)]; });
    const auto fits = [&](std::int32_t token) {
      double d = std::numeric_limits<double>::infinity();
      replay.step(Ids{token}, past + static_cast<std::int32_t>(found.size()),
                  std::numeric_limits<TaskIndex>::max(),
                  [&](TaskIndex, const Task& task, std::span<const std::byte> payload) {
                    if (task.peer != worker || !carries_rows(task)) return;
                    d = distance(clue->values, row_of(task, payload, 0));
                    throw Replay::Over{};
                  });
      return same(d, clue->values);
    };
    const auto token = std::ranges::find_if(order, fits);
    if (token == order.end()) return found;
    found.push_back(*token);
  }
  return found;
}

// What a row's first clue is, in SECURITY.md's words, where the token is found from it alone.
std::string describe(const Clue& clue, const Floats& embedded) {
  if (clue.kind == BufferKind::normed) return "normed embedding rows";
  if (clue.kind == BufferKind::query) return "queries of layer 0";
  if (clue.kind == BufferKind::key_value || clue.kind == BufferKind::gathered)
    return "keys and values of layer 0";
  if (clue.kind != BufferKind::hidden) return std::string(to_string(clue.kind));
  return clue.values == embedded ? "embedding rows" : "rounded embedding rows";
}

// A worker's gain from one run. Rows of the prompt without a clue count as not found.
struct Gain {
  std::set<std::string> clues;  // of the prompt
  std::vector<bool> prompt;     // found, by row
  int new_tokens = 0;           // found, the first ones
};

Gain attacked(Replay& replay, const std::vector<Floats>& embedding, const planner::Plan& plan,
              DeviceIndex worker, const std::vector<Message>& received, const Ids& ids,
              const Ids& tokens) {
  StepGraphs graphs(plan, plan.workload);
  Gain gain;
  for (std::int32_t step = 0; step < kTokens; ++step) {
    const auto clues = clues_of(graphs.at(step), step, received);
    Ids wanted = ids;
    std::int32_t past = 0;
    if (step > 0) {
      replay.remember(ids, Ids(tokens.begin(), tokens.begin() + step - 1));
      past = static_cast<std::int32_t>(ids.size()) + step - 1;
      wanted = {tokens[static_cast<std::size_t>(step - 1)]};
    }
    const std::optional<Ids> own = by_own_token(replay, clues, past);
    Ids found = own.value_or(Ids{});
    if (!own) {
      if (step > 0) replay.remember(ids, Ids(tokens.begin(), tokens.begin() + step - 1));
      found = by_prefix(replay, embedding, worker, clues, past);
      found.resize(wanted.size(), -1);
    }
    if (step > 0) {
      if (found == wanted && gain.new_tokens == step - 1) gain.new_tokens = step;
      continue;
    }
    for (std::size_t row = 0; row < clues.size(); ++row) {
      gain.prompt.push_back(found[row] == wanted[row]);
      if (!clues[row]) continue;
      gain.clues.insert(own ? describe(*clues[row], embedding[static_cast<std::size_t>(ids[row])])
                            : "hidden states of a later layer");
    }
  }
  return gain;
}

bool contains(const std::vector<Message>& messages, std::span<const std::byte> bytes) {
  return std::ranges::any_of(messages, [&](const Message& message) {
    const std::vector<std::byte>& sent = message.payload;
    return std::search(sent.begin(), sent.end(), bytes.begin(), bytes.end()) != sent.end();
  });
}

// The row of SECURITY.md's table: strategy, clues, tokens of the prompt, new tokens.
std::string observed(const Case& given, const planner::Plan& plan, const std::vector<Gain>& gains,
                     const std::vector<DeviceIndex>& workers) {
  std::set<std::string> clues;
  bool all = true;
  bool from_part = true;
  int new_tokens = gains.empty() ? 0 : gains.front().new_tokens;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    clues.insert(gains[i].clues.begin(), gains[i].clues.end());
    const auto begin = static_cast<std::size_t>(
        plan.devices[static_cast<std::size_t>(workers[i])].share.part.positions.begin);
    for (std::size_t row = 0; row < gains[i].prompt.size(); ++row) {
      all = all && gains[i].prompt[row];
      from_part = from_part && gains[i].prompt[row] == (row >= begin);
    }
    CHECK(gains[i].new_tokens == new_tokens);
  }
  std::string list;
  for (const std::string& clue : clues) list += (list.empty() ? "" : ", ") + clue;
  const std::string prompt = gains.empty() ? "none"
                             : all         ? "all"
                             : from_part   ? "from its own part on"
                                           : "some";
  const std::string then = new_tokens == 0             ? "none"
                           : new_tokens == kTokens - 1 ? "all but the last"
                                                       : "some";
  return "| `" + given.name + "` | " + (list.empty() ? "nothing" : list) + " | " + prompt + " | " +
         then + " |";
}

TEST_CASE("exec/privacy: workers recover what SECURITY.md says, strategy by strategy" *
          doctest::test_suite("long")) {
  using Moves = planner::DecodeMoves;
  const Case cases[] = {
      {.name = "local", .strategy = "local", .devices = 1},
      {.name = "tensor", .strategy = "tensor"},
      {.name = "tensor --head split", .strategy = "tensor", .head = planner::HeadPlacement::split},
      {.name = "tensor --wire-type q8_0", .strategy = "tensor", .wire = model::WireFormat::q8_0},
      {.name = "pipeline", .strategy = "pipeline"},
      {.name = "pipeline --groups",
       .strategy = "pipeline",
       .devices = 4,
       .groups = "device-0,device-1/device-2,device-3"},
      {.name = "galaxy", .strategy = "galaxy"},
      {.name = "sp", .strategy = "sp"},
      {.name = "csps", .strategy = "csps"},
      {.name = "csps --gather-weights", .strategy = "csps", .gather = true},
      {.name = "csps --levels 2 --drop 0.5",
       .strategy = "csps",
       .sparse = planner::SparseRequest{.levels = 2, .drop = 0.5}},
      {.name = "spread", .strategy = "spread"},
      {.name = "spread --decode-moves kv", .strategy = "spread", .moves = Moves::keys_each_step},
      {.name = "spread --decode-moves migrate", .strategy = "spread", .moves = Moves::keys_once},
  };
  const std::string page = testing::read_all(testing::in_sources("SECURITY.md"));
  std::size_t rows = 0;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos;
       at = page.find("\n| `", at + 1))
    ++rows;
  CHECK(rows == std::size(cases));
  const Ids ids = prompt();
  testing::Sampled taken(6);
  for (const Case& given : cases) {
    if (!taken()) continue;
    CAPTURE(given.name);
    const planner::Plan plan = planned(given);
    Ids tokens;
    const std::vector<Message> all = messages_of(plan, ids, tokens);
    REQUIRE(tokens.size() == kTokens);
    Replay replay(plan);
    const std::vector<Floats> embedding = replay.embedding(plan.master);
    std::vector<Gain> gains;
    std::vector<DeviceIndex> workers;
    for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
      if (d == plan.master) continue;
      workers.push_back(d);
      gains.push_back(attacked(replay, embedding, plan, d, received_by(d, all), ids, tokens));
    }
    const std::string row = observed(given, plan, gains, workers);
    CAPTURE(row);
    CHECK(testing::has(page, row));

    // Neither the text nor the ids of two tokens in a row are sent as they are.
    CHECK(!contains(all, std::as_bytes(std::span(kText).first(8))));
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      CHECK(!contains(all, std::as_bytes(std::span(ids).subspan(i, 2))));

    // Nothing is sent that depends on the last token.
    Ids other = tokens;
    other.back() = (other.back() + 1) % static_cast<std::int32_t>(geometry().vocab);
    CHECK(messages_of(plan, ids, other) == all);
    // What depends on earlier ones is sent where a worker recovers them, and only there.
    for (std::int32_t& token : other)
      token = (token + 7) % static_cast<std::int32_t>(geometry().vocab);
    const std::vector<Message> changed = messages_of(plan, ids, other);
    for (std::size_t i = 0; i < workers.size(); ++i)
      CHECK((received_by(workers[i], changed) == received_by(workers[i], all)) ==
            (gains[i].new_tokens == 0));
  }
}

TEST_CASE("exec/privacy: the recovered prompt gives the greedy answer, its last token included") {
  const planner::Plan plan = planned({.name = "tensor", .strategy = "tensor"});
  Ids tokens;
  static_cast<void>(messages_of(plan, prompt(), tokens));
  Replay replay(plan);
  CHECK(replay.greedy(prompt(), kTokens) == tokens);
}

TEST_CASE("exec/privacy: equal tokens are equal rows, different tokens are not") {
  const planner::Plan plan = planned({.name = "tensor", .strategy = "tensor"});
  const Ids ids = prompt();
  Ids tokens;
  const std::vector<Message> all = messages_of(plan, ids, tokens);
  StepGraphs graphs(plan, plan.workload);
  const auto clues = clues_of(graphs.at(0), 0, received_by(1, all));
  int equal = 0;
  for (std::size_t a = 0; a < ids.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      CHECK((clues[a]->values == clues[b]->values) == (ids[a] == ids[b]));
      equal += ids[a] == ids[b] ? 1 : 0;
    }
  }
  CHECK(equal > 0);
}

}  // namespace
}  // namespace tandem::exec::privacy_test
