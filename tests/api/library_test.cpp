// The public headers, include/tandem/: what they refuse, and that files are those of the program.
// tests/consumer/consumer.cpp uses the installed library for a whole run.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <tandem/tandem.hpp>
#include <variant>
#include <vector>

#include "tests/support/source_tree.hpp"

namespace tandem::test::library_test {
namespace {

Model tiny() {
  return Model::parse(R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
      "intermediate_size": 128, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
      "rope_theta": 10000.0, "hidden_act": "silu"})",
                      "tiny");
}

Device device(const std::string& name) {
  return {.name = name, .flops = 10e9, .memory_bytes = 1e9, .memory_bandwidth_Bps = 10e9};
}

Connection wire(const std::string& from, const std::string& to, double latency_s = 1e-3) {
  return {.from = from, .to = to, .latency_s = latency_s, .bandwidth_Bps = 12.5e6};
}

Platform pair() { return {"pair", {device("a"), device("b")}, {wire("a", "b")}}; }

Plan planned(const Platform& platform, const PlanOptions& options) {
  const auto answer = make_plan(tiny(), platform, options);
  REQUIRE(std::holds_alternative<Plan>(answer));
  return std::get<Plan>(answer);
}

// The one line of what is wrong.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("'" << text << "' lacks '" << part << "'");
  return found;
}

const PlanOptions short_plan{.strategy = "tensor", .prompt_tokens = 8, .new_tokens = 4};

}  // namespace

TEST_CASE("api/errors: bad options name themselves, the value and what is expected") {
  const auto plan_with = [](auto change) {
    PlanOptions options = short_plan;
    change(options);
    return refusal([&] { static_cast<void>(make_plan(tiny(), pair(), options)); });
  };
  CHECK(has(plan_with([](auto& o) { o.strategy = "tensr"; }), "tensr"));
  CHECK(
      has(plan_with([](auto& o) { o.objective = "speed"; }), "'speed': unknown, expected request"));
  CHECK(has(plan_with([](auto& o) { o.objective = "throughput"; }), "'throughput': unknown"));
  CHECK(has(plan_with([](auto& o) { o.cache_type = "q8"; }), "cache type 'q8'"));
  CHECK(has(plan_with([](auto& o) { o.wire_type = ""; }), "wire type ''"));
  CHECK(has(plan_with([](auto& o) { o.master = "c"; }), "'c'"));
  CHECK(has(plan_with([](auto& o) { o.prompt_tokens = 0; }), "0"));
  CHECK(has(plan_with([](auto& o) { o.prompt_tokens = 1000; }), "1000"));
  CHECK(has(plan_with([](auto& o) { o.profiles["c"] = "p.json"; }), "'c'"));
  CHECK(has(plan_with([](auto& o) { o.profiles["a"] = "/absent.json"; }), "/absent.json"));
  CHECK(has(refusal([] { static_cast<void>(tiny().in_format("q9")); }), "'q9': unknown, expected"));
  CHECK(has(refusal([] { static_cast<void>(Model::parse("{", "x.json")); }), "x.json"));
  CHECK(has(refusal([] { static_cast<void>(Plan::parse("{}", "p.json")); }), "p.json"));
  CHECK(has(refusal([] { static_cast<void>(Result::parse("[]", "r.json")); }), "r.json"));
  CHECK_THROWS_AS(Plan(nullptr), std::logic_error);
}

TEST_CASE("api/platform: devices reach one another by links and switches") {
  const Platform star("star", {device("a"), device("b"), device("c")},
                      {wire("a", "hub"), wire("b", "hub"), wire("hub", "c")});
  CHECK(star.device_names() == std::vector<std::string>{"a", "b", "c"});
  // Two wires on the way of each message, instead of one.
  const double direct = predict(planned(pair(), short_plan)).ttft_s();
  const double relayed =
      predict(planned({"by hub", {device("a"), device("b")}, {wire("a", "hub"), wire("hub", "b")}},
                      short_plan))
          .ttft_s();
  CHECK(relayed > direct + 1e-3);
  const auto made = [](const std::vector<Device>& devices, const std::vector<Connection>& wires) {
    return refusal([&] { Platform("p", devices, wires); });
  };
  CHECK(has(made({}, {}), "device"));
  CHECK(has(made({device("a"), device("a")}, {wire("a", "a")}), "a"));
  CHECK(has(made({device("a"), device("b")}, {}), "b"));
  CHECK(has(made({device("a"), device("b")}, {wire("a", "b", -1.0)}), "-1"));
  CHECK(has(made({device("a"), device("b")}, {wire("a", "b", std::nan(""))}), "nan"));
  CHECK(has(made({device("a"), device("b")}, {wire("a", "b"), wire("a", "b")}), "a-b"));
}

TEST_CASE("api/plan: what does not fit is an answer, and formats of weights count") {
  PlanOptions options = short_plan;
  options.memory_limit_bytes = 1e5;
  const auto answer = make_plan(tiny(), pair(), options);
  REQUIRE(std::holds_alternative<Infeasible>(answer));
  CHECK(has(std::get<Infeasible>(answer).reason, "a"));
  options.strategy = "auto";
  const auto any = make_plan(tiny(), pair(), options);
  REQUIRE(std::holds_alternative<Infeasible>(any));
  CHECK(has(std::get<Infeasible>(any).reason, "not tensor: "));

  const Plan wide = planned(pair(), short_plan);
  const auto narrow = make_plan(tiny().in_format("f16"), pair(), short_plan);
  CHECK(std::get<Plan>(narrow).memory_bytes()[0] < wide.memory_bytes()[0]);
  CHECK(std::get<Plan>(narrow).sha256() != wide.sha256());
  CHECK(Plan::parse(wide.to_json()).to_json() == wide.to_json());
}

TEST_CASE("api/files: scenarios, plans and results are those of the program") {
  const std::filesystem::path scenarios = testing::in_sources("scenarios");
  const Platform home = Platform::read(scenarios / "platforms/home4.xml");
  CHECK(home.device_names().size() == 4);
  const Model model = Model::read(scenarios / "models/tinyllama-1.1b.json");
  CHECK(model.generates());
  CHECK(model.layers() == 22);
  const auto answer = make_plan(model.in_format("q4_0"), home,
                                {.strategy = "pipeline", .prompt_tokens = 16, .new_tokens = 3});
  REQUIRE(std::holds_alternative<Plan>(answer));
  const Plan& plan = std::get<Plan>(answer);
  CHECK(plan.strategy() == "pipeline");
  const Result result = predict(plan, {.evaluator = Evaluator::analytic});
  CHECK_FALSE(result.measured());
  CHECK(result.kind() == "predicted");
  CHECK(result.token_times_s().size() == 3);
  CHECK(result.tokens().empty());
  CHECK(result.devices().size() == 4);
  const Result again = Result::parse(result.to_json());
  CHECK(again.to_json() == result.to_json());
  CHECK(has(refusal([&] { static_cast<void>(compare(result, again)); }), "predicted"));
}

TEST_CASE("api/run: a stop before the first token ends the run, and workers' files are checked") {
  const auto folder = std::filesystem::temp_directory_path() / "tandem-library-test";
  std::filesystem::remove_all(folder);
  write_random_weights(tiny(), 1, folder / "tiny");
  const Plan alone = std::get<Plan>(plan_here(tiny(), 4, 2, 1e9));
  RunOptions options{.weights = folder / "tiny",
                     .prompt = std::vector<std::int32_t>{1, 2, 3, 4},
                     .threads = 1,
                     .cache_dir = folder / "cache"};
  const Run done = run(alone, options);
  CHECK(done.tokens.size() == 2);
  CHECK(done.result.measured());

  std::stop_source stop;
  stop.request_stop();
  options.stop = stop.get_token();
  CHECK(has(refusal([&] { static_cast<void>(run(alone, options)); }), "stopped by the caller"));

  options.stop = {};
  options.devices = Workers{.hosts_file = folder / "absent"};
  CHECK(has(refusal([&] { static_cast<void>(run(planned(pair(), short_plan), options)); }),
            "absent"));
  options.devices = std::monostate{};
  CHECK(has(refusal([&] { static_cast<void>(run(planned(pair(), short_plan), options)); }),
            "2 working devices, expected the master alone"));
  CHECK(has(refusal([&] { serve({.listen = "0.0.0.0:0", .cache_dir = folder}); }), "key"));
  CHECK(has(refusal([&] { serve({.listen = "nowhere", .cache_dir = folder}); }), "nowhere"));
  std::filesystem::remove_all(folder);
}

}  // namespace tandem::test::library_test
