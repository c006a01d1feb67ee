#include "exec/profiling/profile.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "exec/kernels/kernel_table.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/profiling/profile_disk.hpp"
#include "exec/profiling/profile_fit.hpp"
#include "model/base/error.hpp"

namespace tandem::exec::profile_test {

TEST_CASE("profile/fit: exact measurements give back overhead and rates") {
  // seconds = 3 us + bytes * f(intensity), f(1) = 0.1 ns, f(8) = 0.25 ns
  std::vector<ProfileSample> samples;
  for (const double bytes : {1e4, 1e5, 1e6}) {
    samples.push_back({bytes, 1.0, 3e-6 + bytes * 0.1e-9});
    samples.push_back({bytes, 8.0, 3e-6 + bytes * 0.25e-9});
  }
  const model::KindRate rate = fit_rate(samples);
  CHECK(rate.overhead_s == doctest::Approx(3e-6));
  REQUIRE(rate.points.size() == 2);
  CHECK(rate.points[0].intensity == 1.0);
  CHECK(rate.points[0].seconds_per_byte == doctest::Approx(0.1e-9));
  CHECK(rate.points[1].intensity == 8.0);
  CHECK(rate.points[1].seconds_per_byte == doctest::Approx(0.25e-9));
}

TEST_CASE("profile/fit: sizes that do not tell overhead from bytes leave it at 0") {
  SUBCASE("one size: 1 us for 1e4 bytes is 0.1 ns a byte") {
    const std::vector<ProfileSample> one{{1e4, 1.0, 1e-6}};
    const model::KindRate rate = fit_rate(one);
    CHECK(rate.overhead_s == 0.0);
    CHECK(rate.points[0].seconds_per_byte == doctest::Approx(1e-10));
  }
  SUBCASE("twice the bytes for more than twice the time: no negative overhead") {
    const std::vector<ProfileSample> two{{1e4, 1.0, 1e-6}, {2e4, 1.0, 3e-6}};
    const model::KindRate rate = fit_rate(two);
    CHECK(rate.overhead_s == 0.0);
    CHECK(rate.points[0].seconds_per_byte > 1e-10);
    CHECK(rate.points[0].seconds_per_byte < 1.5e-10);
  }
  SUBCASE("bytes that seem free keep a positive rate") {
    const std::vector<ProfileSample> noise{{1e4, 1.0, 2e-6}, {2e4, 1.0, 1e-6}};
    CHECK(fit_rate(noise).points[0].seconds_per_byte > 0.0);
  }
}

TEST_CASE("profile/fit: measurements of nothing are no rate") {
  CHECK_THROWS_AS(fit_rate({}), std::logic_error);
  const std::vector<ProfileSample> empty{{0.0, 1.0, 1e-6}, {10.0, 1.0, 0.0}};
  CHECK_THROWS_AS(fit_rate(empty), std::logic_error);
}

TEST_CASE("profile: every kind gets positive rates in order, and JSON keeps them") {
  model::Transformer t;
  t.name = "tiny";
  t.layers = 2;
  t.hidden = 64;
  t.heads = 4;
  t.kv_heads = 2;
  t.head_dim = 16;
  t.intermediate = 96;
  t.vocab = 101;
  t.max_context = 64;
  for (const auto& [threads, kernels] :
       {std::pair(1, KernelSet::tuned), std::pair(2, KernelSet::eigen)}) {
    CAPTURE(threads);
    const model::DeviceProfile profile = measure_profile(t, {.threads = threads,
                                                             .kernels = kernels,
                                                             .seconds = 8.0,
                                                             .stream_bytes = 1e5,
                                                             .rows = {1, 3, 16}});
    CHECK(profile.kernels == kernels_here(kernels));
    CHECK(profile.source.find(kernels_of(kernels).instruction_sets()) != std::string::npos);
    CHECK(profile.source.find(threads == 1 ? "1 thread, CPU time" : "2 threads, wall time") !=
          std::string::npos);
    CHECK(profile.program_bytes > 2e6);  // code, and 1.6 MB of a session
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<model::TaskKind>(k);
      if (kind == model::TaskKind::load || kind == model::TaskKind::release ||
          model::rate_kind(kind) != kind)
        continue;
      CAPTURE(to_string(kind));
      const model::KindRate& rate = profile.rate[static_cast<std::size_t>(k)];
      CHECK(rate.overhead_s >= 0.0);
      REQUIRE(!rate.points.empty());
      if (kind == model::TaskKind::transfer) continue;
      CHECK(std::ranges::all_of(rate.points, [](const model::RatePoint& p) {
        return p.seconds_per_byte > 0.0 && p.intensity > 0.0;
      }));
    }
    const auto& up = profile.rate[static_cast<std::size_t>(model::TaskKind::ffn_up)].points;
    REQUIRE(up.size() == 3);
    CHECK(up[2].intensity == 16.0);
    CHECK(model::parse_profile_json(model::to_json(profile), "profile") == profile);
  }
  // A budget that is too small leaves out prompts and says so; single tokens are measured.
  const model::DeviceProfile hasty =
      measure_profile(t, {.seconds = 1e-6, .stream_bytes = 1e5, .rows = {1, 3, 16}});
  CHECK(hasty.source.find("for lack of time no prompts of more than 1 token") != std::string::npos);
  CHECK(hasty.rate[static_cast<std::size_t>(model::TaskKind::ffn_up)].points.size() == 1);
  // What beside attention takes prompts is then not known.
  CHECK(hasty.rate[static_cast<std::size_t>(model::TaskKind::score)].points.empty());
  CHECK(model::parse_profile_json(model::to_json(hasty), "hasty") == hasty);
  t.cache = model::CacheFormat::f32;
  const model::DeviceProfile half = measure_profile(
      t, {.seconds = 2.0, .stream_bytes = 1e5, .half_cache = true, .rows = {1, 3, 16}});
  REQUIRE(half.half_score.has_value());
  CHECK(half.half_score->points.back().intensity == 32.0);  // 16 rows of 2 heads a key/value head
  CHECK_THROWS_AS(measure_profile(t, {.threads = 0}), std::logic_error);
  // A profile says of every task what it takes, also of those that an encoder has none of.
  for (const model::Family family :
       {model::Family::gpt2, model::Family::opt, model::Family::bert, model::Family::distilbert}) {
    CAPTURE(static_cast<int>(family));
    t.family = family;
    t.token_types = family == model::Family::bert ? 2 : 0;
    const model::DeviceProfile other =
        measure_profile(t, {.seconds = 0.5, .stream_bytes = 1e5, .rows = {1, 3}});
    for (const model::TaskKind kind : {model::TaskKind::attend, model::TaskKind::lm_head,
                                       model::TaskKind::sample, model::TaskKind::norm})
      CHECK(!other.rate[static_cast<std::size_t>(kind)].points.empty());
  }
}

namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("profile/disk: whole reads of whole pages, and nothing is left behind") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tandem-disk-" + std::to_string(::getpid()));
  struct Sizes {
    std::uint64_t file, read, expected;
  };
  // 8 KiB by 4 KiB; 1 byte is a page; 3 reads of two pages hold 20,000 bytes; a read is no larger
  // than the file
  for (const Sizes& sizes : {Sizes{8192, 4096, 8192}, Sizes{1, 1, 4096}, Sizes{20'000, 8000, 24576},
                             Sizes{5000, 1 << 20, 8192}}) {
    CAPTURE(sizes.file);
    CAPTURE(sizes.read);
    const DiskRate disk = measure_disk(
        {.folder = folder, .file_bytes = sizes.file, .read_bytes = sizes.read, .passes = 3});
    CHECK(disk.file_bytes == sizes.expected);
    CHECK(disk.slowest.value() > 0.0);
    CHECK(disk.slowest <= disk.rate);
    CHECK(disk.rate <= disk.fastest);
    CHECK_FALSE(disk.method.empty());
    CHECK(files_in(folder) == 0);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("profile/disk: a folder that is a file is one error, no bytes are a caller's fault") {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tandem-disk-file-" + std::to_string(::getpid()));
  std::ofstream(file) << "x";
  CHECK_THROWS_AS((void)measure_disk({.folder = file / "x", .file_bytes = 1}), Error);
  std::filesystem::remove(file);
  CHECK_THROWS_AS((void)measure_disk({.folder = "/tmp", .file_bytes = 0}), std::logic_error);
  CHECK_THROWS_AS((void)measure_disk({.folder = "/tmp", .passes = 0}), std::logic_error);
}

}  // namespace tandem::exec::profile_test
