#include "cli/views/comparison_view.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string_view>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::ComparedRow;
using model::Comparison;
using model::ResultOrigin;

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "-";
  const double size = std::abs(*value);
  std::string text = *value < 0.0 ? "-" : "";
  if (unit == "s") {
    text.append(to_text(model::Seconds{size}));
  } else if (unit == "bytes") {
    text.append(to_text(model::Bytes{size}));
  } else if (unit == "tokens/s") {
    text.append(model::fixed(size, size < 10.0 ? 2 : size < 100.0 ? 1 : 0)).append("/s");
  } else {
    text.append(model::fixed(100.0 * size, 1)).append("%");  // a fraction
  }
  return text;
}

std::string signed_text(const std::optional<double>& value, const std::string& unit) {
  std::string text = value && *value > 0.0 ? "+" : "";
  text.append(value_text(value, unit));
  // Of fractions in percent the difference is in points, the deviation in percent is another.
  if (value && unit == "1") text.replace(text.size() - 1, 1, " points");
  return text;
}

std::string percent_text(const std::optional<double>& percent) {
  if (!percent) return "-";
  std::string text = *percent > 0.0 ? "+" : "";
  return text.append(model::fixed(*percent, 1)).append("%");
}

std::string ratio_text(const std::optional<double>& ratio) {
  if (!ratio) return "-";
  return "x " + model::fixed(*ratio, *ratio < 9.95 ? 2 : 1);
}

std::string label_of(const ComparedRow& row) {
  std::string text = row.metric;
  std::replace(text.begin(), text.end(), '_', ' ');
  return row.name.empty() ? text : row.name + ' ' + text;
}

bool has_any(const ComparedRow& row) {
  return std::ranges::any_of(row.values, [](const auto& value) { return value.has_value(); });
}

bool is_positive(const ComparedRow& row) {
  return std::ranges::any_of(row.values, [](const auto& value) { return value.value_or(0.0) > 0; });
}

// The device rows that the terminal shows; the CSV has all.
bool is_shown(const ComparedRow& row) {
  return row.metric == "memory_total" || row.metric == "sent" || row.metric == "busy_cpu" ||
         row.metric == "stall" || (row.metric == "loaded" && is_positive(row));
}

std::vector<const ComparedRow*> rows_of(const Comparison& comparison, std::string_view scope) {
  std::vector<const ComparedRow*> rows;
  for (const ComparedRow& row : comparison.rows)
    if (row.scope == scope) rows.push_back(&row);
  return rows;
}

// The largest deviation of any result, in the row's unit.
double largest(const Comparison& comparison, const ComparedRow& row) {
  double largest = 0.0;
  for (const std::size_t i : comparison.others())
    largest = std::max(largest, std::abs(comparison.absolute(row, i).value_or(0.0)));
  return largest;
}

// The kinds of task whose total times deviate most, in seconds.
std::vector<const ComparedRow*> worst_tasks(const Comparison& comparison) {
  constexpr std::size_t kShown = 5;
  std::vector<std::pair<double, const ComparedRow*>> ranked;
  for (const ComparedRow* row : rows_of(comparison, "task"))
    if (row->metric == "total") ranked.emplace_back(largest(comparison, *row), row);
  std::erase_if(ranked, [](const auto& entry) { return entry.first == 0.0; });
  std::ranges::stable_sort(ranked, std::greater(), [](const auto& entry) { return entry.first; });
  ranked.resize(std::min(ranked.size(), kShown));
  std::vector<const ComparedRow*> rows;
  rows.reserve(ranked.size());
  for (const auto& [size, row] : ranked) rows.push_back(row);
  return rows;
}

// The table's header and lines: values, and how the others deviate.
class ComparisonTable {
 public:
  explicit ComparisonTable(const Comparison& comparison)
      : comparison_(comparison), table_(header(comparison)), others_(comparison.others()) {}

  void add(const ComparedRow& row) {
    std::vector<std::string> cells{label_of(row)};
    if (is_pair(comparison_)) {
      for (const auto& value : row.values) cells.push_back(value_text(value, row.unit));
      cells.push_back(signed_text(comparison_.absolute(row, others_[0]), row.unit));
      cells.push_back(deviation(row, others_[0]));
    } else {
      for (std::size_t i = 0; i < row.values.size(); ++i) {
        cells.push_back(value_text(row.values[i], row.unit));
        if (i != comparison_.reference) cells.push_back(deviation(row, i));
      }
    }
    table_.add(std::move(cells));
  }
  void add_gap() { table_.add(std::vector<std::string>(header(comparison_).size())); }
  void print(std::ostream& out) const { table_.print(out); }
  // Whether a deviation is marked as calculated.
  [[nodiscard]] bool marks() const { return marks_; }

 private:
  static std::vector<std::string> header(const Comparison& comparison) {
    std::vector<std::string> cells{""};
    if (is_pair(comparison)) {
      cells.insert(cells.end(), comparison.labels.begin(), comparison.labels.end());
      cells.insert(cells.end(), {"deviation", "percent"});
      return cells;
    }
    for (std::size_t i = 0; i < comparison.labels.size(); ++i) {
      cells.push_back(comparison.labels[i]);
      if (i != comparison.reference)
        cells.emplace_back(comparison.of_one_plan ? "percent" : "ratio");
    }
    return cells;
  }
  static bool is_pair(const Comparison& comparison) {
    return comparison.labels.size() == 2 && comparison.of_one_plan;
  }
  std::string deviation(const ComparedRow& row, std::size_t i) {
    if (!comparison_.of_one_plan) return ratio_text(comparison_.ratio(row, i));
    std::string text = percent_text(comparison_.percent(row, i));
    if (!comparison_.absolute(row, i) || !comparison_.is_calculated(row, i)) return text;
    marks_ = true;
    return text.append(" =");
  }

  const Comparison& comparison_;
  model::Table table_;
  std::vector<std::size_t> others_;
  bool marks_ = false;
};

void print_verdict(const Comparison& comparison, std::size_t i, std::ostream& out) {
  const model::Verdict& verdict = comparison.verdicts[i];
  const std::size_t base = comparison.reference;
  // Of two results the heads of the columns say which deviates from which.
  const std::string of = comparison.labels.size() == 2 ? "" : comparison.labels[i] + ": ";
  for (const ComparedRow* row : rows_of(comparison, "token")) {
    if (!verdict.worst_token || row->name != std::to_string(*verdict.worst_token)) continue;
    const std::size_t first = std::min(i, base);
    const std::size_t second = std::max(i, base);
    out << of << "worst token: number " << *verdict.worst_token + 1 << ", "
        << comparison.labels[first] << ' ' << value_text(row->values[first], "s") << ", "
        << comparison.labels[second] << ' ' << value_text(row->values[second], "s") << " ("
        << percent_text(comparison.percent(*row, i)) << ")\n";
  }
  if (verdict.worst_percent)
    out << of << "largest deviation of TTFT, mean and median token latency: "
        << model::fixed(*verdict.worst_percent, 1) << "% of the " << comparison.labels[base]
        << " value\n";
}

// What times of this origin are worth beside a prediction; empty: there is nothing to say.
std::string_view origin_remark(ResultOrigin origin) {
  switch (origin) {
    case ResultOrigin::replayed:
      return "on emulated devices at nominal pace: times are calculated from the same sums as the "
             "prediction's, so they test the program and not the prediction";
    case ResultOrigin::measured_emulated:
      return "on emulated devices, compute paced to measured times";
    case ResultOrigin::measured_testbed:
      return "on a testbed of network namespaces";
    case ResultOrigin::predicted:
    case ResultOrigin::measured:
      return "";
  }
  throw std::logic_error("origin_remark: no such origin");
}

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Of two results the deviation itself, of more an object of them by label.
template <class Value>
Json by_label(const Comparison& comparison, const Value& value) {
  const std::vector<std::size_t> others = comparison.others();
  if (others.size() == 1) return value(others[0]);
  Json json = Json::object();
  for (const std::size_t i : others) json[comparison.labels[i]] = value(i);
  return json;
}

}  // namespace

std::vector<std::string> labels_of(const std::vector<std::string>& paths,
                                   const std::vector<ResultOrigin>& origins) {
  const auto stem = [](const std::string& path) {
    return std::filesystem::path(path).stem().string();
  };
  const auto pace = [&](std::size_t i) {
    return std::string(pace_of(origins[i]).value_or(kind_of(origins[i])));
  };
  std::map<std::string, std::set<std::string>> paces;  // by kind
  for (std::size_t i = 0; i < paths.size(); ++i)
    paces[std::string(kind_of(origins[i]))].insert(pace(i));
  std::vector<std::string> labels;
  std::map<std::string, int> same;
  std::map<std::string, int> stems;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string kind(kind_of(origins[i]));
    labels.push_back(paces.at(kind).size() > 1 ? pace(i) : kind);
    ++same[labels.back()];
    ++stems[labels.back() + '/' + stem(paths[i])];
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::string& label = labels[i];
    if (same.at(label) == 1) continue;
    const bool is_plain = stems.at(label + '/' + stem(paths[i])) == 1;
    const std::string name = is_plain ? stem(paths[i]) : paths[i];
    if (label.ends_with(')')) {
      label.replace(label.size() - 1, 1, ", " + name + ")");
    } else {
      label += " (" + name + ")";
    }
  }
  return labels;
}

void print_comparison(const Comparison& comparison, std::ostream& out) {
  ComparisonTable table(comparison);
  for (const ComparedRow* row : rows_of(comparison, "run"))
    if (has_any(*row)) table.add(*row);
  for (const ComparedRow* row : rows_of(comparison, "request")) table.add(*row);
  std::string device;
  for (const ComparedRow* row : rows_of(comparison, "device")) {
    if (!is_shown(*row)) continue;
    if (row->name != device) table.add_gap();
    device = row->name;
    table.add(*row);
  }
  const std::vector<const ComparedRow*> tasks = worst_tasks(comparison);
  if (!tasks.empty()) table.add_gap();
  for (const ComparedRow* row : tasks) table.add(*row);
  table.print(out);
  out << '\n';
  if (!comparison.of_one_plan) {
    out << "ratios are to " << comparison.labels[comparison.reference]
        << ": a time above x 1 is longer\n";
    return;
  }
  if (comparison.labels.size() > 2 || comparison.reference == 0)
    out << "deviations are from " << comparison.labels[comparison.reference] << '\n';
  if (table.marks())
    out << "=: neither value is measured; both are calculated from the same sums\n";
  for (const std::size_t i : comparison.others()) print_verdict(comparison, i, out);
}

void print_origins(const Comparison& comparison, std::ostream& out) {
  for (std::size_t i = 0; i < comparison.labels.size(); ++i) {
    const std::string_view remark = origin_remark(comparison.origins[i]);
    if (!remark.empty()) out << comparison.labels[i] << ' ' << remark << '\n';
  }
}

Json comparison_json(const Comparison& comparison, const std::vector<std::string>& paths,
                     const std::vector<std::string>& remarks) {
  Json results = Json::array();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::optional<std::string_view> pace = pace_of(comparison.origins[i]);
    results.push_back({{"label", comparison.labels[i]},
                       {"file", paths[i]},
                       {"kind", kind_of(comparison.origins[i])},
                       {"pace", pace ? Json(*pace) : Json(nullptr)}});
  }
  Json json{{"schema", "tandem.comparison/3"},
            {"results", std::move(results)},
            {"reference", comparison.labels[comparison.reference]},
            {"remarks", remarks},
            {"worst_percent", by_label(comparison,
                                       [&](std::size_t i) {
                                         return nullable(comparison.verdicts[i].worst_percent);
                                       })},
            {"worst_token",
             by_label(comparison,
                      [&](std::size_t i) { return nullable(comparison.verdicts[i].worst_token); })},
            {"rows", Json::array()}};
  for (const ComparedRow& row : comparison.rows) {
    Json entry{
        {"scope", row.scope}, {"name", row.name}, {"metric", row.metric}, {"unit", row.unit}};
    for (std::size_t i = 0; i < row.values.size(); ++i)
      entry[comparison.labels[i]] = nullable(row.values[i]);
    entry["absolute"] =
        by_label(comparison, [&](std::size_t i) { return nullable(comparison.absolute(row, i)); });
    entry["percent"] =
        by_label(comparison, [&](std::size_t i) { return nullable(comparison.percent(row, i)); });
    entry["calculated"] =
        by_label(comparison, [&](std::size_t i) { return Json(comparison.is_calculated(row, i)); });
    json["rows"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tandem::cli
