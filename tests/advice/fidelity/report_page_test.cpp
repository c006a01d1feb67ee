#include "advice/fidelity/report_page.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "advice/fidelity/svg_chart.hpp"
#include "model/base/digest.hpp"
#include "tests/advice/fidelity/fidelity_fixture.hpp"

namespace tandem::test::report_page_test {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

}  // namespace

TEST_CASE("study/fidelity page: base64 as in RFC 4648, section 10") {
  CHECK(study::base64_of_hex("").empty());
  CHECK(study::base64_of_hex("66") == "Zg==");
  CHECK(study::base64_of_hex("666f") == "Zm8=");
  CHECK(study::base64_of_hex("666f6f") == "Zm9v");
  CHECK(study::base64_of_hex("666f6f626172") == "Zm9vYmFy");
}

TEST_CASE("study/fidelity page: self-contained, under a policy that allows its style alone") {
  const std::string page =
      study::fidelity_page({recording_of("a", 1.1, {1.0}), recording_of("b", 0.9, {1.0}, 0.3)},
                           {"title", {{"machine", "this"}}, {"c: failed"}});
  for (const char* const foreign : {"<script", "<link", "<img", "<iframe", "style=\"", "http://",
                                    "https://", "@import", "url(", "javascript:"}) {
    CAPTURE(foreign);
    CHECK(page.find(foreign) == std::string::npos);
  }
  const std::string hash =
      study::base64_of_hex(model::sha256_hex(between(page, "<style>", "</style>")));
  CHECK(page.find("default-src 'none'; style-src 'sha256-" + hash + "'") != std::string::npos);
  CHECK(page.find("+10.0%") != std::string::npos);
  CHECK(page.find("c: failed") != std::string::npos);
  CHECK(count(page, "<tr class=\"drifted\">") == 1);
}

TEST_CASE("study/fidelity page: a testbed's deviations are apart from those of replayed links") {
  study::Recording over_tcp = recording_of("a", 1.4, {1.0});
  over_tcp.way = "testbed";
  over_tcp.environment["tcp"] = "cubic";
  CHECK(over_tcp.file_name() == "a.testbed");
  const std::string page =
      study::fidelity_page({recording_of("a", 1.1, {1.0}), over_tcp}, {"title", {}, {}});
  const std::size_t apart = page.find("<h1>Testbed: over TCP (cubic)</h1>");
  REQUIRE(apart != std::string::npos);
  CHECK(count(page, "How far predictions are off</h2>") == 2);
  CHECK(page.find("+10.0%") < apart);
  CHECK(page.find("+40.0%") > apart);
  CHECK(page.substr(0, apart).find("+25.0%") == std::string::npos);  // of both together
}

TEST_CASE("study/fidelity page: what recordings say is text") {
  const std::string hostile = "<b onclick=\"x\">&'";
  study::Recording one = recording_of(hostile, 1.1, {1.0});
  one.way = hostile;
  one.quantities.push_back(part_of("kind", hostile, 1.0, 2.0));
  const std::string page = study::fidelity_page({one}, {hostile, {{hostile, hostile}}, {hostile}});
  CHECK(page.find("<b ") == std::string::npos);
  CHECK(page.find("&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;") != std::string::npos);
}

TEST_CASE("study/fidelity page: there is one without recordings, and of values that have no log") {
  CHECK(study::fidelity_page({}, {"title", {}, {}}).find("</html>") != std::string::npos);
  const std::string page = study::fidelity_page({recording_of("a", 0.0, {1.0})}, {"title", {}, {}});
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("inf") == std::string::npos);
}

TEST_CASE("study/fidelity charts: points and bins are where their numbers are") {
  SUBCASE("predicted as measured: on the line, whose ends are corners of the square") {
    const std::string svg = study::scatter_svg("t", "ms", {{10.0, 10.0, "p"}});
    CHECK(svg.find("cx=\"177.0\" cy=\"151.0\"") != std::string::npos);  // the square's middle
    CHECK(svg.find("x1=\"52.0\" y1=\"276.0\" x2=\"302.0\" y2=\"26.0\"") != std::string::npos);
  }
  SUBCASE("bins of 5%: -60 and -50 in the first, 0 and 4.9 in one, 50 and 99 in the last") {
    const std::string svg = study::histogram_svg("t", {-60.0, -50.0, 0.0, 4.9, 50.0, 99.0});
    CHECK(count(svg, "<rect") == 3);
    CHECK(count(svg, ">2</text>") == 3);
  }
  SUBCASE("a strip: 0% in the middle, +80% at the end, the median's bar between") {
    const std::string svg = study::strips_svg("t", {{"s", {{0.0, 0.0, "p"}, {80.0, 0.0, "q"}}}});
    CHECK(svg.find("cx=\"267.0\"") != std::string::npos);
    CHECK(svg.find("cx=\"422.0\"") != std::string::npos);
    CHECK(svg.find("class=\"median\" x1=\"391.0\"") != std::string::npos);  // 40%
  }
}

}  // namespace tandem::test::report_page_test
