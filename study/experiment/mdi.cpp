#include "study/experiment/mdi.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/graph/memory.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

using model::TaskIndex;
using model::TaskKind;

std::int64_t number(const std::string& text, std::string_view column) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && value > 0) return value;
  throw Error("scenarios/experiments/mdi_rates.csv: '" + text + "' in column " +
              std::string(column) +
              ", expected a positive number; restore the file from the sources");
}

// Returns the profile of `device` for blocks of one model: products take the GPU's time or, if that
// is longer, block_s for all of a block's together, in proportion to their bytes.
model::DeviceProfile profile_of(model::Device device, const MdiBoard& board, const MdiRun& run,
                                const model::Transformer& transformer) {
  device.flop_rate = model::FlopsPerSecond{board.flop_rate};
  model::DeviceProfile profile = nominal_profile(device);
  const model::Range heads{0, static_cast<std::int32_t>(transformer.heads)};
  const model::Range columns{0, static_cast<std::int32_t>(transformer.intermediate)};
  const auto bytes = static_cast<double>(transformer.attention_bytes(0, heads) +
                                         transformer.ffn_bytes(0, columns));
  const double launch = run.caches ? board.cached_block_s : board.block_s;
  const double rate = launch > 0.0 ? bytes / launch : device.memory_bandwidth.value();
  device.memory_bandwidth = model::BytesPerSecond{std::min(device.memory_bandwidth.value(), rate)};
  const model::DeviceProfile launched = nominal_profile(device);
  for (const TaskKind kind :
       {TaskKind::project_qkv, TaskKind::project_out, TaskKind::ffn_up, TaskKind::ffn_down}) {
    const auto k = static_cast<std::size_t>(kind);
    profile.rate[k] = launched.rate[k];
    for (std::size_t f = 0; f < profile.formats.size(); ++f)
      profile.formats[f].rate[k] = launched.formats[f].rate[k];
  }
  // Over a whole context attention is a matrix product: 2 flops an element of 4 bytes.
  if (!run.caches) {
    profile.rate[static_cast<std::size_t>(TaskKind::attend)].points = {
        {1.0, 0.5 / board.flop_rate}};
  }
  for (const TaskKind end : {TaskKind::capture, TaskKind::deliver})
    profile.rate[static_cast<std::size_t>(end)].overhead_s = board.message_s / 2.0;
  // A queue of messages to send came with the second version: before, the computing thread sends
  // (3.4.1). Its capture reads and writes each byte.
  if (run.sends_in_loop) {
    profile.rate[static_cast<std::size_t>(TaskKind::capture)].points = {
        {1.0, board.message_s_per_byte / 2.0}};
  } else {
    profile.rate[static_cast<std::size_t>(TaskKind::transfer)].points = {
        {1.0, board.message_s_per_byte}};
  }
  return profile;
}

// Returns the step of a whole context without caches: `graph` with the head computed for all rows.
// With `head_on_last` the final norm and the head are on the device of the last message, which
// brings logits of all rows instead of the residual stream.
model::TaskGraph whole_context(const model::TaskGraph& graph, model::DeviceIndex master,
                               std::int32_t vocab, bool head_on_last) {
  const std::vector<model::Task>& tasks = graph.tasks();
  TaskIndex message = -1;  // that comes back to the master
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    if (tasks[static_cast<std::size_t>(i)].peer == master) message = i;
  }
  const bool moves = head_on_last && message >= 0;
  model::TaskGraph made(graph.batch());
  std::vector<TaskIndex> place;  // of the graph's tasks in the new one
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    model::Task task = tasks[static_cast<std::size_t>(i)];
    const bool samples = task.kind == TaskKind::sample;
    std::vector<TaskIndex> after;
    for (const TaskIndex d : graph.dependencies(i))
      after.push_back(place[static_cast<std::size_t>(d)]);
    if (moves && i == message) {  // the norm goes on from what it would have carried
      place.push_back(after.back());
      continue;
    }
    if (moves && task.block == model::WeightBlock::head && !samples) {
      task.rows = {0, graph.batch().rows()};
      task.device = tasks[static_cast<std::size_t>(message)].device;
    }
    if (moves && samples) {
      model::Task logits = tasks[static_cast<std::size_t>(message)];
      logits.columns = {0, vocab};
      after = {made.add(logits, after)};
    }
    if (moves ? samples : i == graph.epilogue()) made.begin_epilogue();
    place.push_back(made.add(task, after));
  }
  return made;
}

class Graphs : public model::GraphSource {
 public:
  Graphs(const planner::Plan& plan, const MdiRun& run) : plan_(&plan), run_(&run), cache_(plan) {}
  const model::TaskGraph& graph_of(const model::Batch& batch) override {
    const model::TaskGraph& graph = cache_.graph_of(batch);
    if (run_->caches) return graph;
    std::optional<model::TaskGraph>& made = whole_[batch.rows()];
    if (!made) {
      made = whole_context(graph, plan_->master, static_cast<std::int32_t>(plan_->model.vocab),
                           run_->head_on_last);
    }
    made->advance(batch);
    return *made;
  }

 private:
  const planner::Plan* plan_;
  const MdiRun* run_;
  planner::GraphCache cache_;
  std::map<std::int32_t, std::optional<model::TaskGraph>> whole_;  // by rows
};

}  // namespace

MdiRun mdi_run(const model::Csv& table, std::size_t i) {
  MdiRun run{.model = table.at(i, "model")};
  const std::string& text = table.at(i, "blocks_per_node");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    run.blocks.push_back(number(text.substr(begin, end - begin), "blocks_per_node"));
    begin = end + 1;
  }
  run.samples = number(table.at(i, "samples"), "samples");
  run.tokens = number(table.at(i, "tokens_per_sample"), "tokens_per_sample");
  run.caches = table.at(i, "kv_cache") == "yes";
  const auto format = model::find_weight_format(table.at(i, "dtype"));
  if (!format || (!run.caches && table.at(i, "kv_cache") != "no"))
    throw Error("scenarios/experiments/mdi_rates.csv: row " + std::to_string(i + 1) +
                ": expected a format and yes or no; restore the file from the sources");
  run.format = *format;
  run.head_on_last = run.sends_in_loop = run.model.starts_with("nanogpt");
  return run;
}

std::int64_t mdi_prompt(const MdiRun& run) {
  constexpr std::int64_t kWords = 8;
  return run.head_on_last ? 1 : kWords;
}

MdiRounds::MdiRounds(const MdiRun& run, std::int64_t prompt, std::int64_t max_context)
    : run_(run),
      prompt_(prompt),
      max_context_(max_context),
      counted_(run.counted > 0 ? run.counted : run.samples * run.tokens),
      made_(static_cast<std::size_t>(run.samples), 0) {
  require(run.samples > 0 && run.tokens > 0 && counted_ <= run.samples * run.tokens,
          "MdiRounds: no more counted than made");
  for (std::int32_t s = 0; s < run.samples; ++s) ready_.push_back(s);
}

model::Decision MdiRounds::next(double now, std::span<const model::StepOutcome> ended) {
  for (const model::StepOutcome& outcome : ended) {
    const std::int32_t sample = of_.at(static_cast<std::size_t>(outcome.step));
    if (ended_++ < counted_) times_s_.push_back(now);
    if (++made_[static_cast<std::size_t>(sample)] < run_.tokens) ready_.push_back(sample);
  }
  if (ended_ >= counted_ || ready_.empty()) return {};
  const std::int32_t sample = ready_.front();
  ready_.erase(ready_.begin());
  of_.push_back(sample);
  const std::int64_t made = made_[static_cast<std::size_t>(sample)];
  const std::int64_t context = prompt_ + made;
  model::Segment segment{.sequence = sample};
  if (!run_.caches) {
    segment.rows = static_cast<std::int32_t>(std::min(context, max_context_));
  } else if (made == 0) {
    segment.rows = static_cast<std::int32_t>(prompt_);
  } else {
    segment.past = static_cast<std::int32_t>(context - 1);
  }
  return {.step = model::ScheduledStep{.not_before_s = now,
                                       .batch = {{segment}, {}},
                                       .ended = static_cast<std::int32_t>(ended_)}};
}

planner::Plan mdi_plan(const model::Cluster& boards, const MdiBoard& board,
                       const model::Transformer& transformer, const MdiRun& run) {
  planner::Request request{
      .model = transformer,
      .cluster = with_devices(first_devices(boards, run.blocks.size()),
                              [](model::Device& d) { d.memory = model::Bytes{kAnyMemory}; }),
      .strategy = run.blocks.size() == 1 ? "local" : "pipeline",
      .workload = {.prompt_tokens = mdi_prompt(run), .new_tokens = 1}};
  request.model.formats = model::WeightFormats(run.format);
  if (run.blocks.size() > 1) {
    request.partition.clear();
    for (const std::int64_t blocks : run.blocks)
      request.partition += (request.partition.empty() ? "" : ":") + std::to_string(blocks);
    request.capacity = request.workload.capacity();
    request.capacity.sequences = request.capacity.steps = run.samples;
  }
  for (const model::Device& device : request.cluster.devices())
    request.profiles.push_back(profile_of(device, board, run, request.model));
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  auto& plan = std::get<planner::Plan>(answer);
  for (std::size_t d = 0; d < run.blocks.size(); ++d)
    require(plan.devices[d].share.layers.size() == run.blocks[d], "mdi_plan: the thesis's blocks");
  return std::move(plan);
}

std::unique_ptr<model::GraphSource> mdi_graphs(const planner::Plan& plan, const MdiRun& run) {
  return std::make_unique<Graphs>(plan, run);
}

std::int64_t mdi_counted(const MdiRun& run) {
  constexpr std::int64_t kNanoGpt = 2000;
  constexpr std::int64_t kGpt2 = 800;
  if (run.caches || run.blocks.size() < 3) return 0;
  return run.head_on_last ? kNanoGpt : kGpt2;
}

std::vector<double> mdi_token_times(const model::Cluster& boards, const MdiBoard& board,
                                    const model::Transformer& transformer, const MdiRun& run) {
  const planner::Plan plan = mdi_plan(boards, board, transformer, run);
  const bool alone = run.blocks.size() == 1;
  MdiRun together = run;
  if (alone) {
    together.samples = 1;
    together.counted = 0;
  }
  MdiRounds rounds(together, mdi_prompt(run), transformer.max_context);
  const std::unique_ptr<model::GraphSource> graphs = mdi_graphs(plan, run);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  evaluate_scheduled(plan.cluster, plan.cost_model(), rounds, *graphs, recorder);
  std::vector<double> times = rounds.times_s();
  const std::vector<double> one = times;
  for (std::int64_t sample = 1; alone && sample < run.samples; ++sample) {
    const double begin = times.back();
    for (const double time : one) times.push_back(begin + time);
  }
  return times;
}

double mdi_rate(const model::Cluster& boards, const MdiBoard& board,
                const model::Transformer& transformer, const MdiRun& run) {
  const std::vector<double> times = mdi_token_times(boards, board, transformer, run);
  return static_cast<double>(times.size()) / times.back();
}

std::size_t mdi_row(const model::Csv& table, std::string_view model, std::string_view nodes) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "model") == model && table.at(i, "nodes") == nodes) return i;
  }
  throw Error("scenarios/experiments: no row of " + std::string(model) + " on " +
              std::string(nodes) + " nodes; restore the files from the sources");
}

MdiTestbed calibrated_mdi(const Scenarios& scenarios) {
  MdiTestbed testbed{.boards = scenarios.platform("jetson-tx2x3"),
                     .rates = scenarios.paper("mdi_rates")};
  testbed.board.flop_rate = testbed.boards.devices().front().flop_rate.value();
  const auto fit = [&](double MdiBoard::*constant, std::string_view model, std::string_view nodes,
                       double low, double high) {
    const std::size_t i = mdi_row(testbed.rates, model, nodes);
    if (std::ranges::count(testbed.calibrated, i) == 0) testbed.calibrated.push_back(i);
    const MdiRun run = mdi_run(testbed.rates, i);
    const model::Transformer transformer = scenarios.model(run.model);
    testbed.board.*constant = solve(
        [&](double tried) {
          MdiBoard board = testbed.board;
          board.*constant = tried;
          return mdi_rate(testbed.boards, board, transformer, run);
        },
        paper_reading(testbed.rates, i, "tokens_per_s").value, low, high);
  };
  fit(&MdiBoard::block_s, "nanogpt-12", "1", 1e-4, 1e-1);
  fit(&MdiBoard::flop_rate, "gpt2-large", "1", 1e10, 2e12);
  fit(&MdiBoard::cached_block_s, "nanollama-304m", "1", 1e-4, 1e-1);
  for (int round = 0; round < 3; ++round) {  // each of the two changes little of the other's row
    fit(&MdiBoard::message_s_per_byte, "gpt2-medium", "2", 1e-10, 1e-6);
    fit(&MdiBoard::message_s, "nanogpt-12", "2", 1e-5, 1e-1);
  }
  return testbed;
}

}  // namespace tandem::study
