#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "exec/weights/move_choice.hpp"

namespace tandem::exec {
namespace {

// What a run would do: layers take `mapped` until they are copied, then `copied`, with noise.
// Returns what was named, in order, in `steps` steps.
std::vector<std::size_t> named(std::size_t layers, double mapped, double copied, double noise,
                               int steps, unsigned seed) {
  MoveChoice choice(layers);
  std::mt19937 random(seed);
  std::normal_distribution<double> error(1.0, noise);
  std::set<std::size_t> done;
  std::vector<std::size_t> all;
  for (int step = 0; step < steps; ++step) {
    if (const auto place = choice.next()) {
      done.insert(*place);
      all.push_back(*place);
    }
    const double machine = 1.0 + 0.2 * (step % 3);  // all layers of a step alike
    for (std::size_t layer = 0; layer < layers; ++layer) {
      // Not all layers are alike: every third has half as much to do again.
      const double own = layer % 3 == 0 ? 1.5 : 1.0;
      const double time = 1e6 * machine * own * (done.contains(layer) ? copied : mapped) *
                          std::max(0.5, error(random));
      choice.saw(layer, static_cast<std::int64_t>(0.5 * time));
      choice.saw(layer, static_cast<std::int64_t>(0.5 * time));
    }
  }
  return all;
}

TEST_CASE("exec/move choice: faster copies are made of every layer and the head, each once") {
  for (const std::size_t layers : {4U, 5U, 22U, 23U}) {
    CAPTURE(layers);
    const std::vector<std::size_t> places = named(layers, 1.9, 1.0, 0.02, 60, 7);
    REQUIRE(places.size() == layers + 1);
    CHECK(places.front() == layers / 2);
    CHECK(places.back() == layers);
    CHECK(std::set<std::size_t>(places.begin(), places.end()).size() == layers + 1);
  }
}

TEST_CASE("exec/move choice: where a copy is no faster one layer alone is copied") {
  for (unsigned seed = 0; seed < 50; ++seed)
    CHECK(named(22, 1.0, 1.0, 0.02, 60, seed) == std::vector<std::size_t>{11});
  CHECK(named(22, 1.0, 1.3, 0.02, 60, 1) == std::vector<std::size_t>{11});
}

TEST_CASE("exec/move choice: a gain of a sixth is found beneath noise of a twentieth") {
  int found = 0;
  for (unsigned seed = 0; seed < 50; ++seed)
    found += named(22, 1.2, 1.0, 0.05, 60, seed).size() == 23 ? 1 : 0;
  CHECK(found >= 45);
}

TEST_CASE("exec/move choice: nothing is copied of few layers, nor without steps that tell") {
  CHECK(named(3, 1.9, 1.0, 0.0, 60, 1).empty());
  MoveChoice choice(8);
  for (int step = 0; step < 100; ++step) {
    CHECK(!choice.next());
    choice.saw(2, 1000);  // one layer alone
  }
  CHECK(named(22, 1.9, 1.0, 0.02, 3, 1).empty());  // too short a run
  const std::vector<std::size_t> all = named(22, 1.9, 1.0, 0.02, 8, 1);
  CHECK(all.size() == 1);
}

TEST_CASE("exec/move choice: it ends when there is no memory") {
  MoveChoice choice(8);
  int named = 0;
  for (int step = 0; step < 40; ++step) {
    if (choice.next()) {
      ++named;
      choice.stop();
    }
    for (std::size_t layer = 0; layer < 8; ++layer) choice.saw(layer, 1000);
  }
  CHECK(named == 1);
}

}  // namespace
}  // namespace tandem::exec
