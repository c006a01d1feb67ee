// What an all-reduce adds to a token: two processes on this machine, no emulation, a real decode.
//
// Added time of one all-reduce of the star: from when the later of both devices has its partial sum
// to when the later of both goes on, without the additions themselves. So: transport, encryption
// and waiting.

#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/session/master.hpp"
#include "exec/session/worker.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"
#include "planner/search/search.hpp"

namespace tandem::exec {
namespace {

constexpr std::int32_t kPrompt = 8;

model::Transformer geometry(std::int64_t hidden) {
  model::Transformer t;
  t.name = "bench";
  t.layers = 8;
  t.hidden = hidden;
  t.heads = 16;
  t.kv_heads = 4;
  t.head_dim = hidden / t.heads;
  t.intermediate = hidden * 11 / 4;
  t.vocab = 512;
  t.max_context = 512;
  return t;
}

planner::Plan plan_of(const model::Transformer& transformer, std::int64_t new_tokens) {
  model::Device device{.name = "master",
                       .flop_rate = model::FlopsPerSecond{1e11},
                       .memory_bandwidth = model::BytesPerSecond{1e10},
                       .memory = model::Bytes{16e9}};
  model::Device other = device;
  other.name = "worker";
  const model::Link link{
      .name = "loopback", .latency = model::Seconds{1e-5}, .bandwidth = model::BytesPerSecond{1e9}};
  const model::Edge edge{
      .from = "master", .to = "worker", .hops = {{.link = 0, .direction = model::Direction::up}}};
  auto plan =
      planner::make_plan({.model = transformer,
                          .cluster = model::Cluster("two", {device, other}, {}, {link}, {edge}),
                          .strategy = "tensor",
                          .partition = "equal",
                          .workload = {.prompt_tokens = kPrompt, .new_tokens = new_tokens}});
  return std::get<planner::Plan>(std::move(plan));
}

// A folder of weights and a worker process, gone at the end.
class Home {
 public:
  explicit Home(const model::Transformer& transformer) : key(random_key()) {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder = name;
    write_random_weights(transformer, 1, model::DType::f32, folder / "weights");
    ListenSocket socket({.host = "127.0.0.1", .port = 0}, true);
    endpoint = socket.endpoint();
    worker_ = fork();
    if (worker_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        WorkerOptions options;
        options.key = key;
        options.cache_dir = folder / "worker";
        const Cancellation never;
        serve(std::move(socket), options, never);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
  }
  ~Home() {
    kill(worker_, SIGKILL);
    waitpid(worker_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  Key key;
  std::filesystem::path folder;
  Endpoint endpoint;

 private:
  pid_t worker_ = -1;
};

// Spans of one step and device, by task index.
using Lane = std::vector<model::Span>;

// A message's copies are part of the all-reduce.
bool copies(const model::Span& span) {
  return span.kind == model::TaskKind::capture || span.kind == model::TaskKind::deliver;
}

bool makes_partial(const model::Span& span) {
  return span.kind == model::TaskKind::project_out || span.kind == model::TaskKind::ffn_down;
}

// Seconds that each all-reduce of one step added.
std::vector<double> added_times(const Lane& master, const Lane& worker) {
  struct Block {
    double partial = 0.0;  // end of the partial sum
    double next = 0.0;     // start of what follows the all-reduce
    double adds = 0.0;
  };
  const auto blocks_of = [](const Lane& lane) {
    std::vector<Block> blocks;
    bool open = false;
    for (const model::Span& span : lane) {
      if (copies(span)) continue;
      if (makes_partial(span)) {
        blocks.push_back({.partial = span.end});
        open = true;
      } else if (open && span.kind == model::TaskKind::add) {
        blocks.back().adds += span.end - span.start;
      } else if (open) {
        blocks.back().next = span.start;
        open = false;
      }
    }
    return blocks;
  };
  const std::vector<Block> ours = blocks_of(master);
  const std::vector<Block> theirs = blocks_of(worker);
  std::vector<double> added;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    added.push_back(std::max(ours[i].next, theirs[i].next) -
                    std::max(ours[i].partial, theirs[i].partial) - ours[i].adds);
  }
  return added;
}

std::vector<double> all_reduces(const model::Trace& trace) {
  std::map<std::pair<std::int32_t, model::DeviceIndex>, Lane> lanes;
  std::int32_t steps = 0;
  for (const model::Span& span : trace.spans) {
    if (span.lane == model::LaneKind::cpu) lanes[{span.step, span.device}].push_back(span);
    steps = std::max(steps, span.step + 1);
  }
  std::vector<double> added;
  for (std::int32_t step = 1; step < steps; ++step) {  // 0 is the prompt
    const std::vector<double> one = added_times(lanes[{step, 0}], lanes[{step, 1}]);
    added.insert(added.end(), one.begin(), one.end());
  }
  return added;
}

// range(0): hidden size, range(1): new tokens.
void all_reduce_in_decode(benchmark::State& state) {
  const model::Transformer transformer = geometry(state.range(0));
  const planner::Plan plan = plan_of(transformer, state.range(1));
  const Home home(transformer);
  GenerateOptions options;
  options.weights = home.folder / "weights";
  options.cache_dir = home.folder / "master";
  options.prompt.assign(kPrompt, 1);
  options.new_tokens = state.range(1);
  options.workers = {{}, home.endpoint};
  options.key = home.key;
  options.keep_spans = true;
  std::vector<double> added;
  double token_s = 0.0;
  for (auto _ : state) {
    Interrupt interrupt;
    const Generation generation = generate(plan, options, interrupt);
    added = all_reduces(generation.run.trace);
    token_s = model::quantile(generation.run.result.metrics.token_latencies_s(), 0.5);
  }
  state.counters["added_us_p50"] = model::quantile(added, 0.5) * 1e6;
  state.counters["added_us_p90"] = model::quantile(added, 0.9) * 1e6;
  state.counters["added_us_p99"] = model::quantile(added, 0.99) * 1e6;
  state.counters["all_reduces"] = static_cast<double>(added.size());
  state.counters["token_ms_p50"] = token_s * 1e3;
}
BENCHMARK(all_reduce_in_decode)
    ->ArgNames({"hidden", "tokens"})
    ->Args({256, 100})
    ->Args({512, 100})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem::exec

BENCHMARK_MAIN();
