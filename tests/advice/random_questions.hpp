#pragma once

// Random questions of small models on small clusters, for the tests of what a search may miss.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "advice/one_strategy.hpp"
#include "advice/question.hpp"
#include "model/base/error.hpp"
#include "sim/replay/replay.hpp"
#include "tests/support/random_clusters.hpp"

namespace tandem::testing {

// Returns TANDEM_EXPLICIT_CASES and TANDEM_EXPLICIT_SEED, which make these tests longer and vary
// them, or else the value given.
inline int explicit_cases(int usual) {
  const char* const given = std::getenv("TANDEM_EXPLICIT_CASES");
  return given == nullptr ? usual : std::atoi(given);
}
inline std::uint32_t explicit_seed(std::uint32_t usual) {
  const char* const given = std::getenv("TANDEM_EXPLICIT_SEED");
  return given == nullptr ? usual : static_cast<std::uint32_t>(std::atoi(given));
}

// Returns the seconds of the plan of the question's strategy; infinite: it has none, or does not
// have the values that the question names.
inline double strategy_seconds(const study::Question& question) {
  try {
    const auto made = study::plan_strategy(question);
    if (const auto* const found = std::get_if<study::Contender>(&made)) return found->seconds;
  } catch (const Error&) {
    // Named values that this strategy does not have.
  }
  return std::numeric_limits<double>::infinity();
}

using planner::Objective;

// Devices unlike one another by a factor of up to four, on a switch, in two homes or on a link
// between any two, of 1 to 10 ms. Of every third cluster memory may be short.
class RandomQuestions {
 public:
  explicit RandomQuestions(std::uint32_t seed) : random_(seed) {}

  study::Question question(int number) {
    const model::Transformer transformer = model();
    const bool is_short = number % 3 == 2;
    constexpr double kProgram = 47e6;
    const double weights = 4.0 * static_cast<double>(transformer.parameters());
    const auto memory = [&] {
      return is_short ? kProgram + weights * random_.number(0.05, 0.6) : 4e9;
    };
    planner::Request request{
        .model = transformer,
        .cluster = cluster(static_cast<std::size_t>(random_.integer(2, 4)), memory),
        .evaluate = sim::evaluate_fair,
        .workload = {}};
    constexpr std::array<std::int64_t, 4> kPrompts{4, 24, 64, 150};
    constexpr std::array<std::int64_t, 4> kNew{1, 2, 4, 8};
    request.workload = {.prompt_tokens = kPrompts[static_cast<std::size_t>(random_.integer(0, 3))],
                        .new_tokens = kNew[static_cast<std::size_t>(random_.integer(0, 3))]};
    constexpr std::array kObjectives{Objective::request, Objective::ttft, Objective::latency};
    if (request.workload.new_tokens > 1)
      request.objective = kObjectives[static_cast<std::size_t>(random_.integer(0, 2))];
    request.window.blocks.reset();
    request.open = {.wire = true, .cache = true};
    return {.request = std::move(request), .prompt = {.best = true}};
  }

  // The same of two to ten requests by a policy, at once or as they arrive, whose chunk is
  // searched.
  study::Question of_many(int number) {
    study::Question one = question(number);
    constexpr std::array kPolicies{"continuous", "recurrent", "static"};
    study::ServedWorkload served{.policy = &planner::find_policy(
                                     kPolicies[static_cast<std::size_t>(random_.integer(0, 2))])};
    const std::int64_t count = random_.integer(2, 10);
    const bool at_once = random_.integer(0, 1) == 0;
    double arrival_s = 0.0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t rows = at_once ? one.request.workload.prompt_tokens
                                        : random_.integer(1, one.request.workload.prompt_tokens);
      served.requests.push_back({.id = std::to_string(i),
                                 .arrival_s = arrival_s,
                                 .prompt_tokens = rows,
                                 .new_tokens = one.request.workload.new_tokens});
      if (!at_once) arrival_s += random_.number(1e-3, 1.0);
    }
    constexpr std::array kObjectives{Objective::request, Objective::throughput, Objective::ttft};
    one.request.objective = kObjectives[static_cast<std::size_t>(random_.integer(0, 2))];
    one.served = std::move(served);
    one.best_chunk = true;
    return one;
  }

 private:
  model::Transformer model() {
    model::Transformer t{.name = "random", .layers = 2 * random_.integer(1, 3)};
    t.heads = 4 * random_.integer(1, 2);
    t.kv_heads = t.heads / (std::int64_t{1} << random_.integer(0, 2));
    t.head_dim = 64;
    t.hidden = 256 * random_.integer(1, 2);
    t.intermediate = 2 * t.hidden;
    t.vocab = random_.integer(0, 1) == 0 ? 256 : 4096;
    t.max_context = 4096;
    constexpr std::array kFormats{model::WeightFormat::f32, model::WeightFormat::q8_0,
                                  model::WeightFormat::q4_0};
    t.formats = model::WeightFormats(kFormats[static_cast<std::size_t>(random_.integer(0, 2))]);
    return t;
  }

  model::Cluster cluster(std::size_t devices, const std::function<double()>& memory) {
    std::vector<model::Device> made;
    const double speed = random_.number(3e7, 2e9);
    for (std::size_t d = 0; d < devices; ++d) {
      const double flops = speed * random_.number(1.0, 4.0);
      made.push_back({.name = "d" + std::to_string(d),
                      .cores = 1,
                      .flop_rate = model::FlopsPerSecond{flops},
                      .memory_bandwidth = model::BytesPerSecond{flops * random_.number(0.1, 2.0)},
                      .memory = model::Bytes{memory()},
                      .disk_bandwidth = model::BytesPerSecond{random_.number(1e7, 1e9)}});
    }
    std::vector<std::string> routers;
    std::vector<model::Link> links;
    std::vector<model::Edge> edges;
    const auto connect = [&](const std::string& from, const std::string& to) {
      const bool is_shared = random_.integer(0, 1) == 0;
      edges.push_back({.from = from,
                       .to = to,
                       .hops = {{static_cast<model::LinkIndex>(links.size()),
                                 is_shared ? model::Direction::none : model::Direction::up}}});
      links.push_back(
          {.name = from + "-" + to,
           .latency = model::Seconds{random_.number(1e-3, 1e-2)},
           .bandwidth = model::BytesPerSecond{random_.number(1e6, 1e8)},
           .sharing = is_shared ? model::Sharing::shared : model::Sharing::split_duplex});
    };
    const std::int64_t form = random_.integer(0, 2);
    if (form == 0) {
      for (std::size_t a = 0; a < devices; ++a) {
        for (std::size_t b = a + 1; b < devices; ++b) connect(made[a].name, made[b].name);
      }
    } else {
      routers.emplace_back("core");
      for (int home = 0; home < 2 && form == 2; ++home) {
        routers.push_back("home" + std::to_string(home));
        connect(routers.back(), "core");
      }
      for (std::size_t d = 0; d < devices; ++d)
        connect(made[d].name, form == 1 ? "core" : "home" + std::to_string(d % 2));
    }
    return {"random", made, routers, links, edges};
  }

  test::RandomClusters random_;
};

}  // namespace tandem::testing
