#include "planner/partition/exact/division.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "planner/partition/equation5.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/share_search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::division_test {
namespace {

using planner::Budget;
using planner::Division;
using planner::DivisionDevice;
using planner::DivisionProblem;
using planner::Split;
using Counts = std::vector<std::int64_t>;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Heads' times neither convex nor concave, rooms from none to ample.
DivisionProblem random_problem(std::mt19937& random, int devices, std::int64_t heads,
                               std::int64_t group, std::int64_t units) {
  const auto number = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  DivisionProblem problem{.heads = heads, .group = group, .units = units};
  for (int d = 0; d < devices; ++d) {
    const double slow = number(0.3, 3.0);
    DivisionDevice device{.first_s = slow * number(0.01, 0.2),
                          .next_s = slow * number(0.005, 0.05)};
    const double memory = number(0.3, 1.5) * static_cast<double>(units);
    const double of_head = static_cast<double>(units) / static_cast<double>(heads) * 0.5;
    for (std::int64_t h = 0; h <= heads; ++h) {
      const double time = h == 0 ? 0.0 : slow * (number(0.0, 0.3) + 0.1 * static_cast<double>(h));
      device.heads_s.push_back({time, h == 0 ? 0.0 : time + slow * 0.04});
      const auto room = [&](double taken) {
        const double left = memory - taken * of_head;
        return left < 0.0 ? std::int64_t{-1} : static_cast<std::int64_t>(left);
      };
      device.room.push_back(
          {room(static_cast<double>(h)), room(static_cast<double>(h) + (h > 0 ? 0.5 : 0.0))});
    }
    problem.devices.push_back(std::move(device));
  }
  return problem;
}

std::size_t extra(const DivisionProblem& problem, std::int64_t begin, std::int64_t count) {
  if (count == 0) return 0;
  const std::int64_t g = problem.group;
  const std::int64_t touched = (begin + count - 1) / g - begin / g + 1;
  return touched > (count + g - 1) / g ? 1 : 0;
}

// The least of both objectives over every division.
struct Least {
  double stragglers = kNever;
  double both = kNever;
};

void try_all(const DivisionProblem& p, Least& least, std::size_t d, std::int64_t begin,
             std::int64_t units, double heads_s, double units_s, double both) {
  if (d == p.devices.size()) {
    if (begin != p.heads || units != p.units) return;
    least.stragglers = std::min(least.stragglers, heads_s + units_s);
    least.both = std::min(least.both, both);
    return;
  }
  const DivisionDevice& device = p.devices[d];
  for (std::int64_t h = p.least_heads; begin + h <= p.heads; ++h) {
    const std::size_t e = extra(p, begin, h);
    const double time = device.heads_s[static_cast<std::size_t>(h)].at(e);
    for (std::int64_t u = p.least_units; units + u <= p.units; ++u) {
      if (u > device.room[static_cast<std::size_t>(h)].at(e)) break;
      if (p.all_busy && h == 0 && u == 0) continue;
      try_all(p, least, d + 1, begin + h, units + u, std::max(heads_s, time),
              std::max(units_s, device.units_s(u)), std::max(both, time + device.units_s(u)));
    }
  }
}

Least brute_force(const DivisionProblem& problem) {
  Least least;
  try_all(problem, least, 0, 0, 0, 0.0, 0.0, 0.0);
  return least;
}

void check_division(const DivisionProblem& problem, const Division& found) {
  CHECK(std::accumulate(found.heads.begin(), found.heads.end(), std::int64_t{0}) == problem.heads);
  CHECK(std::accumulate(found.units.begin(), found.units.end(), std::int64_t{0}) == problem.units);
  std::int64_t begin = 0;
  int bad = 0;
  for (std::size_t d = 0; d < problem.devices.size(); ++d) {
    const std::int64_t h = found.heads[d];
    if (found.units[d] >
        problem.devices[d].room[static_cast<std::size_t>(h)].at(extra(problem, begin, h)))
      ++bad;
    begin += h;
  }
  CHECK(bad == 0);
}

TEST_CASE("planner/division: as good as the best of all divisions, or as infeasible") {
  std::mt19937 random(5);
  int feasible = 0;
  int infeasible = 0;
  for (int trial = 0; trial < 400; ++trial) {
    CAPTURE(trial);
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    const std::int64_t group = trial % 3 == 0 ? 2 : 1;
    DivisionProblem problem = random_problem(random, devices, devices > 3 ? 4 : 6, group, 7);
    problem.least_heads = trial % 5 == 0 ? 1 : 0;
    const Least least = brute_force(problem);
    const auto found = least_stragglers(problem);
    CHECK(found.has_value() == (least.stragglers < kNever));
    if (!found) {
      ++infeasible;
      CHECK(least_straggler_of_both(problem) == kNever);
      continue;
    }
    ++feasible;
    check_division(problem, *found);
    CHECK(found->heads_s + found->units_s == doctest::Approx(least.stragglers).epsilon(1e-9));
    CHECK(least_straggler_of_both(problem) == doctest::Approx(least.both).epsilon(1e-9));
    CHECK(least_straggler_of_both(problem) <= least.both);
  }
  CHECK(feasible > 100);
  CHECK(infeasible > 20);
}

// CPLEX's format, which CBC and GLPK read. A binary y_d_h says that device d has h heads.
std::string mixed_integer_program(const DivisionProblem& p) {
  std::ostringstream lp;
  lp.precision(17);
  const auto y = [](std::size_t d, std::size_t h) {
    return "y_" + std::to_string(d) + "_" + std::to_string(h);
  };
  std::ostringstream rows;
  rows.precision(17);
  std::string heads;
  std::string units;
  std::string binaries;
  std::string integers;
  for (std::size_t d = 0; d < p.devices.size(); ++d) {
    const DivisionDevice& device = p.devices[d];
    const std::string u = "u_" + std::to_string(d);
    const std::string z = "z_" + std::to_string(d);
    std::ostringstream one;
    std::ostringstream time;
    std::ostringstream room;
    time.precision(17);
    for (std::size_t h = 0; h < device.heads_s.size(); ++h) {
      one << (h ? " + " : "") << y(d, h);
      time << " - " << device.heads_s[h][0] << ' ' << y(d, h);
      if (device.room[h][0] < 0) rows << ' ' << y(d, h) << " = 0\n";
      room << " - " << std::max<std::int64_t>(0, device.room[h][0]) << ' ' << y(d, h);
      if (h) heads += " + " + std::to_string(h) + ' ' + y(d, h);
      binaries += ' ' + y(d, h);
    }
    rows << ' ' << one.str() << " = 1\n ta" << time.str() << " >= 0\n " << u << room.str()
         << " <= 0\n tb" << (device.first_s < device.next_s ? " + " : " - ")
         << std::abs(device.first_s - device.next_s) << ' ' << z << " - " << device.next_s << ' '
         << u << " >= 0\n " << u << " - " << p.units << ' ' << z << " <= 0\n " << u << " - " << z
         << " >= 0\n " << z << " - " << y(d, 0) << " >= 0\n";
    units += " + " + u;
    binaries += ' ' + z;
    integers += ' ' + u;
  }
  lp << "Minimize\n obj: ta + tb\nSubject To\n"
     << rows.str() << ' ' << heads << " = " << p.heads << "\n " << units << " = " << p.units
     << "\nBinary\n"
     << binaries << "\nGeneral\n"
     << integers << "\nEnd\n";
  return lp.str();
}

// Nothing if there is no solution. `solver` is GLPK's program.
std::optional<double> solved(const std::string& program) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("tandem-milp-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  const std::string in = (folder / "in.lp").string();
  const std::string out = (folder / "out.txt").string();
  std::ofstream(in) << program;
  const int status = std::system(
      ("glpsol --mipgap 0 --tmlim 60 --lp " + in + " -o " + out + " >/dev/null").c_str());
  CAPTURE(program);
  REQUIRE(status == 0);
  std::ifstream result(out);
  std::optional<double> value;
  bool optimal = false;
  for (std::string line; std::getline(result, line);) {
    if (line.rfind("Status:", 0) == 0) optimal = line.find("INTEGER OPTIMAL") != std::string::npos;
    const std::size_t equals = line.find('=');
    if (line.rfind("Objective:", 0) == 0 && optimal) value = std::stod(line.substr(equals + 1));
  }
  std::filesystem::remove_all(folder);
  return value;
}

TEST_CASE("planner/division: a mixed-integer solver finds nothing better") {
  if (std::system("command -v glpsol >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: no glpsol (Debian's glpk-utils)");
    return;
  }
  std::mt19937 random(23);
  int feasible = 0;
  for (int trial = 0; trial < 30; ++trial) {
    CAPTURE(trial);
    const int devices = std::uniform_int_distribution<int>(2, 5)(random);
    const DivisionProblem problem = random_problem(random, devices, 12, 1, 40);
    const std::optional<double> best = solved(mixed_integer_program(problem));
    const auto found = least_stragglers(problem);
    CHECK(best.has_value() == found.has_value());
    if (!best || !found) continue;
    ++feasible;
    // GLPK prints nine digits and takes 1e-7 for whole.
    CHECK(found->heads_s + found->units_s == doctest::Approx(*best).epsilon(1e-6));
  }
  CHECK(feasible > 10);
}

planner::Plan outline(const std::string& strategy, const ModelSizes& sizes,
                      const std::vector<DeviceSpec>& devices) {
  planner::Plan plan{.strategy = strategy,
                     .partition = "exact",
                     .allreduce = {"star", "star"},
                     .model = small_model(sizes),
                     .cluster = star_cluster(devices),
                     .master = 0,
                     .workload = {.prompt_tokens = 5, .new_tokens = 3},
                     .devices = {},
                     .profiles = {}};
  for (const model::Device& device : plan.cluster.devices())
    plan.profiles.push_back(model::nominal_profile(device));
  return plan;
}

void each_split(const Budget& budget, Split& split, std::size_t device, std::int64_t heads,
                std::int64_t columns, const std::function<void(const Split&)>& take) {
  const bool last = device + 1 == budget.devices();
  for (std::int64_t h = last ? heads : 0; h <= heads; ++h) {
    for (std::int64_t c = last ? columns : 0; c <= columns; ++c) {
      if (h == 0 && c == 0) continue;
      split.heads[device] = h;
      split.columns[device] = c;
      if (!last) {
        each_split(budget, split, device + 1, heads - h, columns - c, take);
      } else if (budget.fits(split)) {
        take(split);
      }
    }
  }
}

// Also what Galaxy's heuristic finds, beside the best: its failures and what it loses are counted.
TEST_CASE("planner/equation 5: the exact split is the best of all, Algorithm 1 seldom") {
  std::mt19937 random(17);
  int feasible = 0;
  int failures = 0;
  int solved = 0;
  int worse = 0;
  double lost = 0.0;
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const ModelSizes sizes{.heads = 4, .kv_heads = trial % 2 == 0 ? 4 : 2, .intermediate = 7};
    std::vector<DeviceSpec> specs(std::uniform_int_distribution<std::size_t>(2, 3)(random));
    for (DeviceSpec& spec : specs)
      spec.flops_per_s = std::uniform_real_distribution<double>(2e8, 3e9)(random);
    const std::vector<double> exchange(specs.size(), 100.0);
    planner::Plan plan = outline("tensor", sizes, specs);
    Split all{Counts(specs.size()), Counts(specs.size())};
    for (std::size_t d = 0; d < specs.size(); ++d) {
      all.heads.assign(specs.size(), 0);
      all.columns.assign(specs.size(), 0);
      all.heads[d] = 4;
      all.columns[d] = 7;
      const Budget ample(plan, exchange);
      specs[d].memory_bytes = ample.use(d, to_shares(plan.model, 0, all)[d]).total() *
                              std::uniform_real_distribution<double>(0.5, 1.1)(random);
    }
    plan = outline("tensor", sizes, specs);
    const Budget budget(plan, exchange);
    double best = kNever;
    Split split{Counts(specs.size()), Counts(specs.size())};
    each_split(budget, split, 0, 4, 7,
               [&](const Split& one) { best = std::min(best, equation5(plan, one).total()); });
    const auto exact = exact_split(budget);
    CHECK(exact.has_value() == (best < kNever));
    CHECK(planner::any_split(budget).has_value() == (best < kNever));
    const auto bound = equation5_bound(budget);
    CHECK(bound.has_value() == (best < kNever));
    if (!exact) continue;
    ++feasible;
    CHECK(budget.fits(*exact));
    CHECK(equation5(plan, *exact).total() == doctest::Approx(best).epsilon(1e-9));
    CHECK(*bound <= best * (1.0 + 1e-9));
    const Split galaxy = galaxy_split(budget, capacities(plan));
    if (!budget.fits(galaxy)) {
      ++failures;
      continue;
    }
    bool idles = false;  // which no plan may
    for (std::size_t d = 0; d < specs.size(); ++d)
      idles = idles || (galaxy.heads[d] == 0 && galaxy.columns[d] == 0);
    if (idles) continue;
    ++solved;
    const double taken = equation5(plan, galaxy).total();
    CHECK(taken >= best * (1.0 - 1e-9));
    worse += taken > best * (1.0 + 1e-6) ? 1 : 0;
    lost += taken / best - 1.0;
  }
  MESSAGE("of " << feasible << " with a split that fits, Algorithm 1 fails at " << failures
                << " and is slower in " << worse << ", by " << 100.0 * lost / solved
                << "% on average over all it solves");
  CHECK(feasible > 80);
  CHECK(failures * 5 <= feasible);
  CHECK(worse > 0);
}

TEST_CASE("planner/equation 5: everybody has heads and columns where that costs nothing") {
  for (const char* strategy : {"tensor", "galaxy"}) {
    const planner::Plan plan = outline(strategy, {.heads = 8, .kv_heads = 8, .intermediate = 64},
                                       std::vector<DeviceSpec>(4));
    const auto split = exact_split(Budget(plan, std::vector<double>(4, 0.0)));
    REQUIRE(split);
    CHECK(*split == Split{{2, 2, 2, 2}, {16, 16, 16, 16}});
  }
}

}  // namespace
}  // namespace tandem::test::division_test
