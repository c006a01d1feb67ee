// What sparse attention costs, as measured: its form, its file, what it is of.

#include "planner/search/loss_model.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "tests/support/loss_fixture.hpp"
#include "tests/support/rooms.hpp"

namespace tandem::test::loss_model_test {
namespace {

using nlohmann::json;
using planner::LossModel;
using planner::SparseAttention;

model::Transformer seven_layers() {
  model::Transformer model =
      small_model({.layers = 7, .heads = 8, .kv_heads = 4, .intermediate = 16});
  model.max_context = 2000;
  return model;
}

LossModel read(const json& text) { return planner::parse_loss_model(text.dump(), "loss.json"); }

// Of four devices in two rooms, or of all in one.
SparseAttention attention(std::int32_t levels, double drop,
                          const model::Cluster& cluster = rooms({0, 0, 1, 1}, {1e-2})) {
  return planner::sparse_attention({.levels = levels, .drop = drop}, cluster, 0, 7);
}

TEST_CASE("planner/loss model: a sum of functions of what is dropped, linear between knots") {
  const LossModel loss = read(loss_json(seven_layers()));
  using Dropped = std::vector<std::vector<double>>;
  SUBCASE("nothing: 0") { CHECK(loss.loss(Dropped{{0, 0}, {0, 0}}) == 0.0); }
  SUBCASE("band 0, level 2: a third of 0.04") {
    CHECK(loss.loss(Dropped{{0.15, 0}, {0, 0}}) == doctest::Approx(0.04 / 3));
  }
  SUBCASE("band 1, level 3: nothing up to 0.45, then a third of 0.04") {
    CHECK(loss.loss(Dropped{{0, 0}, {0, 0.45}}) == 0.0);
    CHECK(loss.loss(Dropped{{0, 0}, {0, 0.6}}) == doctest::Approx(0.04 / 3));
  }
  SUBCASE("all of it: 0.16 + 0.08 + 0.05 + 0.04 + 0.09") {
    CHECK(loss.loss(Dropped{{0.9, 0.9}, {0.9, 0.9}}) == doctest::Approx(0.42));
  }
  SUBCASE("property: more dropped never costs less") {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> part(0.0, 0.9);
    for (std::size_t i = 0; i < 500; ++i) {
      Dropped less{{part(random), part(random)}, {part(random), part(random)}};
      Dropped more = less;
      double& one = more[i % 2][i / 2 % 2];
      one = std::min(0.9, one + 0.3 * part(random));
      CHECK(loss.loss(more) >= loss.loss(less));
    }
  }
}

TEST_CASE("planner/loss model: of a plan's attention, by layer and level") {
  const LossModel loss = read(loss_json(seven_layers()));
  CHECK(loss.loss(attention(3, 0.0)) == 0.0);
  SparseAttention sparse = attention(3, 0.0);
  // Half of a band's layers: half of its mean.
  sparse.drop[2] = planner::for_all_heads({0.3, 0.3});
  CHECK(loss.loss(sparse) == doctest::Approx(loss.loss({{0.15, 0.15}, {0.0, 0.0}})));
  // Two levels are as three with ratios alike, whatever the network's groups.
  SparseAttention alike = attention(3, 0.0);
  for (std::size_t layer = 2; layer < 6; ++layer)
    alike.drop[layer] = planner::for_all_heads({0.6, 0.6});
  CHECK(loss.loss(attention(2, 0.6)) == loss.loss(alike));
  CHECK(loss.loss(attention(2, 0.6, rooms({0, 0, 0, 0}, {}))) == loss.loss(alike));
}

TEST_CASE("planner/loss model: what was not measured is refused") {
  const LossModel loss = read(loss_json(seven_layers()));
  const auto refused = [&](const SparseAttention& sparse, const char* why) {
    CHECK_THROWS_WITH_AS(static_cast<void>(loss.loss(sparse)), doctest::Contains(why), Error);
  };
  refused(attention(2, 0.5, rooms({0, 0, 1}, {1e-2})), "measured on 4 devices ('rooms'), not on 3");
  refused(attention(3, 0.5, rooms({0, 0, 0, 1}, {1e-2})), "other groups of places");
  refused(attention(4, 0.5, rooms({0, 0, 1, 2}, {1e-3, 3e-2})), "other groups of places");
  refused(attention(2, 0.93), "drops 0.9300, expected at most 0.9000");
  SparseAttention overlapping = attention(2, 0.5);
  overlapping.overlap = true;
  refused(overlapping, "plan without '--levels-overlap'");
  SparseAttention by_head = attention(2, 0.5);
  by_head.drop[3][0].parts.assign(static_cast<std::size_t>(seven_layers().kv_heads), 0.5);
  CHECK_NOTHROW(static_cast<void>(loss.loss(by_head)));
  by_head.drop[3][0].parts[0] = 0.4;
  refused(by_head, "not as layer 3 of the plan by head");
  SparseAttention other = attention(2, 0.5);
  other.drop.resize(6);
  refused(other, "measured of 7 layers, not of 6");
  model::Transformer wider = seven_layers();
  wider.intermediate = 24;
  CHECK_NOTHROW(loss.check_model(seven_layers()));
  CHECK_THROWS_WITH_AS(loss.check_model(wider),
                       doctest::Contains("loss.json: measured of another model, small: "
                                         "intermediate_size 16, expected 24"),
                       Error);
}

TEST_CASE("planner/loss model: what it does not know of is said") {
  const LossModel loss = read(loss_json(seven_layers()));
  planner::Request request{.model = seven_layers(),
                           .cluster = rooms({0, 0, 1, 1}, {1e-2}),
                           .strategy = "csps",
                           .partition = "equal",
                           .workload = {400, 1},
                           .sparse = planner::SparseRequest{.levels = 3, .drop = 0.5}};
  const auto remarks = [&] {
    return loss.remarks(std::get<planner::Plan>(planner::make_plan(request)));
  };
  CHECK(remarks().empty());
  request.wire = model::WireFormat::f16;
  CHECK(remarks().size() == 1);
  request.wire = model::WireFormat::f32;
  request.workload.prompt_tokens = 200;
  request.partition = "1:1:1:3";
  request.model.cache = model::CacheFormat::f16;
  const std::vector<std::string> all = remarks();
  REQUIRE(all.size() == 3);
  CHECK(all[0] ==
        "the loss was measured of prompts of 300 to 500 tokens; of 200 it may be another");
  CHECK(all[1].find("f32") != std::string::npos);
  CHECK(all[2].find("25% of a prompt's rows at place 1, not 50%") != std::string::npos);
}

TEST_CASE("planner/loss model: each damaged field is refused in a line") {
  const json good = loss_json(seven_layers());
  CHECK_NOTHROW(read(good));
  struct Damage {
    const char* why;
    std::function<void(json&)> make;
  };
  const std::vector<Damage> damages{
      {"'schema'", [](json& j) { j["schema"] = "tandem.sparse_loss/2"; }},
      {"'unit'", [](json& j) { j["unit"] = "nats"; }},
      {"surplus", [](json& j) { j["surplus"] = 1; }},
      {"'model.config'", [](json& j) { j["model"].erase("config"); }},
      {"num_hidden_layers", [](json& j) { j["model"]["config"]["num_hidden_layers"] = 0; }},
      {"'weights'", [](json& j) { j["weights"] = json::array(); }},
      {"'weights[0].bytes'", [](json& j) { j["weights"][0]["bytes"] = 0; }},
      {"'weights[0].tail_sha256'", [](json& j) { j["weights"][0]["tail_sha256"] = "xyz"; }},
      {"'places.rows'", [](json& j) { j["places"]["rows"] = {1.0}; }},
      {"'places.rows'", [](json& j) { j["places"]["rows"][0] = 0.5; }},
      {"'places.groups[0]'",
       [](json& j) {
         j["places"]["groups"][0] = {0, 1};
       }},
      {"'places.groups[0][2]'",
       [](json& j) {
         j["places"]["groups"][0] = {0, 0, 2, 2};
       }},
      {"'places.groups[1][2]'",
       [](json& j) {
         j["places"]["groups"] = {{0, 1, 1, 2}, {0, 0, 1, 1}};
       }},
      {"'places.prompt_tokens[1]'",
       [](json& j) {
         j["places"]["prompt_tokens"] = {300, 200};
       }},
      {"'bands[1]'",
       [](json& j) {
         j["bands"][1] = {3, 6};
       }},
      {"'bands[1]'",
       [](json& j) {
         j["bands"][1] = {4, 7};
       }},
      {"'bands'", [](json& j) { j["bands"].erase(1); }},
      {"'knots[0]'", [](json& j) { j["knots"][0] = 0.1; }},
      {"'knots[2]'", [](json& j) { j["knots"][2] = 0.4; }},
      {"'knots'", [](json& j) { j["knots"][2] = 1.0; }},
      {"'terms[0].bands[0]'", [](json& j) { j["terms"][0]["bands"] = {2}; }},
      {"'terms[0].bands'", [](json& j) { j["terms"][0]["bands"] = json::array(); }},
      {"'terms[0].levels[0]'", [](json& j) { j["terms"][0]["levels"] = {4}; }},
      {"'terms[4].levels[1]'",
       [](json& j) {
         j["terms"][4]["levels"] = {2, 2};
       }},
      {"'terms[0].loss'",
       [](json& j) {
         j["terms"][0]["loss"] = {0.0, 0.1};
       }},
      {"'terms[0].loss[0]'", [](json& j) { j["terms"][0]["loss"][0] = 0.01; }},
      {"'terms[0].loss[2]'", [](json& j) { j["terms"][0]["loss"][2] = 0.03; }},
      {"'terms[0].loss[1]'", [](json& j) { j["terms"][0]["loss"][1] = -0.01; }},
      {"'measured.settings'", [](json& j) { j["measured"]["settings"] = 0; }},
      {"'measured.documents'", [](json& j) { j["measured"]["documents"] = "two"; }},
      {"'measured.dense_bits_per_byte'",
       [](json& j) { j["measured"]["dense_bits_per_byte"] = -1.0; }},
      {"'held_out.folds'", [](json& j) { j["held_out"]["folds"] = 1; }},
      {"'held_out.worst'", [](json& j) { j["held_out"]["worst"] = 0.0001; }}};
  for (const Damage& damage : damages) {
    json damaged = good;
    damage.make(damaged);
    CAPTURE(std::string(damage.why));
    std::string message;
    try {
      static_cast<void>(read(damaged));
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.find("loss.json") == 0);
    CHECK(message.find(damage.why) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::test::loss_model_test
