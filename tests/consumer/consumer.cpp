// Another project's view of the installed package: a model, its plan on two devices, what the
// evaluators predict, and a real run of it on this machine alone.
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "advice/prediction.hpp"
#include "exec/session/execute.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/base/units.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/search/search.hpp"

namespace {

using namespace tandem;
using namespace tandem::model::literals;

model::Transformer tiny_llama() {
  model::Transformer llama;
  llama.name = "tiny";
  llama.layers = 2;
  llama.hidden = 64;
  llama.heads = llama.kv_heads = 4;
  llama.head_dim = 16;
  llama.intermediate = 128;
  llama.vocab = 256;
  llama.max_context = 128;
  return llama;
}

model::Cluster pair() {
  const auto device = [](const char* name) {
    return model::Device{.name = name,
                         .cores = 1,
                         .flop_rate = 10_Gflops,
                         .memory_bandwidth = 80_Gbps,
                         .memory = 1_GiB,
                         .disk_bandwidth = model::BytesPerSecond{0.0},
                         .slowdown = 1.0};
  };
  return model::Cluster("pair", {device("a"), device("b")}, {},
                        {{.name = "wire", .latency = 1_ms, .bandwidth = 100_Mbps}},
                        {{.from = "a", .to = "b", .hops = {{0, model::Direction::up}}}});
}

bool predict(const model::Transformer& llama) {
  const auto made = planner::make_plan(
      {.model = llama, .cluster = pair(), .workload = {.prompt_tokens = 8, .new_tokens = 4}});
  const auto* plan = std::get_if<planner::Plan>(&made);
  if (plan == nullptr) return false;
  const auto ttft_s = [&](study::EvaluatorKind evaluator) {
    return study::predict(*plan, {.evaluator = evaluator}).result.metrics.ttft_s;
  };
  const double analytic = ttft_s(study::EvaluatorKind::analytic);
  const double simgrid = ttft_s(study::EvaluatorKind::simgrid);
  std::printf("TTFT on two devices: %.6f s analytic, %.6f s on SimGrid\n", analytic, simgrid);
  return analytic > 0.0 && simgrid > 0.0;
}

// Plan in, tokens out.
bool run(const model::Transformer& llama, const std::filesystem::path& folder) {
  const auto made =
      planner::plan_here(llama, {.prompt_tokens = 12, .new_tokens = 5}, model::Bytes{1e9});
  const auto* found = std::get_if<planner::Plan>(&made);
  if (found == nullptr) return false;
  // As a file that `tandem plan` wrote would be read.
  const planner::Plan plan = planner::parse_plan_json(planner::to_json(*found), "plan.json");
  exec::write_random_weights(llama, 1, model::DType::f32, folder / "tiny");
  const auto tokenizer = exec::byte_tokenizer(llama.vocab);  // the folder has no tokenizer

  exec::ExecuteOptions options;
  options.weights = folder / "tiny";
  options.prompt = "Hello, world";
  options.cache_dir = folder / "cache";
  options.tokenizer = tokenizer.get();
  std::string told;
  options.on_text = [&](std::size_t /*request*/, std::string_view text) { told += text; };
  const exec::Execution done = exec::execute(plan, options);

  std::printf("%zu tokens:", done.tokens.size());
  for (const std::int32_t token : done.tokens) std::printf(" %d", token);
  std::printf(", the first after %.3f ms\n", done.result.metrics.ttft_s * 1e3);
  return done.tokens.size() == 5 && done.prompt_tokens == 12 &&
         done.texts.at(0).starts_with("Hello, world") && told == done.texts[0] &&
         done.result.metrics.ttft_s > 0.0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const model::Transformer llama = tiny_llama();
  return predict(llama) && run(llama, argv[1]) ? 0 : 1;
}
