// Scores as the executor makes them, against the reference transformer.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "exec/evaluation/scores.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/reference_transformer.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::evaluation_session_test {
namespace {

using testing::has;
using testing::RandomWeights;
using testing::TemporaryFolder;
using testing::WeightFunction;
using testing::Workers;

model::Transformer geometry() {
  model::Transformer t = testing::small_llama();
  t.layers = 2;
  t.max_context = 40;
  return t;
}

// A folder of the model whose elements are what `weights` says.
void write_model(const std::filesystem::path& folder, const model::Transformer& t,
                 const WeightFunction& weights) {
  std::string header = "{";
  std::string data;
  const auto add = [&](const std::string& name, WeightName weight, std::int32_t layer,
                       std::int64_t rows, std::int64_t columns) {
    const std::size_t begin = data.size();
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const float value = weights({weight, layer, r, c});
        char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        data.append(bytes, sizeof value);
      }
    }
    const bool norm = name.find("norm") != std::string::npos;
    if (header.size() > 1) header += ",";
    header += "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(rows) +
              (norm ? "" : "," + std::to_string(columns)) + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  };
  const std::int64_t q = t.heads * t.head_dim;
  const std::int64_t kv = t.kv_heads * t.head_dim;
  add("model.embed_tokens.weight", WeightName::embedding, -1, t.vocab, t.hidden);
  for (std::int32_t l = 0; l < t.layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    add(prefix + "input_layernorm.weight", WeightName::attention_norm, l, t.hidden, 1);
    add(prefix + "self_attn.q_proj.weight", WeightName::query, l, q, t.hidden);
    add(prefix + "self_attn.k_proj.weight", WeightName::key, l, kv, t.hidden);
    add(prefix + "self_attn.v_proj.weight", WeightName::value, l, kv, t.hidden);
    add(prefix + "self_attn.o_proj.weight", WeightName::out, l, t.hidden, q);
    add(prefix + "post_attention_layernorm.weight", WeightName::ffn_norm, l, t.hidden, 1);
    add(prefix + "mlp.gate_proj.weight", WeightName::gate, l, t.intermediate, t.hidden);
    add(prefix + "mlp.up_proj.weight", WeightName::up, l, t.intermediate, t.hidden);
    add(prefix + "mlp.down_proj.weight", WeightName::down, l, t.hidden, t.intermediate);
  }
  add("model.norm.weight", WeightName::final_norm, -1, t.hidden, 1);
  add("lm_head.weight", WeightName::head, -1, t.vocab, t.hidden);
  std::string text = testing::safetensors_text(header + "}", 0);
  testing::write_text(folder / "model.safetensors", text + data);
  testing::write_text(folder / "config.json", model::to_config_json(t));
}

struct Home {
  explicit Home(int workers, const WeightFunction& weights = RandomWeights{}) : key(random_key()) {
    write_model(folder.path() / "weights", model, weights);
    processes = std::make_unique<Workers>(folder.path(), workers, key);
  }
  [[nodiscard]] planner::Plan plan(int devices, const char* partition = "equal") const {
    return testing::plan_for(model, devices == 1 ? "local" : "tensor", devices, partition, 1, 1);
  }
  [[nodiscard]] std::vector<PassageScores> score(const planner::Plan& plan,
                                                 const std::vector<Passage>& passages) const {
    ScoreOptions options;
    options.weights = folder.path() / "weights";
    options.cache_dir = folder.path() / "cache-0";
    options.workers = processes->endpoints();
    options.key = key;
    Interrupt interrupt;
    return exec::score(plan, options, passages, interrupt);
  }

  TemporaryFolder folder;
  model::Transformer model = geometry();
  Key key;
  std::unique_ptr<Workers> processes;
};

// Lengths from the shortest to the context, growing and shrinking; all tokens or the last few.
std::vector<Passage> passages(const model::Transformer& t) {
  std::vector<Passage> result;
  std::int32_t token = 3;
  for (const auto& [length, scored] :
       std::vector<std::pair<int, int>>{{7, 6}, {40, 39}, {2, 1}, {23, 4}, {40, 1}, {11, 10}}) {
    Passage passage{.tokens = {}, .scored = scored};
    for (int i = 0; i < length; ++i) {
      token = static_cast<std::int32_t>((token * 31 + 17) % t.vocab);
      passage.tokens.push_back(token);
    }
    result.push_back(passage);
  }
  return result;
}

PassageScores expected_scores(const model::Transformer& t, const Passage& passage) {
  const testing::Matrix logits = testing::reference_logits(t, RandomWeights{}, passage.tokens);
  PassageScores scores;
  const auto length = static_cast<std::int64_t>(passage.tokens.size());
  for (std::int64_t at = length - passage.scored; at < length; ++at) {
    const std::int32_t token = passage.tokens[static_cast<std::size_t>(at)];
    double sum = 0.0;
    bool best = true;
    for (std::int64_t v = 0; v < t.vocab; ++v) {
      sum += std::exp(logits.at(at - 1, v));
      best = best && logits.at(at - 1, v) <= logits.at(at - 1, token);
    }
    scores.push_back({std::log2(std::exp(logits.at(at - 1, token)) / sum), best});
  }
  return scores;
}

TEST_CASE("exec/evaluation: scores are the reference's, over 1, 2 and 3 devices") {
  const Home home(2);
  const std::vector<Passage> asked = passages(home.model);
  for (const auto& [devices, partition] : std::vector<std::pair<int, const char*>>{
           {1, "equal"}, {2, "equal"}, {2, "5:1"}, {3, "equal"}, {3, "1:3:2"}}) {
    CAPTURE(devices);
    CAPTURE(partition);
    const auto scores = home.score(home.plan(devices, partition), asked);
    REQUIRE(scores.size() == asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      CAPTURE(i);
      const PassageScores expected = expected_scores(home.model, asked[i]);
      REQUIRE(scores[i].size() == expected.size());
      for (std::size_t k = 0; k < expected.size(); ++k) {
        CHECK(scores[i][k].log2_probability ==
              doctest::Approx(expected[k].log2_probability).epsilon(1e-4));
        CHECK(scores[i][k].first_choice == expected[k].first_choice);
      }
    }
  }
}

TEST_CASE("exec/evaluation: first choices are what greedy decoding says") {
  const Home home(1);
  const std::vector<std::int32_t> prompt{79, 110, 99, 101};
  const planner::Plan local = testing::plan_for(home.model, "local", 1, "equal", 4, 6);
  testing::SerialExecutor serial(local, home.folder.path() / "weights");
  std::vector<std::vector<float>> logits;
  Passage passage{.tokens = prompt, .scored = 6};
  for (const std::int32_t token : serial.generate(prompt, 6, logits)) {
    passage.tokens.push_back(token);
  }
  Passage wrong = passage;
  wrong.tokens[7] = (wrong.tokens[7] + 1) % static_cast<std::int32_t>(home.model.vocab);
  const auto scores = home.score(home.plan(2), {passage, wrong});
  CHECK(all_first_choices(scores[0]));
  CHECK_FALSE(scores[1][3].first_choice);
  CHECK_FALSE(all_first_choices(scores[1]));
}

TEST_CASE("exec/evaluation: weights of zero expect every one of 259 tokens alike: log2 259 bits") {
  const Home home(1, [](const WeightElement&) { return 0.0F; });
  const std::vector<Passage> asked = passages(home.model);
  for (const int devices : {1, 2}) {
    for (const PassageScores& scores : home.score(home.plan(devices), asked)) {
      CHECK(bits_of(scores) ==
            doctest::Approx(std::log2(259.0) * static_cast<double>(scores.size())).epsilon(1e-14));
    }
  }
}

TEST_CASE("exec/evaluation: a session is not begun for what cannot be scored") {
  const Home home(0);
  const planner::Plan plan = home.plan(1);
  CHECK(home.score(plan, {}).empty());
  const auto refusal = [&](const Passage& passage) {
    return testing::error_of([&] { static_cast<void>(home.score(plan, {passage})); });
  };
  CHECK(has(refusal({{1, 2}, 0}), "0 scored"));
  CHECK(has(refusal({{1, 2}, 2}), "2 scored"));
  CHECK(has(refusal({{1, 259}, 1}), "token 259: expected 0 to 258"));
  CHECK(has(refusal({{-1, 1}, 1}), "token -1"));
  CHECK(has(refusal({std::vector<std::int32_t>(41, 1), 1}), "40"));
}

}  // namespace
}  // namespace tandem::exec::evaluation_session_test
