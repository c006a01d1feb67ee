#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#ifdef __SANITIZE_ADDRESS__  // GCC's; clang has a feature
#define TANDEM_ADDRESSES_ARE_CHECKED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TANDEM_ADDRESSES_ARE_CHECKED
#endif
#endif

// Tests of suite "long" do much of what shorter ones do, too: a search, an experiment, another
// thousand cases. With the address sanitizer they take minutes each, so CTest is not told of them
// there. By name they run there as well.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
#ifdef TANDEM_ADDRESSES_ARE_CHECKED
  const auto lists = [](std::string_view word) {
    return word.find("list-test-cases") != std::string_view::npos;
  };
  if (std::any_of(argv + 1, argv + argc, lists)) context.addFilter("test-suite-exclude", "long");
#endif
  return context.run();
}
