#include "model/base/named_rows.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::model::named_rows_test {
namespace {

struct Row {
  std::string name;
  int value = 0;
};

TEST_CASE("model/named rows: two rows of one name are refused, by table and name") {
  CHECK(named_rows<Row>("fruits", {}).empty());
  const std::vector<Row> good{{"apple", 1}, {"pear", 2}, {"Apple", 3}};
  CHECK(named_rows("fruits", good).size() == 3);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<Row> bad = good;
    bad.push_back(good[at]);
    CAPTURE(at);
    CHECK_THROWS_WITH_AS(static_cast<void>(named_rows("fruits", bad)),
                         ("fruits: two have the name '" + good[at].name +
                          "', expected one of its own for each; rename one")
                             .c_str(),
                         std::logic_error);
  }
}

}  // namespace
}  // namespace tandem::model::named_rows_test
