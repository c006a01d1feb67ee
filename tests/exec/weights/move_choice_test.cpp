#include "exec/weights/move_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace tandem::exec::move_choice_test {
namespace {

using std::chrono::nanoseconds;

constexpr double kLayerNs = 1e6;  // what a layer takes once it is copied

struct Run {
  std::size_t layers = 22;
  double mapped = 1.0;  // what a layer takes before, of kLayerNs
  double copied = 1.0;
  double noise = 0.02;
  int steps = 60;
  unsigned seed = 1;
  std::int64_t left = 1'000'000;  // at the first step
  double cost = 1.0;              // of a layer's copy, of kLayerNs
  double later = 1.0;             // what others cost than the first, of that
  int slow = 1'000'000;           // steps after which what is mapped is as fast as a copy
};

struct Done {
  std::vector<std::size_t> places;  // that were copied to their end, in order
  std::vector<std::size_t> named;   // first a layer each, then as often as it was worked at
  double longest_ns = 0.0;          // that a step was made longer by
  double at_most_ns = 0.0;          // that it was asked to be
  std::optional<std::size_t> undone;
};

Done made(const Run& run) {
  MoveChoice choice(run.layers);
  std::mt19937 random(run.seed);
  std::normal_distribution<double> normal;
  std::set<std::size_t> there;
  Done done;
  double spent = 0.0;  // at the present place
  for (int step = 0; step < run.steps; ++step) {
    if (const auto move = choice.next(run.left - step)) {
      if (done.named.empty() || done.named.back() != move->place) spent = 0.0;
      done.named.push_back(move->place);
      const double all = run.cost * (move->place == run.layers / 2 ? 1.0 : run.later) * kLayerNs;
      const double now = std::min(all - spent, static_cast<double>(move->at_most.count()));
      spent += now;
      done.longest_ns = std::max(done.longest_ns, now);
      done.at_most_ns = static_cast<double>(move->at_most.count());
      const double part = spent >= all ? 1.0 : spent / all;
      if (!choice.copied(nanoseconds(static_cast<std::int64_t>(now)), part)) {
        CHECK(!done.undone);
        done.undone = move->place;
      } else if (part == 1.0) {
        there.insert(move->place);
        done.places.push_back(move->place);
      }
    }
    const double machine = 1.0 + 0.2 * (step % 3);  // all layers of a step alike
    for (std::size_t layer = 0; layer < run.layers; ++layer) {
      // Not all layers are alike: every third has half as much to do again.
      const double own = layer % 3 == 0 ? 1.5 : 1.0;
      const double time = kLayerNs * machine * own *
                          (there.contains(layer) || step >= run.slow ? run.copied : run.mapped) *
                          std::max(0.5, (1.0 + run.noise * normal(random)));
      choice.saw(layer, static_cast<std::int64_t>(0.5 * time));
      choice.saw(layer, static_cast<std::int64_t>(0.5 * time));
    }
  }
  return done;
}

std::vector<std::size_t> named(std::size_t layers, double mapped, double copied, double noise,
                               int steps, unsigned seed) {
  return made({.layers = layers,
               .mapped = mapped,
               .copied = copied,
               .noise = noise,
               .steps = steps,
               .seed = seed})
      .places;
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
    CHECK(!choice.next(1000));
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
    if (choice.next(1000)) {
      ++named;
      choice.stop();
    }
    for (std::size_t layer = 0; layer < 8; ++layer) choice.saw(layer, 1000);
  }
  CHECK(named == 1);
}

TEST_CASE("exec/move choice: a copy pays if it costs less than it gains in the steps behind it") {
  SUBCASE("20 ms for 0.4 ms a step: 50 steps give it back, the 51st gains") {
    CHECK(!copy_pays(20.0, 0.4, 50, 0));
    CHECK(copy_pays(20.0, 0.4, 51, 0));
  }
  SUBCASE("made in 4 steps, from the 55th") {
    CHECK(!copy_pays(20.0, 0.4, 54, 4));
    CHECK(copy_pays(20.0, 0.4, 55, 4));
  }
  SUBCASE("never where it gains nothing, or nobody knows of a step") {
    CHECK(!copy_pays(1.0, 0.0, 1'000'000, 0));
    CHECK(!copy_pays(1.0, -1.0, 1'000'000, 0));
    CHECK(!copy_pays(0.0, 1.0, 0, 0));
  }
}

TEST_CASE("exec/move choice: layers are copied while that pays") {
  // Without noise, and layers that take 1.2 and 1.4 of 1.4 ms (the median step of three): a copy of
  // 8 ms gains 0.24 of 1.2 ms a step, in 33 steps or fewer nothing.
  const auto copies = [](std::int64_t left) {
    return made({.mapped = 1.25, .noise = 0.0, .steps = 400, .left = left, .cost = 8.0})
        .places.size();
  };
  CHECK(copies(1'000) == 23);
  CHECK(copies(0) == 0);
  CHECK(copies(5) == 0);
  std::size_t before = 0;
  for (std::int64_t left = 0; left <= 120; ++left) {  // more steps, never fewer copies
    const std::size_t now = copies(left);
    CHECK(now >= before);
    before = now;
  }
  // One layer is copied in 2 steps, after 3, and 5 later it is known: two more layers each 4 steps.
  CHECK(copies(30) <= 1);
  CHECK(copies(60) >= 2);
  CHECK(copies(60) < 23);
}

TEST_CASE("exec/move choice: memory that turns out to be dear ends it, and what is half copied") {
  // A first copy of 2 ms gains half a millisecond in each of some 60 steps, others would cost 200.
  const Done dear = made({.mapped = 1.5, .noise = 0.0, .left = 70, .cost = 2.0, .later = 100.0});
  CHECK(dear.places == std::vector<std::size_t>{11});
  CHECK(dear.undone == std::optional<std::size_t>(0));
  // As dear as two layers' gain in what is left: the second is copied, and tells the others' cost.
  const Done once = made({.mapped = 1.5, .noise = 0.0, .left = 70, .cost = 2.0, .later = 13.0});
  CHECK(once.places.size() >= 2);
  CHECK(once.places.size() < 23);
  CHECK(made({.mapped = 1.5, .noise = 0.0, .left = 70, .cost = 2.0}).places.size() == 23);
}

TEST_CASE("exec/move choice: it ends when what is mapped has become as fast") {
  const Run run{.mapped = 3.0, .noise = 0.0, .steps = 400, .cost = 30.0, .slow = 20};
  const Done done = made(run);
  CHECK(done.places.size() >= 2);
  CHECK(done.places.size() < 12);
  CHECK(made({.mapped = 3.0, .noise = 0.0, .steps = 400, .cost = 30.0}).places.size() == 23);
}

TEST_CASE("exec/move choice: a step is not longer by more than a quarter") {
  const Done done = made({.mapped = 1.9, .noise = 0.0, .steps = 400, .cost = 40.0});
  CHECK(done.places.size() == 23);
  CHECK(done.named.size() > 3 * 23);
  // 8 layers of 1.5 and 14 of 1, of 1.9 ms each in the slowest of three steps.
  CHECK(done.longest_ns <= 0.25 * 1.4 * 1.9 * kLayerNs * (8 * 1.5 + 14) + 1);
  const Done before = made({.mapped = 1.9, .noise = 0.0, .steps = 5, .cost = 40.0});
  CHECK(before.at_most_ns == doctest::Approx(0.25 * 1.9 * 26e6 * 1.4).epsilon(0.5));
}

TEST_CASE("exec/move choice: a first copy that cannot pay stays undone") {
  // Of 30 steps half a layer's time is at most 30 * 0.5 = 15 layers' time.
  const Done dear = made({.mapped = 1.9, .noise = 0.0, .left = 30, .cost = 60.0});
  CHECK(dear.undone == std::optional<std::size_t>(11));
  CHECK(dear.places.empty());
  CHECK(dear.named.size() == 1);
  const Done cheap = made({.mapped = 1.9, .noise = 0.0, .left = 30, .cost = 6.0});
  CHECK(!cheap.undone);
  CHECK(!cheap.places.empty());
}

}  // namespace
}  // namespace tandem::exec::move_choice_test
