// Another project's view of the installed package: consumer FOLDER makes a model, its plan on two
// devices, predicts it, and runs it for real, alone and on a worker of this process.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tandem/tandem.hpp>
#include <thread>
#include <variant>

namespace {

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 128, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "hidden_act": "silu"})";

void check(bool good, const char* what) {
  if (!good) throw std::logic_error(what);
}

tandem::Plan planned(const std::variant<tandem::Plan, tandem::Infeasible>& answer) {
  if (const auto* no = std::get_if<tandem::Infeasible>(&answer)) throw std::logic_error(no->reason);
  return std::get<tandem::Plan>(answer);
}

tandem::Platform pair() {
  const auto device = [](const char* name) {
    return tandem::Device{
        .name = name, .flops = 10e9, .memory_bytes = 1e9, .memory_bandwidth_Bps = 10e9};
  };
  return {"pair",
          {device("a"), device("b")},
          {{.from = "a", .to = "b", .latency_s = 1e-3, .bandwidth_Bps = 12.5e6}}};
}

tandem::Plan plan_of_pair(const tandem::Model& model) {
  tandem::Plan plan = planned(tandem::make_plan(
      model, pair(), {.strategy = "tensor", .prompt_tokens = 12, .new_tokens = 5}));
  check(tandem::Plan::parse(plan.to_json()).sha256() == plan.sha256(), "a plan read back differs");
  check(plan.device_names() == std::vector<std::string>{"a", "b"}, "names of devices");
  const auto chosen =
      planned(tandem::make_plan(model, pair(), {.prompt_tokens = 12, .new_tokens = 5}));
  std::printf("strategy auto: %s\n", chosen.strategy().c_str());
  return plan;
}

tandem::Result predict_both(const tandem::Plan& plan) {
  const tandem::Result analytic = tandem::predict(plan, {.evaluator = tandem::Evaluator::analytic});
  tandem::Result simgrid = tandem::predict(plan);
  std::printf("TTFT on two devices: %.6f s analytic, %.6f s on SimGrid\n", analytic.ttft_s(),
              simgrid.ttft_s());
  check(analytic.ttft_s() > 0.0 && simgrid.ttft_s() > 0.0, "no time to the first token");
  check(simgrid.token_latency_s().value_or(0.0) > 0.0, "no token latency");
  return simgrid;
}

tandem::RunOptions options(const std::filesystem::path& folder) {
  return {.weights = folder / "tiny",
          .prompt = "Hello, world",
          .threads = 1,
          .cache_dir = folder / "cache"};
}

tandem::Run run_alone(const tandem::Model& model, const std::filesystem::path& folder) {
  std::string text;
  tandem::RunOptions how = options(folder);
  how.on_text = [&](std::string_view more) { text += more; };
  tandem::Run done = tandem::run(planned(tandem::plan_here(model, 12, 5, 1e9)), how);
  check(done.tokens.size() == 5, "5 new tokens");
  check(done.text.starts_with("Hello, world") && text == done.text, "the text");
  check(done.result.measured() && done.result.ttft_s() > 0.0, "a measured result");
  std::printf("%zu tokens, the first after %.3f ms\n", done.tokens.size(),
              done.result.ttft_s() * 1e3);
  return done;
}

// Device b is a worker on a loopback address.
tandem::Run run_on_worker(const tandem::Plan& plan, const std::filesystem::path& folder) {
  const std::filesystem::path hosts = folder / "hosts.txt";
  std::promise<std::string> address;
  std::jthread worker([&](const std::stop_token& stop) {
    tandem::serve({.cache_dir = folder / "b",
                   .threads = 1,
                   .stop = stop,
                   .on_listening = [&](const std::string& at) { address.set_value(at); }});
  });
  std::ofstream(hosts) << "b " << address.get_future().get() << '\n';
  tandem::RunOptions how = options(folder);
  how.devices = tandem::Workers{.hosts_file = hosts};
  return tandem::run(plan, how);
}

void use(const std::filesystem::path& folder) {
  std::printf("tandem %s\n", std::string(tandem::version()).c_str());
  const tandem::Model model = tandem::Model::parse(kConfig, "tiny");
  tandem::write_random_weights(model, 1, folder / "tiny");
  check(tandem::Model::read(folder / "tiny").parameters() == model.parameters(), "the folder");
  const tandem::Plan plan = plan_of_pair(model);
  const tandem::Result predicted = predict_both(plan);
  const tandem::Run alone = run_alone(model, folder);
  const tandem::Run together = run_on_worker(plan, folder);
  check(together.tokens == alone.tokens, "two devices compute other tokens than one");
  check(!tandem::compare(predicted, together.result).empty(), "nothing to compare");
  try {
    static_cast<void>(tandem::Model::read(folder / "absent"));
    check(false, "a model that is not there");
  } catch (const std::runtime_error& error) {
    std::printf("error: %s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    use(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
}
