#include "exec/kernels/integer_choice.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::integer_choice_test {
namespace {

namespace fs = std::filesystem;
using model::WeightFormat;

// Kernels that do nothing but tell which ran, so that a stopwatch may say anything of each.
thread_local std::size_t last_kernel = 0;
void no_quantise(const float* /*x*/, std::int64_t /*blocks*/, const IntegerInputs& /*to*/) {}
template <std::size_t kIndex>
void no_multiply(const IntegerProduct& /*p*/) {
  last_kernel = kIndex;
}
const std::vector<IntegerKernels> kThree{{"tiles", no_quantise, no_multiply<0>},
                                         {"wide", no_quantise, no_multiply<1>},
                                         {"narrow", no_quantise, no_multiply<2>}};

// Tells each kernel's times, which repeat after so many of it, and counts what it was asked.
class FakeClock {
 public:
  explicit FakeClock(std::vector<std::vector<double>> ns) : ns_(std::move(ns)) {}
  // Always the same.
  FakeClock(double tiles, double wide, double narrow)
      : FakeClock(std::vector<std::vector<double>>{{tiles}, {wide}, {narrow}}) {}
  [[nodiscard]] Stopwatch stopwatch() {
    return [this](const std::function<void()>& work) {
      work();
      const std::vector<double>& of = ns_[last_kernel];
      return of[calls_[last_kernel]++ % of.size()];
    };
  }
  [[nodiscard]] std::size_t calls() const { return calls_[0] + calls_[1] + calls_[2]; }
  [[nodiscard]] std::size_t calls(std::size_t kernel) const { return calls_[kernel]; }

 private:
  std::vector<std::vector<double>> ns_;
  std::array<std::size_t, 3> calls_{};
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "kernels"))
    files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files.front();
}

TEST_CASE("kernels/integer choice: the first, unless another takes less by more than noise") {
  const auto of = [](std::vector<double> ns) { return fastest(ns); };
  CHECK(of({100.0}) == 0);
  CHECK(of({100.0, 100.0}) == 0);
  CHECK(of({100.0, 95.1}) == 0);
  CHECK(of({100.0, 94.9}) == 1);
  CHECK(of({100.0, 90.0, 60.0}) == 2);
  CHECK(of({100.0, 60.0, 60.0}) == 1);
  CHECK(of({100.0, 200.0, 300.0}) == 0);
  SUBCASE("what is no time chooses nothing") {
    CHECK(of({}) == 0);
    CHECK(of({100.0, 0.0}) == 0);
    CHECK(of({0.0, 10.0}) == 0);
    CHECK(of({100.0, std::nan("")}) == 0);
    CHECK(of({std::numeric_limits<double>::infinity(), 10.0}) == 0);
  }
}

TEST_CASE("kernels/integer choice: each format, few tokens and many, the least time of rounds") {
  FakeClock clock(40.0, 35.0, 30.0);
  const std::vector<KernelTimes> times = measure_kernels(kThree, clock.stopwatch());
  std::vector<std::pair<WeightFormat, TokenCount>> products;
  for (const KernelTimes& of : times) {
    products.emplace_back(of.format, of.tokens);
    CHECK(of.ns == std::vector<double>{40.0, 35.0, 30.0});
  }
  std::vector<std::pair<WeightFormat, TokenCount>> expected;
  for (const WeightFormat format : model::kWeightFormats) {
    if (!model::multiplies_integers(format)) continue;
    expected.emplace_back(format, TokenCount::few);
    expected.emplace_back(format, TokenCount::many);
  }
  CHECK(products == expected);
  // A round to warm up, and 8 of few tokens, 4 of many.
  CHECK(clock.calls() == expected.size() / 2 * 3 * (9 + 5));
  SUBCASE("the first round is not counted") {
    FakeClock cold({{1.0, 30.0, 32.0, 29.0, 31.0, 30.0, 30.0, 30.0, 30.0}, {40.0}, {40.0}});
    CHECK(measure_kernels(kThree, cold.stopwatch()).front().ns ==
          std::vector<double>{29.0, 40.0, 40.0});
  }
  SUBCASE("what takes more than 1.5 times the least is not asked again") {
    FakeClock hopeless(30.0, 46.0, 44.0);
    (void)measure_kernels(kThree, hopeless.stopwatch());
    CHECK(hopeless.calls(0) == expected.size() / 2 * (9 + 5));
    CHECK(hopeless.calls(1) == expected.size() * 2);
    CHECK(hopeless.calls(2) == hopeless.calls(0));
  }
  SUBCASE("a slow machine makes fewer rounds: 20 ms, then two a product") {
    FakeClock slow(1e6, 1e6, 1e6);
    const std::vector<KernelTimes> few = measure_kernels(kThree, slow.stopwatch());
    CHECK(few.size() == expected.size());
    CHECK(slow.calls() < expected.size() * 3 * 2 + 20);
    for (const KernelTimes& of : few) CHECK(of.ns == std::vector<double>{1e6, 1e6, 1e6});
  }
}

TEST_CASE("kernels/integer choice: real kernels multiply what they are measured with") {
  const std::span<const IntegerKernels> kernels = integer_kernels();
  std::size_t calls = 0;
  const std::vector<KernelTimes> times =
      measure_kernels(kernels, [&](const std::function<void()>& work) {
        work();
        ++calls;
        return 1e9;  // slow: plain code is among them
      });
  CHECK(!times.empty());
  CHECK(calls >= times.size() * kernels.size());
}

TEST_CASE("kernels/integer choice: times are kept, by processor and kernels") {
  const testing::TemporaryFolder folder;
  FakeClock clock(100.0, 50.0, 80.0);
  const std::vector<KernelTimes> first =
      kept_times(kThree, "Zen", folder.path(), clock.stopwatch());
  const std::size_t calls = clock.calls();
  CHECK(calls > 0);
  CHECK(kept_times(kThree, "Zen", folder.path(), clock.stopwatch()) == first);
  CHECK(clock.calls() == calls);
  CHECK(contents(only_file(folder.path())).find("Zen, generation ") != std::string::npos);
  SUBCASE("another processor") {
    (void)kept_times(kThree, "Xeon", folder.path(), clock.stopwatch());
    CHECK(clock.calls() == 2 * calls);
  }
  SUBCASE("fewer kernels, as where TANDEM_INSTRUCTIONS leaves out the best") {
    const std::vector<KernelTimes> fewer =
        kept_times(std::span(kThree).subspan(1), "Zen", folder.path(), clock.stopwatch());
    CHECK(clock.calls() > calls);
    CHECK(fewer.front().ns.size() == 2);
  }
  SUBCASE("a processor or a folder that is not known keeps nothing") {
    const testing::TemporaryFolder other;
    (void)kept_times(kThree, "", other.path(), clock.stopwatch());
    (void)kept_times(kThree, "Zen", "", clock.stopwatch());
    CHECK(clock.calls() == 3 * calls);
    CHECK(fs::is_empty(other.path()));
  }
}

TEST_CASE("kernels/integer choice: what is kept and of no use is measured again") {
  const testing::TemporaryFolder folder;
  FakeClock clock(100.0, 50.0, 80.0);
  const std::vector<KernelTimes> good = kept_times(kThree, "Zen", folder.path(), clock.stopwatch());
  const fs::path file = only_file(folder.path());
  const std::string text = contents(file);
  const auto without = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  const std::vector<std::string> bad{"",
                                     "nonsense",
                                     text.substr(0, text.size() / 2),
                                     "{}",
                                     without("tandem.kernels/1", "tandem.kernels/2"),
                                     without("Zen", "Xeon"),
                                     without("q4_0", "q4_9"),
                                     without("few", "fow"),
                                     without("100.0,", ""),
                                     without("100.0", "-1.0"),
                                     without("100.0", "\"100\""),
                                     std::string(std::size_t{1} << 20U, ' ')};
  for (const std::string& one : bad) {
    CAPTURE(one.substr(0, 200));
    std::ofstream(file, std::ios::binary | std::ios::trunc) << one;
    const std::size_t before = clock.calls();
    CHECK(kept_times(kThree, "Zen", folder.path(), clock.stopwatch()) == good);
    CHECK(clock.calls() > before);
    CHECK(contents(file) == text);
  }
}

TEST_CASE("kernels/integer choice: where nothing can be kept, times are measured all the same") {
  const testing::TemporaryFolder folder;
  FakeClock clock(100.0, 50.0, 80.0);
  SUBCASE("a file is where the folder would be") {
    std::ofstream(folder.path() / "kernels") << "a file";
    CHECK(!kept_times(kThree, "Zen", folder.path(), clock.stopwatch()).empty());
  }
  SUBCASE("a folder that is read-only") {
    if (::geteuid() == 0) return;  // who may write anywhere
    REQUIRE(::chmod(folder.path().c_str(), 0500) == 0);
    CHECK(!kept_times(kThree, "Zen", folder.path(), clock.stopwatch()).empty());
    REQUIRE(::chmod(folder.path().c_str(), 0700) == 0);
  }
  SUBCASE("the folder's parent is a file") {
    std::ofstream(folder.path() / "file") << "a file";
    CHECK(!kept_times(kThree, "Zen", folder.path() / "file" / "cache", clock.stopwatch()).empty());
  }
}

TEST_CASE("kernels/integer choice: several at once leave one whole file") {
  const testing::TemporaryFolder folder;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      FakeClock clock(100.0 + i, 50.0, 80.0);
      for (int round = 0; round < 20; ++round)
        (void)kept_times(kThree, "Zen", folder.path(), clock.stopwatch());
    });
  }
  threads.clear();
  FakeClock clock(100.0, 50.0, 80.0);
  CHECK(kept_times(kThree, "Zen", folder.path(), clock.stopwatch()).size() > 2);
  CHECK(clock.calls() == 0);
  (void)only_file(folder.path());
}

TEST_CASE("kernels/integer choice: a result tells what was chosen") {
  const auto product = [](WeightFormat format, TokenCount tokens, std::vector<double> ns) {
    return KernelTimes{.format = format, .tokens = tokens, .ns = std::move(ns)};
  };
  using enum WeightFormat;
  const std::vector<double> tiles{1.0, 2.0, 3.0};
  const std::vector<double> narrow{3.0, 2.0, 1.0};
  const auto text = [](const std::vector<KernelTimes>& times) {
    return choice_text(times, kThree);
  };
  CHECK(text({product(q8_0, TokenCount::few, tiles), product(q8_0, TokenCount::many, tiles)}) ==
        "tiles");
  CHECK(text({product(q8_0, TokenCount::few, narrow), product(q8_0, TokenCount::many, narrow)}) ==
        "narrow");
  CHECK(text({product(q8_0, TokenCount::few, narrow), product(q8_0, TokenCount::many, tiles),
              product(q4_k, TokenCount::few, narrow)}) ==
        "tiles; narrow for q8_0 of few tokens, q4_k of few tokens");
  CHECK(token_count(1) == TokenCount::few);
  CHECK(token_count(4) == TokenCount::few);
  CHECK(token_count(5) == TokenCount::many);
}

TEST_CASE("kernels/integer choice: one kernel beside plain code is no choice") {
  const testing::TemporaryFolder folder;
  if (integer_kernels().size() > 2) return;  // measured, then
  choose_integer_kernels(folder.path());
  CHECK(kernel_choice().empty());
  CHECK(fs::is_empty(folder.path()));
  for (const std::int64_t tokens : {1, 64})
    CHECK(chosen_kernels(WeightFormat::q4_k, tokens).name == integer_kernels().front().name);
}

}  // namespace
}  // namespace tandem::exec::integer_choice_test
