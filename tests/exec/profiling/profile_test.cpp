#include "exec/profiling/profile.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <vector>

#include "exec/kernels/kernel_table.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/machine/process_facts.hpp"
#include "exec/profiling/profile_check.hpp"
#include "exec/profiling/profile_disk.hpp"
#include "exec/profiling/profile_errors.hpp"
#include "exec/profiling/profile_fit.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "exec/profiling/profile_steps.hpp"
#include "exec/profiling/synthetic_shard.hpp"
#include "model/base/error.hpp"
#include "model/predict/cost_model.hpp"
#include "tests/support/block_support.hpp"

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

TEST_CASE("profile/fit: exact measurements give back what a product costs by row") {
  // seconds = 3 us + 0.5 us * rows + bytes * f(rows), f = 0.1 ns * sqrt(rows)
  const auto seconds = [](double bytes, double rows) {
    return 3e-6 + 0.5e-6 * rows + bytes * 0.1e-9 * std::sqrt(rows);
  };
  std::vector<ProfileSample> samples;
  for (const double rows : {1.0, 32.0, 128.0}) {
    for (const double bytes : {2.5e5, 1e6})
      samples.push_back({bytes, rows, seconds(bytes, rows), true});
  }
  samples.push_back({1e6, 512.0, seconds(1e6, 512.0), true});  // of one size only
  const model::KindRate rate = fit_rate(samples);
  CHECK(rate.overhead_s == doctest::Approx(3e-6));
  CHECK(rate.row_s == doctest::Approx(0.5e-6));
  // A share of a sixteenth, which no sample has.
  CHECK(model::task_seconds(rate, 6e4, 128.0) == doctest::Approx(seconds(6e4, 128.0)));
  CHECK(model::task_seconds(rate, 1e6, 512.0) == doctest::Approx(seconds(1e6, 512.0)));
  // Rows that seem to make small sizes cheaper: none.
  for (ProfileSample& sample : samples)
    sample.seconds = sample.streamed_bytes * 1e-10 * (sample.streamed_bytes > 5e5 ? 1.2 : 1.0);
  CHECK(fit_rate(samples).row_s == 0.0);
}

TEST_CASE("profile/fit: measurements of nothing are no rate") {
  CHECK_THROWS_AS(static_cast<void>(fit_rate({})), std::logic_error);
  const std::vector<ProfileSample> empty{{0.0, 1.0, 1e-6}, {10.0, 1.0, 0.0}};
  CHECK_THROWS_AS(static_cast<void>(fit_rate(empty)), std::logic_error);
}

namespace {

model::Transformer tiny() {
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
  return t;
}

ProfileOptions quick() {
  return {.seconds = 1e-6, .stream_bytes = 1e5, .rows = {3, 16}, .finer = {}};
}

const model::KindRate& rate(const model::DeviceProfile& profile, model::TaskKind kind) {
  return profile.rate[static_cast<std::size_t>(kind)];
}

std::vector<double> intensities(const model::KindRate& of) {
  std::vector<double> all;
  for (const model::RatePoint& point : of.points) all.push_back(point.intensity);
  return all;
}

}  // namespace

TEST_CASE("profile: every kind gets positive rates in order, by threads, and JSON keeps them") {
  const model::Transformer t = tiny();
  ProfileOptions options = quick();
  options.threads = {1, 2};
  for (const KernelSet kernels : {KernelSet::tuned, KernelSet::eigen}) {
    options.kernels = kernels;
    const std::vector<model::DeviceProfile> profiles = measure_profiles(t, options);
    REQUIRE(profiles.size() == 2);
    for (const model::DeviceProfile& profile : profiles) {
      const int threads = &profile == profiles.data() ? 1 : 2;
      CAPTURE(threads);
      CHECK(profile.threads == threads);
      CHECK(profile.kernels == kernels_here(kernels));
      CHECK(profile.source.find(kernels_of(kernels).instruction_sets()) != std::string::npos);
      CHECK(profile.source.find(threads == 1 ? "1 thread, CPU time" : "2 threads, wall time") !=
            std::string::npos);
      CHECK(profile.drift.has_value());
      CHECK(profile.program_bytes > 2e6);  // code, and 1.6 MB of a session
      for (int k = 0; k < model::kTaskKinds; ++k) {
        const auto kind = static_cast<model::TaskKind>(k);
        if (kind == model::TaskKind::load || kind == model::TaskKind::release ||
            model::rate_kind(kind) != kind)
          continue;
        CAPTURE(to_string(kind));
        CHECK(rate(profile, kind).overhead_s >= 0.0);
        CHECK(rate(profile, kind).error.has_value() == (kind != model::TaskKind::transfer));
        REQUIRE(!rate(profile, kind).points.empty());
        if (kind == model::TaskKind::transfer) continue;
        CHECK(std::ranges::all_of(rate(profile, kind).points, [](const model::RatePoint& p) {
          return p.seconds_per_byte > 0.0 && p.intensity > 0.0;
        }));
      }
      CHECK(intensities(rate(profile, model::TaskKind::ffn_up)) == std::vector{1.0, 3.0, 16.0});
      CHECK(model::parse_profile_json(model::to_json(profile), "profile") == profile);
    }
    const std::string json = model::to_json(std::span(profiles));
    CHECK(model::parse_profiles_json(json, "profiles") == profiles);
  }
  CHECK_THROWS_AS((void)measure_profiles(t, {.threads = {0}}), std::logic_error);
  CHECK_THROWS_AS((void)measure_profiles(t, {.rows = {1}}), std::logic_error);
}

TEST_CASE("profile: without any time a profile still knows prompts, of the first two sizes") {
  model::Transformer t = tiny();
  t.head_dim = 32;  // whole blocks of q8_0
  ProfileOptions options = quick();
  options.rows = {3, 16, 40};
  options.formats = {model::WeightFormat::bf16};
  options.caches = {model::CacheFormat::f16, model::CacheFormat::q8_0};
  const model::DeviceProfile hasty = measure_profiles(t, options).front();
  CHECK(hasty.source.find("for lack of time no prompts of 40 tokens or more") != std::string::npos);
  const std::vector<double> expected{1.0, 3.0, 16.0};
  CHECK(intensities(rate(hasty, model::TaskKind::ffn_up)) == expected);
  REQUIRE(hasty.formats.size() == 1);
  const auto& rates = hasty.formats.front().rate;
  CHECK(intensities(rates[static_cast<std::size_t>(model::TaskKind::ffn_up)]) == expected);
  // What is beside attention, too, also over narrow caches: 16 rows of 2 heads a key/value head.
  CHECK(!rate(hasty, model::TaskKind::score).points.empty());
  REQUIRE(hasty.caches.size() == 2);
  for (const model::CacheRates& cache : hasty.caches) {
    REQUIRE(cache.score.has_value());
    CHECK(cache.score->points.back().intensity == 32.0);
  }
}

TEST_CASE("profile: without any time the head is known of 16 sequences, too") {
  ProfileOptions options = quick();
  options.rows = {3, 40};
  const model::DeviceProfile hasty = measure_profiles(tiny(), options).front();
  CHECK(intensities(rate(hasty, model::TaskKind::lm_head)) == std::vector{1.0, 3.0, 16.0});
}

TEST_CASE("profile: with time, prompts are refined and then measured again") {
  const model::Transformer t = tiny();
  ProfileOptions options = quick();
  options.seconds = 3.0;
  options.finer = {2, 8, 64};  // 64 is in no gap
  const model::DeviceProfile profile = measure_profiles(t, options).front();
  const std::vector<double> rows = intensities(rate(profile, model::TaskKind::ffn_up));
  CHECK(std::ranges::find(rows, 2.0) != rows.end());
  CHECK(std::ranges::find(rows, 8.0) != rows.end());
  CHECK(rows.back() == 16.0);
  CHECK(profile.source.find("for lack of time") == std::string::npos);
  // No fit is exact, nor are two moments the same.
  CHECK(rate(profile, model::TaskKind::ffn_up).error->fit > 0.0);
  CHECK(*profile.drift > 0.0);
}

TEST_CASE("profile/errors: the spread is within groups, whatever their means") {
  const std::vector<std::vector<double>> groups{{1.0, std::exp(0.2)}, {5.0, 5.0 * std::exp(0.2)}};
  CHECK(*relative_spread(groups) == doctest::Approx(std::sqrt(2.0 * 0.01)));
  CHECK(!relative_spread(std::vector<std::vector<double>>{{1.0}, {}, {3.0}}));
  CHECK(!relative_spread({}));
}

TEST_CASE("profile/errors: interruptions of a few moments do not make a machine's drift") {
  std::vector<std::vector<double>> groups(4);
  for (std::size_t i = 0; i < 100; ++i) {
    const double even = std::exp(0.1 * (static_cast<double>(i % 21) - 10.0) / 6.0);  // sd 0.1
    groups[i % 4].push_back(i % 50 == 7 ? 30.0 * even : even);
  }
  CHECK(*relative_spread(groups) > 0.07);
  CHECK(*relative_spread(groups) < 0.2);
}

TEST_CASE("profile/errors: a rate's are those of sizes held out, and what moments add to drift") {
  const auto work = [](double rows) {
    return model::Work{.streamed_bytes = 1e6, .intensity = rows};
  };
  const model::TaskKind up = model::TaskKind::ffn_up;
  ProfileLog log;
  for (const double moment : {0.9, 1.1}) {
    log.begin_moment();
    // Within a moment, twice as long or half as long makes no spread between moments.
    for (const double within : {0.5, 1.5}) {
      log.add(up, work(1), moment * within * 1e-3);
      log.add(up, work(16), moment * within * 4e-3);
    }
  }
  const double spread = std::abs(std::log(1.1 / 0.9)) / std::sqrt(2.0);
  CHECK(rate_error(log, up, {}, {}, 0.0).spread == doctest::Approx(spread).epsilon(1e-3));
  CHECK(rate_error(log, up, {}, {}, 0.0).fit == 0.10);  // nothing was held out
  CHECK(rate_error(log, up, {}, {}, spread).spread == 0.0);
  CHECK(rate_error(log, up, {}, {}, 2.0 * spread).spread == 0.0);
  ProfileLog others;
  others.add(up, work(8.5), 2.0e-3);                 // predicted: 2.5 ms
  others.add(model::TaskKind::norm, work(1), 1e-6);  // of which the log has none
  CHECK(rate_error(others, up, {}, std::vector{0.0}, 0.0).fit == 0.0);
  CHECK(rate_error(others, up, {}, {}, 0.0).spread == 0.10);  // nothing was measured twice
  HeldOut held_out;
  add_errors(log, others, held_out);
  REQUIRE(held_out[static_cast<std::size_t>(up)].size() == 1);
  CHECK(held_out[static_cast<std::size_t>(up)][0] == doctest::Approx(std::log(1.25)));
  CHECK(held_out[static_cast<std::size_t>(model::TaskKind::norm)].empty());
  CHECK(rate_error(log, up, {}, std::vector{0.3, -0.4}, 0.0).fit ==
        doctest::Approx(0.3536).epsilon(1e-3));
}

TEST_CASE("profile/log: one slow moment of several does not count, whatever was timed in it") {
  const model::Work work{.streamed_bytes = 1e6, .intensity = 1.0};
  ProfileLog log;
  for (const double speed : {1.0, 20.0, 1.02, 0.98, 1.01}) {
    log.begin_moment();
    const int times = speed == 20.0 ? 50 : 2;
    for (int i = 0; i < times; ++i) log.add(model::TaskKind::ffn_up, work, speed * 1e-3);
  }
  const std::vector<ProfileSample> samples = log.samples(model::TaskKind::ffn_up);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].seconds == doctest::Approx(1.01e-3));
}

TEST_CASE("profile/log: products that round their inputs are fitted by row") {
  ProfileLog log;
  log.add(model::TaskKind::ffn_up, {.streamed_bytes = 1.0}, 1.0);
  CHECK(!log.samples(model::TaskKind::ffn_up)[0].by_row);
  const model::Work rounds{.streamed_bytes = 1.0, .format = model::WeightFormat::q8_0};
  log.add(model::TaskKind::ffn_down, rounds, 1.0);
  log.add(model::TaskKind::embed, rounds, 1.0);
  CHECK(log.samples(model::TaskKind::ffn_down)[0].by_row);
  CHECK(!log.samples(model::TaskKind::embed)[0].by_row);
}

TEST_CASE("profile/steps: every visit measures every size again, on weights made anew") {
  constexpr int kVisits = 3;
  const StepOptions options{
      .threads = {1, 2}, .stream_bytes = 1e5, .rows = {3, 16, 40}, .finer = {8}};
  StepMeasurement steps(tiny(), options);
  for (int left = kVisits - 1; left >= 0; --left) {
    steps.visit(4.0, left);
    CHECK(steps.making_s() > 0.0);
  }
  for (const std::size_t threads : {std::size_t{0}, std::size_t{1}}) {
    const MeasuredSteps measured = steps.measured(threads);
    CHECK(measured.left_out.empty());
    CHECK(measured.reference_s.size() >= 2 * kVisits);
    const auto moments = measured.log.moments(model::TaskKind::attend);
    // Two tokens' contexts, four prompts, two fractions.
    CHECK(moments.size() == 12);
    for (const std::vector<double>& of_size : moments) CHECK(of_size.size() >= kVisits);
  }
}

TEST_CASE("profile/steps: what memory does not allow is left out, or one clear error") {
  model::Transformer t = tiny();
  const StepOptions options{.stream_bytes = 1e5, .rows = {1, 2, 1 << 28}, .finer = {}};
  StepMeasurement steps(t, options);
  steps.visit(1e-6, 0);
  CHECK(steps.measured(0).left_out == "for lack of memory no prompts of 268435456 tokens or more");
  const auto impossible = [&] {
    const StepMeasurement huge(t, {.stream_bytes = 1e5, .rows = {1 << 27, 1 << 28}});
  };
  CHECK_THROWS_WITH_AS(impossible(),
                       doctest::Contains("end other programs, or name a smaller model"), Error);
}

TEST_CASE("profile/rig: memory is what it is said to be") {
  model::Transformer t = tiny();
  t.hidden = 512;
  t.intermediate = 2048;
  t.vocab = 8000;
  const ProfilePart::Sizes sizes{.layer_bytes = 64e6, .max_rows = 256, .max_positions = 1024};
  const double before = field_bytes("/proc/self/status", "RssAnon:");
  const ProfilePart part(t, 1.0, sizes);
  const double taken = field_bytes("/proc/self/status", "RssAnon:") - before;
  const double expected = ProfilePart::memory_bytes(t, 1.0, sizes);
  CHECK(taken < 1.05 * expected + 8e6);  // what threads compute in
  CHECK(taken > 0.6 * expected);         // pages that were not touched
}

TEST_CASE("profile/rig: a part has whole groups of a key/value head") {
  model::Transformer t = tiny();
  t.heads = 12;
  t.kv_heads = 3;
  for (const double fraction : {0.2, 0.4, 0.5, 0.9, 1.0}) {
    CAPTURE(fraction);
    ProfileRig rig({.transformer = t, .fraction = fraction, .max_positions = 32});
    ProfileLog log;
    rig.step(1, 15, 1, ProfileClock(1), log);
    const double group = log.samples(model::TaskKind::attend).at(0).intensity;
    CHECK(group == (fraction < 0.3 ? 2.0 : 4.0));  // a part of one, or whole ones
  }
}

TEST_CASE("profile/errors: logs keep their moments apart when they are joined") {
  const model::Work work{.streamed_bytes = 1e6, .intensity = 1.0};
  ProfileLog log;
  log.add(model::TaskKind::add, work, 1.0);
  ProfileLog other;
  other.add(model::TaskKind::add, work, 2.0);
  other.begin_moment();
  other.add(model::TaskKind::add, work, 3.0);
  log.add(other);
  log.add(other);
  CHECK(log.moments(model::TaskKind::add) ==
        std::vector<std::vector<double>>{{1.0, 2.0, 3.0, 2.0, 3.0}});
  CHECK(log.total_s() == doctest::Approx(11.0));
}

// A profile says of every task what it takes, also of those that an encoder has none of.
TEST_CASE("profile: families") {
  model::Transformer t = tiny();
  for (const model::Family family :
       {model::Family::gpt2, model::Family::opt, model::Family::bert, model::Family::distilbert}) {
    CAPTURE(static_cast<int>(family));
    t.family = family;
    t.token_types = family == model::Family::bert ? 2 : 0;
    const model::DeviceProfile other = measure_profiles(t, quick()).front();
    for (const model::TaskKind kind : {model::TaskKind::attend, model::TaskKind::lm_head,
                                       model::TaskKind::sample, model::TaskKind::norm})
      CHECK(!rate(other, kind).points.empty());
  }
}

TEST_CASE("profile/check: errors of every kind that a profile has rates of") {
  model::Transformer t = tiny();
  t.max_context = 1024;
  ProfileOptions options = quick();
  options.formats = {model::WeightFormat::bf16};
  model::DeviceProfile profile = measure_profiles(t, options).front();
  const auto of = [](const std::vector<HeldOutErrors>& all, model::TaskKind kind,
                     model::WeightFormat format) {
    const auto found = std::ranges::find_if(
        all, [&](const HeldOutErrors& one) { return one.kind == kind && one.format == format; });
    REQUIRE(found != all.end());
    return found->errors;
  };
  // A profile of a machine a thousand times as slow is far off, in the direction that it says.
  const auto slow =
      check_profile(t, model::slowed(profile, 1000.0), options.kernels, options.stream_bytes);
  for (const model::WeightFormat format : {model::WeightFormat::f32, model::WeightFormat::bf16}) {
    const std::vector<double> errors = of(slow, model::TaskKind::ffn_up, format);
    CHECK(errors.size() == 6);  // one token, and five prompts
    CHECK(std::ranges::all_of(errors, [](double e) { return e > 1.0; }));
  }
  CHECK(!of(slow, model::TaskKind::attend, model::WeightFormat::f32).empty());
  const auto fast =
      check_profile(t, model::slowed(profile, 1e-3), options.kernels, options.stream_bytes);
  CHECK(std::ranges::all_of(of(fast, model::TaskKind::ffn_up, model::WeightFormat::f32),
                            [](double e) { return e < 0.0; }));
  profile.threads = 0;
  CHECK_THROWS_AS((void)check_profile(t, profile, options.kernels), std::logic_error);
}

TEST_CASE("profile: repeated rows of synthetic weights are those that are encoded one by one") {
  const model::Transformer t = tiny();
  const auto value = [](const WeightElement& e) {
    return 0.01F * static_cast<float>((e.row * 31 + e.column * 17) % 16 - 8);
  };
  const model::Share share{{0, 2}, {1, 3}, {32, 96}, true, true};
  for (const model::WeightFormat format : {model::WeightFormat::f32, model::WeightFormat::q8_0}) {
    model::Transformer of = t;
    of.formats = model::WeightFormats(format);
    const Shard whole = synthetic_shard(of, share, value);
    const Shard repeated = synthetic_shard(of, share, value, 16);
    CHECK(testing::contents_of(whole) == testing::contents_of(repeated));
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

TEST_CASE("profile/disk: without time it writes one piece and reads it once") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tandem-disk-slow-" + std::to_string(::getpid()));
  const DiskRate disk = measure_disk(
      {.folder = folder, .file_bytes = 1 << 20, .read_bytes = 4096, .passes = 3, .seconds = 0.0});
  CHECK(disk.file_bytes == 4096);
  CHECK(disk.passes == 1);
  CHECK(!disk.spread);
  CHECK(disk.rate.value() > 0.0);
  std::filesystem::remove_all(folder);
}

}  // namespace tandem::exec::profile_test
