#include "study/steady_state/boundary_points.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::study {
namespace {

constexpr std::array<std::string_view, 5> kColumns{
    "window", "release", "slack", "predicted_stall_fraction", "replayed_stall_fraction"};
constexpr std::size_t kMostPoints = 100'000;
constexpr std::int64_t kMostWindow = 1'000'000;

class Reader {
 public:
  Reader(const model::Csv& csv, std::string_view source) : csv_(csv), source_(source) {}

  std::vector<BoundaryPoint> read() {
    for (const std::string_view column : kColumns) {
      if (std::find(csv_.header.begin(), csv_.header.end(), column) == csv_.header.end())
        fail("column '" + std::string(column) + "'", "is missing", "it");
    }
    std::vector<BoundaryPoint> points;
    for (row_ = 0; row_ < csv_.rows.size(); ++row_) {
      if (points.size() == kMostPoints) fail("the file", "goes on", "at most 100000 points");
      points.push_back({.window = window(0),
                        .release = release(1),
                        .slack = number(2, -1.0, 100.0),
                        .predicted_stall_fraction = number(3, 0.0, 1.0),
                        .replayed_stall_fraction = number(4, -1.0, 1.0)});
    }
    return points;
  }

 private:
  [[nodiscard]] const std::string& cell(std::size_t column) const {
    return csv_.at(row_, kColumns.at(column));
  }
  [[noreturn]] void fail(const std::string& subject, const std::string& is,
                         const std::string& expected) const {
    const std::size_t line = row_ < csv_.lines.size() ? csv_.lines[row_] : 1;
    throw Error(std::string(source_) + ": line " + std::to_string(line) + ": " + subject + ' ' +
                is + ", expected " + expected +
                "; see 'tandem-study propositions' in docs/reference/commands.md");
  }
  [[noreturn]] void fail_cell(std::size_t column, const std::string& expected) const {
    fail(std::string(kColumns.at(column)), "is '" + cell(column).substr(0, 40) + "'", expected);
  }

  [[nodiscard]] std::int64_t window(std::size_t column) const {
    const std::string& text = cell(column);
    if (text == "unlimited") return kUnlimited;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1 ||
        value > kMostWindow)
      fail_cell(0, "blocks from 1 to 1000000, or 'unlimited'");
    return value;
  }
  [[nodiscard]] model::ReleaseRule release(std::size_t column) const {
    const std::string& text = cell(column);
    if (text == "early") return model::ReleaseRule::early;
    if (text == "late") return model::ReleaseRule::late;
    fail_cell(1, "'early' or 'late'");
  }
  [[nodiscard]] double number(std::size_t column, double least, double most) const {
    const std::string& text = cell(column);
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() ||
        !(value >= least && value <= most))
      fail_cell(column, "a number from " + std::to_string(static_cast<int>(least)) + " to " +
                            std::to_string(static_cast<int>(most)));
    return value;
  }

  const model::Csv& csv_;
  std::string_view source_;
  std::size_t row_ = std::string::npos;  // none: what is wrong is the header
};

}  // namespace

double relative_slack(double token_time_s, double stall_fraction, double slack_s) {
  const double load_s = token_time_s * (1.0 - stall_fraction) - slack_s;
  require(load_s > 0.0, "relative_slack: nothing is loaded");
  return slack_s / load_s;
}

std::vector<BoundaryPoint> parse_boundary_points(std::string_view text, std::string_view source) {
  const model::Csv csv = model::parse_csv(text, source);
  return Reader(csv, source).read();
}

std::string to_csv(const std::vector<BoundaryPoint>& points) {
  std::string csv = model::csv_line({kColumns.begin(), kColumns.end()});
  for (const BoundaryPoint& point : points) {
    csv += model::csv_line({point.window == kUnlimited ? "unlimited" : std::to_string(point.window),
                            point.release == model::ReleaseRule::early ? "early" : "late",
                            model::shortest_text(point.slack),
                            model::shortest_text(point.predicted_stall_fraction),
                            model::shortest_text(point.replayed_stall_fraction)});
  }
  return csv;
}

}  // namespace tandem::study
