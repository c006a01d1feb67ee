#include "study/steady_state/boundary_points.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "model/error.hpp"

namespace tandem::study {
namespace {

constexpr std::array<std::string_view, 5> kColumns{
    "window", "release", "slack", "predicted_stall_fraction", "measured_stall_fraction"};
constexpr std::size_t kMostPoints = 100'000;
constexpr std::size_t kMostCells = 100;
constexpr std::int64_t kMostWindow = 1'000'000;

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos || cells.size() > kMostCells) return cells;
    line.remove_prefix(comma + 1);
  }
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view source) : rest_(text), source_(source) {}

  std::vector<BoundaryPoint> read() {
    if (!next()) fail("the file", "is empty", "a header line");
    const std::vector<std::string_view> header = cells_of(line_);
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const auto at = std::find(header.begin(), header.end(), kColumns[c]);
      if (at == header.end()) fail("column '" + std::string(kColumns[c]) + "'", "is missing", "it");
      places_[c] = static_cast<std::size_t>(at - header.begin());
    }
    std::vector<BoundaryPoint> points;
    while (next()) {
      if (line_.empty()) continue;
      const std::vector<std::string_view> cells = cells_of(line_);
      if (cells.size() != header.size())
        fail("the line", "has " + std::to_string(cells.size()) + " cells",
             "as many as the header: " + std::to_string(header.size()));
      if (points.size() == kMostPoints) fail("the file", "goes on", "at most 100000 points");
      points.push_back({.window = window(cells[places_[0]]),
                        .release = release(cells[places_[1]]),
                        .slack = number(2, cells[places_[2]], -1.0, 100.0),
                        .predicted_stall_fraction = number(3, cells[places_[3]], 0.0, 1.0),
                        .measured_stall_fraction = number(4, cells[places_[4]], -1.0, 1.0)});
    }
    return points;
  }

 private:
  bool next() {
    if (rest_.empty()) return false;
    ++number_;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    return true;
  }

  [[noreturn]] void fail(const std::string& subject, const std::string& is,
                         const std::string& expected) const {
    throw Error(std::string(source_) + ": line " + std::to_string(number_) + ": " + subject + ' ' +
                is + ", expected " + expected + "; see 'tandem propositions' in docs/cli.md");
  }
  [[noreturn]] void fail_cell(std::size_t column, std::string_view cell,
                              const std::string& expected) const {
    fail(std::string(kColumns.at(column)), "is '" + std::string(cell.substr(0, 40)) + "'",
         expected);
  }

  [[nodiscard]] std::int64_t window(std::string_view cell) const {
    if (cell == "unlimited") return kUnlimited;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || value < 1 ||
        value > kMostWindow)
      fail_cell(0, cell, "blocks from 1 to 1000000, or 'unlimited'");
    return value;
  }
  [[nodiscard]] model::ReleaseRule release(std::string_view cell) const {
    if (cell == "early") return model::ReleaseRule::early;
    if (cell == "late") return model::ReleaseRule::late;
    fail_cell(1, cell, "'early' or 'late'");
  }
  [[nodiscard]] double number(std::size_t column, std::string_view cell, double least,
                              double most) const {
    double value = 0.0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() ||
        !(value >= least && value <= most))
      fail_cell(column, cell,
                "a number from " + std::to_string(static_cast<int>(least)) + " to " +
                    std::to_string(static_cast<int>(most)));
    return value;
  }

  std::string_view rest_;
  std::string_view source_;
  std::string_view line_;
  std::size_t number_ = 0;
  std::array<std::size_t, kColumns.size()> places_{};
};

std::string shortest(double value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

}  // namespace

double relative_slack(double token_time_s, double stall_fraction, double slack_s) {
  const double load_s = token_time_s * (1.0 - stall_fraction) - slack_s;
  require(load_s > 0.0, "relative_slack: nothing is loaded");
  return slack_s / load_s;
}

std::vector<BoundaryPoint> parse_boundary_points(std::string_view text, std::string_view source) {
  return Reader(text, source).read();
}

std::string to_csv(const std::vector<BoundaryPoint>& points) {
  std::string csv;
  for (const std::string_view column : kColumns)
    csv += (csv.empty() ? "" : ",") + std::string(column);
  csv += '\n';
  for (const BoundaryPoint& point : points) {
    csv += (point.window == kUnlimited ? "unlimited" : std::to_string(point.window)) + ',' +
           (point.release == model::ReleaseRule::early ? "early" : "late") + ',' +
           shortest(point.slack) + ',' + shortest(point.predicted_stall_fraction) + ',' +
           shortest(point.measured_stall_fraction) + '\n';
  }
  return csv;
}

}  // namespace tandem::study
