#include "advice/sweep/grid.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"

namespace tandem::study {
namespace {

constexpr std::size_t kMostGridPoints = 1'000'000;

// At commas outside parentheses, without the blanks around each part.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) part = model::trimmed(part);
  return parts;
}

void add_range(const std::string& text, FieldUnit unit, const std::string& subject, bool log,
               std::vector<Value>& values) {
  const std::string expected =
      subject + ": '" + text + "', expected " + (log ? "log" : "lin") + "(FIRST,LAST,COUNT)";
  if (unit == FieldUnit::text) throw Error(subject + ": '" + text + "', expected words, no range");
  if (text.back() != ')') throw Error(expected);
  const std::vector<std::string> parts = split(text.substr(4, text.size() - 5));
  if (parts.size() != 3) throw Error(expected);
  const double first = parse_value(unit, parts[0], subject).number;
  const double last = parse_value(unit, parts[1], subject).number;
  int count = 0;
  const char* const end = parts[2].data() + parts[2].size();
  const auto parsed = std::from_chars(parts[2].data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count < 2 || count > 100'000)
    throw Error(expected + ", a COUNT from 2 to 100000");
  if (log && !(first > 0.0 && last > 0.0)) throw Error(expected + " of numbers above 0; use lin");
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / (count - 1);
    double number = log ? first * std::pow(last / first, share) : first + (last - first) * share;
    if (i == 0) number = first;
    if (i + 1 == count) number = last;
    values.push_back(make_value(unit, number));
  }
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("flag '--vary': '" + text + "', expected FIELD=VALUES, as link.latency=1ms,10ms");
  Axis axis{.field = find_field(text.substr(0, equals)), .values = {}};
  const std::string subject = "field '" + text.substr(0, equals) + "'";
  const FieldUnit unit = axis.field.field->unit;
  std::vector<Value> values;
  for (const std::string& part : split(text.substr(equals + 1))) {
    if (part.starts_with("lin(") || part.starts_with("log(")) {
      add_range(part, unit, subject, part.starts_with("log("), values);
    } else {
      values.push_back(parse_value(unit, part, subject));
    }
  }
  // A range of counts may round to the same number twice.
  for (Value& value : values) {
    const bool known = std::any_of(axis.values.begin(), axis.values.end(),
                                   [&](const Value& other) { return other.text == value.text; });
    if (!known) axis.values.push_back(std::move(value));
  }
  // Rejects bad values before hours of work.
  for (const Value& value : axis.values) {
    Setup scratch;
    axis.field.field->apply(scratch, axis.field.selector, value);
  }
  return axis;
}

Grid::Grid(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (axes_[a].field.column() == axes_[b].field.column())
        throw Error("field '" + axes_[a].field.column() +
                    "': varied twice, expected once; join its values with commas");
    }
    if (axes_[a].values.size() > kMostGridPoints / size_)
      throw Error("sweep: more than 1000000 points, expected fewer; vary less at once");
    size_ *= axes_[a].values.size();
  }
}

std::vector<Value> Grid::values(std::size_t i) const {
  std::vector<Value> chosen(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0; i /= axes_[a].values.size())
    chosen[a] = axes_[a].values[i % axes_[a].values.size()];
  return chosen;
}

Setup Grid::setup(const Setup& base, std::size_t i) const {
  Setup setup = base;
  const std::vector<Value> chosen = values(i);
  for (std::size_t a = 0; a < axes_.size(); ++a)
    axes_[a].field.field->apply(setup, axes_[a].field.selector, chosen[a]);
  return setup;
}

}  // namespace tandem::study
