// A worker's profile is measured once for each thing that changes it.

#include "exec/discovery/kept_profile.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::test::kept_profile_test {

using namespace tandem::exec;

namespace {

ProfileOrder tiny_order() {
  model::Transformer transformer =
      testing::in_blocks(testing::small_llama(), model::WeightFormat::q8_0);
  transformer.formats = model::WeightFormats();
  ProfileOrder order;
  order.model = to_config_json(transformer);
  order.milliseconds = 100;
  return order;
}

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::string fault_of(const WorkerMachine& machine, const ProfileOrder& order) {
  try {
    static_cast<void>(machine_profile(machine, order, {}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("discovery/kept profile: the second order is answered with the first one's profile") {
  const testing::TemporaryFolder folder;
  WorkerMachine machine{.cache_dir = folder.path(), .program = "1", .threads = 1};
  ProfileOrder order = tiny_order();
  const model::DeviceProfile first = machine_profile(machine, order, {});
  CHECK(first.threads == 1);
  CHECK(first.disk_bandwidth.value() > 0.0);
  const std::filesystem::path kept = folder.path() / "profiles";
  CHECK(files_in(kept) == 1);
  bool asked = false;
  CHECK(machine_profile(machine, order, [&] { asked = true; }) == first);
  CHECK_FALSE(asked);
  SUBCASE("--fresh measures all the same") {
    order.measure = true;
    static_cast<void>(machine_profile(machine, order, [&] { asked = true; }));
    CHECK(asked);
    CHECK(files_in(kept) == 1);
  }
  SUBCASE("another version of the program measures anew, and keeps both") {
    machine.program = "2";
    static_cast<void>(machine_profile(machine, order, [&] { asked = true; }));
    CHECK(asked);
    CHECK(files_in(kept) == 2);
  }
  SUBCASE("so does another format") {
    order.formats = {"q8_0"};
    CHECK(machine_profile(machine, order, {}).formats.size() == 1);
    CHECK(files_in(kept) == 2);
  }
  SUBCASE("a file that is no profile is measured again") {
    for (const auto& file : std::filesystem::directory_iterator(kept))
      std::ofstream(file.path()) << "{}";
    static_cast<void>(machine_profile(machine, order, [&] { asked = true; }));
    CHECK(asked);
  }
}

TEST_CASE("discovery/kept profile: what cannot be measured is one error") {
  const testing::TemporaryFolder folder;
  const WorkerMachine machine{.cache_dir = folder.path(), .program = "1", .threads = 1};
  ProfileOrder order = tiny_order();
  order.formats = {"q9_9"};
  CHECK(fault_of(machine, order).find("format 'q9_9', expected one of weights") !=
        std::string::npos);
  order.formats = {"q8_0", "q8_0"};
  CHECK(fault_of(machine, order).find("format 'q8_0', expected") != std::string::npos);
  order.formats = {"q4_k"};  // rows of 64 numbers are no blocks of 256
  CHECK_FALSE(fault_of(machine, order).empty());
  order.formats.clear();
  order.model = "{}";
  CHECK(fault_of(machine, order).find("profile order") != std::string::npos);
}

TEST_CASE(
    "discovery/kept profile: what the check throws ends the measurement, and nothing is kept") {
  const testing::TemporaryFolder folder;
  const WorkerMachine machine{.cache_dir = folder.path(), .program = "1", .threads = 1};
  int steps = 0;
  CHECK_THROWS_WITH_AS(static_cast<void>(machine_profile(machine, tiny_order(),
                                                         [&] {
                                                           if (++steps == 3) throw Error("enough");
                                                         })),
                       "enough", Error);
  CHECK(!std::filesystem::exists(folder.path() / "profiles"));
}

}  // namespace tandem::test::kept_profile_test
