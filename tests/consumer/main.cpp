// Another project's view of the installed package: a plan and its analytic prediction.
#include <cstdio>
#include <variant>

#include "model/analytic.hpp"
#include "planner/lowering.hpp"
#include "planner/search.hpp"
#include "sim/replay.hpp"

int main() {
  using namespace tandem;
  using namespace tandem::model::literals;
  model::Transformer llama;
  llama.name = "tiny";
  llama.layers = 2;
  llama.hidden = 64;
  llama.heads = llama.kv_heads = 4;
  llama.head_dim = 16;
  llama.intermediate = 128;
  llama.vocab = 256;
  llama.max_context = 128;
  const auto device = [](const char* name) {
    return model::Device{.name = name,
                         .cores = 1,
                         .flop_rate = 10_Gflops,
                         .memory_bandwidth = 80_Gbps,
                         .memory = 1_GiB,
                         .disk_bandwidth = model::BytesPerSecond{0.0},
                         .slowdown = 1.0};
  };
  const model::Cluster cluster("pair", {device("a"), device("b")}, {},
                               {{.name = "wire", .latency = 1_ms, .bandwidth = 100_Mbps}},
                               {{.from = "a", .to = "b", .hops = {{0, model::Direction::up}}}});
  const auto made = planner::make_plan(
      {.model = llama, .cluster = cluster, .workload = {.prompt_tokens = 8, .new_tokens = 4}});
  const auto* plan = std::get_if<planner::Plan>(&made);
  if (plan == nullptr) return 1;
  model::RunRecorder predicted(plan->cluster, plan->master, false);
  planner::GenerationSteps steps(*plan);
  evaluate_analytic(plan->cluster, plan->cost_model(), steps, predicted);
  model::RunRecorder simulated(plan->cluster, plan->master, false);
  planner::GenerationSteps again(*plan);
  sim::replay(plan->cluster, plan->cost_model(), again, simulated);
  std::printf("TTFT %.6f s analytic, %.6f s on SimGrid\n", predicted.metrics().ttft_s,
              simulated.metrics().ttft_s);
  return predicted.metrics().ttft_s > 0.0 && simulated.metrics().ttft_s > 0.0 ? 0 : 1;
}
