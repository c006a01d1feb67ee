#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "tests/support/sampled.hpp"

// Tests of suite "long" do much of what shorter ones do, too: a search, an experiment, another
// thousand cases. With sanitizers they take minutes each, so CTest is not told of them there. By
// name they run there as well.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const auto lists = [](std::string_view word) {
    return word.find("list-test-cases") != std::string_view::npos;
  };
  if (tandem::testing::kSanitized && std::any_of(argv + 1, argv + argc, lists))
    context.addFilter("test-suite-exclude", "long");
  return context.run();
}
