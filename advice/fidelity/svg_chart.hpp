#pragma once

// Charts of deviations as inline SVG: no script, no style attribute; colours are classes of the
// page (report_page.cpp).

#include <string>
#include <string_view>
#include <vector>

namespace tandem::study {

// `text` with the characters escaped that HTML gives a meaning.
[[nodiscard]] std::string html_text(std::string_view text);

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;
  std::string label{};  // shown when pointed at
  bool counts = true;   // else drawn hollow
};

// y over x on logarithmic axes of equal range, with the line y = x and the band of +-10% around
// it. `axis` names unit and scale ("ms"). Points that are not above 0 are left out.
[[nodiscard]] std::string scatter_svg(std::string_view title, std::string_view axis,
                                      const std::vector<ChartPoint>& points);

// How many of `values` (percent) lie in each bin of 5 from -50 to 50; the bins at both ends have
// what lies beyond.
[[nodiscard]] std::string histogram_svg(std::string_view title, const std::vector<double>& values);

struct Strip {
  std::string label;
  std::vector<ChartPoint> points;  // by x, percent
};

// A row of points a strip, on one axis from -50 to 50%, with each strip's median as a bar; points
// beyond are drawn at the ends.
[[nodiscard]] std::string strips_svg(std::string_view title, const std::vector<Strip>& strips);

}  // namespace tandem::study
