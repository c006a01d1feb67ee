#include "advice/fidelity/svg_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"

namespace tandem::study {
namespace {

constexpr double kMostPercent = 50.0;
constexpr double kBand = 0.10;

std::string at(double value) { return model::fixed(value, 1); }

std::string open(double width, double height, std::string_view title) {
  return "<svg role=\"img\" viewBox=\"0 0 " + at(width) + ' ' + at(height) + "\" width=\"" +
         at(width) + "\" height=\"" + at(height) + "\"><title>" + html_text(title) + "</title>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + at(x1) + "\" y1=\"" + at(y1) +
         "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) + "\"/>\n";
}

std::string text_svg(double x, double y, std::string_view anchor, std::string_view what,
                     std::string_view kind = "label") {
  return "<text class=\"" + std::string(kind) + "\" x=\"" + at(x) + "\" y=\"" + at(y) +
         "\" text-anchor=\"" + std::string(anchor) + "\">" + html_text(what) + "</text>\n";
}

std::string dot_svg(double x, double y, const ChartPoint& point) {
  return "<circle class=\"" + std::string(point.counts ? "dot" : "dot drifted") + "\" cx=\"" +
         at(x) + "\" cy=\"" + at(y) + "\" r=\"3\"><title>" + html_text(point.label) +
         "</title></circle>\n";
}

// Percent to a position on an axis of `width` from `left` on.
double across(double percent, double left, double width) {
  const double inside = std::clamp(percent, -kMostPercent, kMostPercent);
  return left + width * (inside + kMostPercent) / (2.0 * kMostPercent);
}

std::string percent_axis(double left, double top, double width, double height) {
  std::string svg;
  for (int percent = -50; percent <= 50; percent += 25) {
    const double x = across(percent, left, width);
    svg += line(x, top, x, top + height, percent == 0 ? "axis" : "grid");
    const std::string sign = percent > 0 ? "+" : "";
    svg += text_svg(x, top + height + 14.0, "middle", sign + std::to_string(percent) + '%');
  }
  return svg;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string scatter_svg(std::string_view title, std::string_view axis,
                        const std::vector<ChartPoint>& points) {
  constexpr double kSide = 250.0;
  constexpr double kLeft = 52.0;
  constexpr double kTop = 26.0;
  double least = 0.0;
  double most = 0.0;
  bool any = false;
  for (const ChartPoint& point : points) {
    if (!(point.x > 0.0 && point.y > 0.0)) continue;
    const auto [low, high] = std::minmax({std::log10(point.x), std::log10(point.y)});
    least = any ? std::min(least, low) : low;
    most = any ? std::max(most, high) : high;
    any = true;
  }
  // A little room around the points, and at least a third of a decade.
  const double margin = std::max(0.05 * (most - least), (0.33 - (most - least)) / 2.0);
  least -= margin;
  most += margin;
  const auto x_of = [&](double log) { return kLeft + kSide * (log - least) / (most - least); };
  const auto y_of = [&](double log) { return kTop + kSide * (most - log) / (most - least); };
  std::string svg = open(kLeft + kSide + 14.0, kTop + kSide + 40.0, title);
  svg += text_svg(kLeft, 16.0, "start", title, "heading");
  svg += "<polygon class=\"band\" points=\"";
  const double up = std::log10(1.0 + kBand);
  const double down = std::log10(1.0 - kBand);
  for (const auto& [x, y] : {std::pair(least, least + up), std::pair(most, most + up),
                             std::pair(most, most + down), std::pair(least, least + down)})
    svg += at(x_of(x)) + ',' + at(std::clamp(y_of(y), kTop, kTop + kSide)) + ' ';
  svg += "\"/>\n" + line(x_of(least), y_of(least), x_of(most), y_of(most), "axis");
  // Ticks at 1, 2 and 5 of each decade; of long ranges the decades only.
  const bool decades = most - least > 2.5;
  for (int decade = static_cast<int>(std::floor(least)); decade <= static_cast<int>(most) + 1;
       ++decade) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double log = decade + std::log10(digit);
      if (log < least || log > most || (decades && digit != 1.0)) continue;
      const std::string number = model::shortest_text(digit * std::pow(10.0, decade));
      svg += line(x_of(log), kTop, x_of(log), kTop + kSide, "grid");
      svg += line(kLeft, y_of(log), kLeft + kSide, y_of(log), "grid");
      svg += text_svg(x_of(log), kTop + kSide + 14.0, "middle", number);
      svg += text_svg(kLeft - 5.0, y_of(log) + 4.0, "end", number);
    }
  }
  for (const ChartPoint& point : points) {
    if (point.x > 0.0 && point.y > 0.0)
      svg += dot_svg(x_of(std::log10(point.x)), y_of(std::log10(point.y)), point);
  }
  svg += text_svg(kLeft + kSide / 2.0, kTop + kSide + 32.0, "middle",
                  "measured (median), " + std::string(axis));
  svg += text_svg(kLeft + kSide - 4.0, kTop + kSide - 6.0, "end", "y: predicted, band: 10%");
  return svg + "</svg>\n";
}

std::string histogram_svg(std::string_view title, const std::vector<double>& values) {
  constexpr double kWidth = 290.0;
  constexpr double kHeight = 110.0;
  constexpr double kLeft = 22.0;
  constexpr double kTop = 26.0;
  constexpr std::size_t kBins = 20;
  constexpr double kBin = 2.0 * kMostPercent / static_cast<double>(kBins);
  std::array<std::size_t, kBins> counts{};
  for (const double value : values) {
    const double position = (std::clamp(value, -kMostPercent, kMostPercent) + kMostPercent) / kBin;
    ++counts.at(std::min(kBins - 1, static_cast<std::size_t>(position)));
  }
  const double most =
      static_cast<double>(std::max<std::size_t>(1, *std::ranges::max_element(counts)));
  std::string svg = open(kLeft + kWidth + 22.0, kTop + kHeight + 22.0, title);
  svg +=
      text_svg(kLeft, 16.0, "start", title, "heading") + percent_axis(kLeft, kTop, kWidth, kHeight);
  const double width = kWidth / static_cast<double>(kBins);
  for (std::size_t i = 0; i < kBins; ++i) {
    if (counts.at(i) == 0) continue;
    const double height = (kHeight - 14.0) * static_cast<double>(counts.at(i)) / most;
    const double x = kLeft + width * static_cast<double>(i);
    svg += "<rect class=\"bar\" x=\"" + at(x + 0.5) + "\" y=\"" + at(kTop + kHeight - height) +
           "\" width=\"" + at(width - 1.0) + "\" height=\"" + at(height) + "\"/>\n";
    svg += text_svg(x + width / 2.0, kTop + kHeight - height - 3.0, "middle",
                    std::to_string(counts.at(i)));
  }
  return svg + "</svg>\n";
}

std::string strips_svg(std::string_view title, const std::vector<Strip>& strips) {
  constexpr double kLeft = 112.0;
  constexpr double kWidth = 310.0;
  constexpr double kRow = 20.0;
  constexpr double kTop = 26.0;
  const double height = kRow * static_cast<double>(strips.size());
  std::string svg = open(kLeft + kWidth + 26.0, kTop + height + 22.0, title);
  svg += text_svg(4.0, 16.0, "start", title, "heading") + percent_axis(kLeft, kTop, kWidth, height);
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const double y = kTop + kRow * (static_cast<double>(i) + 0.5);
    svg += text_svg(kLeft - 8.0, y + 4.0, "end", strips[i].label);
    std::vector<double> values;
    for (const ChartPoint& point : strips[i].points) {
      values.push_back(point.x);
      svg += dot_svg(across(point.x, kLeft, kWidth), y, point);
    }
    if (values.empty()) continue;
    const double x = across(model::quantile(values, 0.5), kLeft, kWidth);
    svg += line(x, y - 8.0, x, y + 8.0, "median");
  }
  return svg + "</svg>\n";
}

}  // namespace tandem::study
