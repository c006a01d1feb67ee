#include "advice/fidelity/matrix.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "advice/fidelity/matrix_files.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::test::matrix_test {
namespace {

using study::Configuration;
using study::Half;

constexpr std::array kHalves{Half::shown, Half::set_aside};

}  // namespace

TEST_CASE("study/fidelity matrix: each half has every allowed pair of levels") {
  const study::CoveringProblem problem = study::matrix_problem();
  const auto pairs = study::allowed_pairs(problem);
  // Exclusions leave every level some pair.
  for (std::size_t f = 0; f < problem.levels.size(); ++f) {
    for (std::size_t level = 0; level < problem.levels[f]; ++level) {
      CAPTURE(study::factors()[f].levels[level]);
      const study::FactorLevel own{f, level};
      CHECK(std::ranges::any_of(pairs, [&](const study::LevelPair& pair) {
        return pair.first == own || pair.second == own;
      }));
    }
  }
  for (const Half half : kHalves) {
    const auto configurations = study::configurations(half);
    for (const study::LevelPair& pair : pairs) {
      CAPTURE(study::factors()[pair.first.factor].levels[pair.first.level]);
      CAPTURE(study::factors()[pair.second.factor].levels[pair.second.level]);
      CHECK(std::ranges::any_of(configurations, [&](const Configuration& one) {
        return one.row()[pair.first.factor] == pair.first.level &&
               one.row()[pair.second.factor] == pair.second.level;
      }));
    }
  }
}

// What `tandem plan` chooses by default changes; recordings must not.
TEST_CASE("study/fidelity matrix: plans state their types and how prompts are read") {
  for (const Configuration& one : study::configurations(Half::shown)) {
    CAPTURE(one.name());
    const std::vector<std::string> flags = study::fidelity_plan_flags(one);
    const auto value = [&](const char* flag) {
      const auto at = std::ranges::find(flags, flag);
      return at == flags.end() || at + 1 == flags.end() ? std::string() : *(at + 1);
    };
    CHECK(value("--cache-type") == "f32");
    CHECK(value("--chunk") == "whole");
    CHECK(value("--wire-type") == (value("--strategy") == "local" ? "" : "f32"));
  }
}

TEST_CASE("study/fidelity matrix: names are unique, readable, and of the half they are in") {
  std::set<std::string> names;
  for (const Half half : kHalves) {
    for (const Configuration& one : study::configurations(half)) {
      CAPTURE(one.name());
      CHECK(names.insert(one.name()).second);
      CHECK(study::is_set_aside(one.name()) == (half == Half::set_aside));
      CHECK(one.name().find_first_not_of("abcdefghijklmnopqrstuvwxyzMGB0123456789._-") ==
            std::string::npos);
      CHECK(one.name().size() < 100);
    }
  }
}

TEST_CASE("study/fidelity matrix: what a level excludes never stands beside it") {
  for (const Half half : kHalves) {
    for (const Configuration& one : study::configurations(half)) {
      CAPTURE(one.name());
      CHECK((one.level("strategy") == "local") == (one.devices() == 1));
      CHECK((one.level("latency") == study::kNoLevel) == (one.devices() == 1));
      CHECK((one.level("window") == "resident") == (one.level("disk") == study::kNoLevel));
    }
  }
}

TEST_CASE("study/fidelity matrix: the halves depend on the name alone, and are halves") {
  SUBCASE(
      "fixed for ever: the first byte of SHA-256 (\"a\": ca, \"b\": 3e, \"d\": 18, \"f\": 25)") {
    CHECK_FALSE(study::is_set_aside("a"));
    CHECK_FALSE(study::is_set_aside("b"));
    CHECK_FALSE(study::is_set_aside("d"));
    CHECK(study::is_set_aside("f"));
  }
  SUBCASE("of 10000 names 5000 +- 5 standard deviations of 50") {
    int aside = 0;
    for (int i = 0; i < 10000; ++i) aside += study::is_set_aside("name-" + std::to_string(i));
    CHECK(aside > 4750);
    CHECK(aside < 5250);
  }
  SUBCASE("neither half of the matrix has less than two fifths") {
    const auto shown = study::configurations(Half::shown).size();
    const auto aside = study::configurations(Half::set_aside).size();
    CHECK(5 * std::min(shown, aside) >= 2 * (shown + aside));
  }
}

TEST_CASE("study/fidelity matrix: every family is a model that tandem reads") {
  for (const study::Factor& factor : study::factors()) {
    if (factor.name != "family") continue;
    for (const std::string_view family : factor.levels) {
      CAPTURE(family);
      const model::Transformer geometry =
          model::parse_config_json(study::fidelity_model_config(family), "config.json");
      CHECK(geometry.layers == 8);
    }
  }
  CHECK_THROWS_AS(static_cast<void>(study::fidelity_model_config("none")), std::logic_error);
}

TEST_CASE("study/fidelity matrix: devices that need too much of a machine are all slowed down") {
  for (const Configuration& one : study::configurations(Half::shown)) {
    if (one.devices() != 8 || one.level("balance") != "even") continue;
    // 8 of 1 / 4 need 2 of this machine; a half of it is a quarter of that.
    const std::string xml = study::fidelity_platform_xml(one, 0.5);
    CHECK(xml.find("\"tandem:slowdown\" value=\"16\"") != std::string::npos);
    CHECK(study::fidelity_platform_xml(one, 2.0) == study::fidelity_platform_xml(one));
  }
}

TEST_CASE("study/fidelity matrix: one device is this machine, several have latency between them") {
  for (const Configuration& one : study::configurations(Half::shown)) {
    CAPTURE(one.name());
    const std::string xml = study::fidelity_platform_xml(one);
    if (one.devices() == 1) {
      CHECK(xml.find("\"tandem:slowdown\" value=\"1\"") != std::string::npos);
      CHECK(xml.find("<link") == std::string::npos);
    } else if (one.level("latency") == "5ms") {
      CHECK(xml.find("latency=\"2.5ms\"") != std::string::npos);  // of each of two links
    }
  }
}

}  // namespace tandem::test::matrix_test
