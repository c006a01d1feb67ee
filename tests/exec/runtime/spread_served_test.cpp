// Caches of several sequences spread by position, executed task by task: each request gets the
// tokens that it gets alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/compute/sampling.hpp"
#include "exec/runtime/device_run.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/base/error.hpp"
#include "model/graph/accesses.hpp"
#include "model/graph/work.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/serving/cache_places.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_threads.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/near_ties.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::spread_served_test {
namespace {

using planner::InferenceRequest;
using testing::TemporaryFolder;

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;  // of each token
};

// All devices of a plan, which execute a schedule's graphs in the order of tasks.
class Devices {
 public:
  Devices(const planner::Plan& plan, const std::filesystem::path& weights)
      : plan_(&plan), graphs_(plan) {
    const planner::Capacity room = plan.reserved();
    const std::vector<model::DeviceStorage> storage =
        planner::storage_of(plan, planner::serving_extents(room));
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      devices_.emplace_back(plan.model, Shard::slice(weights, plan.model, plan.devices[d].share),
                            ComputeLimits{.max_rows = static_cast<std::int32_t>(room.rows),
                                          .cache_positions = room.positions,
                                          .sequences = static_cast<std::int32_t>(room.sequences),
                                          .buffers = storage[d].buffers,
                                          .threads = 1});
    }
  }

  // Returns the logits of each sampled row.
  std::vector<std::vector<float>> step(const model::Batch& batch,
                                       const std::vector<std::int32_t>& ids) {
    const model::TaskGraph& graph = graphs_.graph_of(batch);
    for (std::size_t d = 0; d < devices_.size(); ++d)
      devices_[d].begin(batch, model::cached_rows(graph, static_cast<model::DeviceIndex>(d)));
    device(plan_->master).set_tokens(ids);
    std::vector<std::vector<float>> sampled;
    std::vector<std::byte> payload;
    for (const model::Task& task : graph.tasks()) {
      if (task.kind == model::TaskKind::sample) {
        for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
          const auto logits = device(task.device).logits(graph.batch(), row);
          sampled.emplace_back(logits.begin(), logits.end());
        }
      } else if (task.lane == model::LaneKind::channel) {
        payload.resize(static_cast<std::size_t>(model::payload_bytes(task)));
        device(task.device).capture(graph.batch(), task, payload);
        device(task.peer).deliver(graph.batch(), task, payload);
      } else if (task.lane == model::LaneKind::cpu) {
        device(task.device).execute(graph.batch(), task);
      }
    }
    return sampled;
  }

 private:
  Compute& device(model::DeviceIndex d) { return devices_[static_cast<std::size_t>(d)]; }

  const planner::Plan* plan_;
  planner::GraphCache graphs_;
  std::vector<Compute> devices_;
};

struct Step {
  model::Batch batch;
  std::vector<std::int32_t> ids;     // of its rows
  std::vector<std::int32_t> tokens;  // sampled
};

// The same steps by runtimes, a device a thread: tokens as before, bytes and memory as predicted.
void check_runtimes(const planner::Plan& plan, const std::vector<Step>& steps,
                    const std::filesystem::path& weights) {
  testing::MemoryNetwork network({.max_delay = std::chrono::microseconds(50), .seed = 9});
  const planner::Capacity capacity = plan.reserved();
  const RunOptions run{.workload = {.prompt_tokens = capacity.rows, .new_tokens = 1},
                       .capacity = capacity,
                       .most_steps = std::ssize(steps)};
  std::vector<DeviceReport> reports(plan.devices.size());
  const auto errors = testing::on_each_device(
      plan.devices.size(),
      [&](model::DeviceIndex self) {
        const auto d = static_cast<std::size_t>(self);
        testing::MemoryTransport transport(network, self);
        DeviceRun device(plan, {.self = self, .run = run},
                         {Shard::slice(weights, plan.model, plan.devices[d].share), nullptr},
                         &transport);
        Sampler greedy({});
        std::vector<std::int32_t> tokens;
        const auto sample = [&](const Scores& scores) {
          tokens.push_back(greedy.sample(scores));
          return tokens.back();
        };
        for (std::size_t i = 0; i < steps.size(); ++i) {
          tokens.clear();
          const bool embeds = self == plan.master;
          static_cast<void>(device.serve(static_cast<std::int32_t>(i), steps[i].batch,
                                         embeds ? steps[i].ids : std::vector<std::int32_t>{},
                                         sample));
          if (embeds && tokens != steps[i].tokens)
            throw Error("step " + std::to_string(i) + " has other tokens");
        }
        reports[d] = device.report();
      },
      &network);
  for (const std::string& error : errors) CHECK(error == "");
  std::vector<double> sent(plan.devices.size());
  planner::GraphCache graphs(plan);
  for (const Step& step : steps) {
    const model::TaskGraph& graph = graphs.graph_of(step.batch);
    for (const model::Task& task : graph.tasks()) {
      if (task.kind == model::TaskKind::transfer)
        sent[static_cast<std::size_t>(task.device)] +=
            model::work_of(plan.model, graph.batch(), task).bytes_wire;
    }
  }
  for (std::size_t d = 0; d < sent.size(); ++d) {
    CAPTURE(d);
    CHECK(reports[d].bytes_sent == sent[d]);
    CHECK(reports[d].peak_memory.kv_cache == plan.devices[d].memory.kv_cache);
    CHECK(reports[d].peak_memory.activations == plan.devices[d].memory.activations);
    CHECK(reports[d].peak_memory.buffers <= plan.devices[d].memory.buffers);
  }
}

// Serves `requests` step by step. `mixed` counts steps with rows of partitioned and of whole
// sequences.
std::vector<Answer> served(const planner::Plan& plan, const std::vector<InferenceRequest>& requests,
                           const planner::Policy& policy, std::int64_t chunk,
                           const std::filesystem::path& weights, int& mixed,
                           std::vector<Step>& steps) {
  planner::RequestScheduler scheduler(requests, policy,
                                      {.chunk = chunk,
                                       .capacity = planner::serving_capacity(plan, 0),
                                       .places = planner::CachePlaces(plan)});
  Devices devices(plan, weights);
  Sampler greedy({});
  std::vector<Answer> answers(requests.size());
  std::vector<model::StepOutcome> ended;
  double now = 0.0;
  for (std::int32_t number = 0; scheduler.has_requests(); ++number, now += 1.0) {
    const model::Decision decision = scheduler.next(now, ended);
    if (!decision.step) break;
    const model::Batch& batch = decision.step->batch;
    steps.push_back({.batch = batch, .ids = scheduler.row_tokens(), .tokens = {}});
    const auto logits = devices.step(batch, steps.back().ids);
    std::vector<std::int32_t> tokens;
    for (const model::Segment& segment : batch.segments) {
      if (segment.sampled == 0) continue;
      const std::vector<float>& own = logits.at(tokens.size());
      tokens.push_back(greedy.sample(own));
      Answer& answer = answers[static_cast<std::size_t>(segment.sequence)];
      answer.tokens.push_back(tokens.back());
      answer.logits.push_back(own);
    }
    const auto partitioned = std::ranges::count_if(
        batch.places, [](const model::Place& place) { return place.partitioned > 0; });
    mixed += partitioned > 0 && partitioned < std::ssize(batch.places) ? 1 : 0;
    steps.back().tokens = tokens;
    ended = {{.step = number, .tokens = tokens}};
  }
  return answers;
}

TEST_CASE("exec/spread: several requests get the tokens of each alone, whole and in chunks") {
  testing::Sampled taken(2);
  std::mt19937 random(23);
  model::Transformer windowed = testing::small_llama();
  windowed.family = model::Family::gemma2;
  windowed.activation = model::Activation::gelu_tanh;
  windowed.tied_embeddings = true;
  windowed.embedding_scale = std::sqrt(static_cast<double>(windowed.hidden));
  windowed.score_cap = 50.0;
  windowed.logit_cap = 3.0;
  windowed.window = 100;
  windowed.windowed = {true, false, true};
  int mixed = 0;
  for (model::Transformer geometry : {testing::eight_heads(), windowed}) {
    geometry.max_context = 1024;
    const TemporaryFolder folder;
    write_random_weights(geometry, 17, model::DType::f32, folder.path());
    std::vector<InferenceRequest> requests;
    for (const auto& [prompt, tokens] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {390, 7}, {12, 9}, {70, 4}, {5, 12}, {330, 5}, {30, 6}}) {
      InferenceRequest one{.id = "r" + std::to_string(requests.size()),
                           .prompt_tokens = prompt,
                           .new_tokens = tokens};
      for (std::int64_t t = 0; t < prompt; ++t)
        one.prompt_ids.push_back(std::uniform_int_distribution<std::int32_t>(0, 100)(random));
      requests.push_back(std::move(one));
    }
    std::vector<Answer> alone;
    for (const InferenceRequest& request : requests) {
      const planner::Plan local = testing::plan_for(geometry, "local", 1, "equal",
                                                    request.prompt_tokens, request.new_tokens);
      Answer& answer = alone.emplace_back();
      answer.tokens =
          testing::SerialExecutor(local, folder.path())
              .generate(request.prompt_ids, static_cast<int>(request.new_tokens), answer.logits);
    }
    for (const char* const partition : {"1:1:1", "1:3:2", "2:1", "1"}) {
      const auto devices = 1 + static_cast<int>(std::ranges::count(std::string(partition), ':'));
      planner::Request request{.model = geometry,
                               .cluster = testing::star_of(devices),
                               .strategy = "spread",
                               .partition = partition,
                               .workload = {}};
      for (const planner::Policy& policy : planner::policies()) {
        for (const std::int64_t chunk : {0, 50, 128}) {
          if (!planner::serves(policy, chunk) || !taken()) continue;
          CAPTURE(std::string(partition));
          CAPTURE(policy.name);
          CAPTURE(chunk);
          const auto plan = planner::make_serving_plan(request, requests, policy, chunk);
          REQUIRE(std::holds_alternative<planner::Plan>(plan));
          std::vector<Step> steps;
          const std::vector<Answer> got = served(std::get<planner::Plan>(plan), requests, policy,
                                                 chunk, folder.path(), mixed, steps);
          check_runtimes(std::get<planner::Plan>(plan), steps, folder.path());
          for (std::size_t r = 0; r < requests.size(); ++r) {
            CAPTURE(r);
            testing::check_text(got[r], alone[r].tokens, alone[r].logits, 2e-5F);
          }
        }
      }
    }
  }
  CHECK(mixed > 20);
}

}  // namespace
}  // namespace tandem::exec::spread_served_test
