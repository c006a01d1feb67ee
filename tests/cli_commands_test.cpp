#include <doctest/doctest.h>

#include "tests/cli_program.hpp"

TEST_CASE("cli/commands: version") {
  const tandem::test::Workbench bench;
  CHECK(bench.run({"--version"}).out.rfind("tandem 0.", 0) == 0);
}
