#include "study/experiment/experiment_report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "study/experiment/printed_counts.hpp"

namespace tandem::study {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "/") + word;
  return text;
}

std::string role(const ExperimentReport& report, const ExperimentRow& row) {
  if (row.calibrated) return "calibrated";
  switch (row.aside) {
    case ExperimentRow::Aside::none:
      break;
    case ExperimentRow::Aside::follows:
      return "follows";
    case ExperimentRow::Aside::formula:
      return "formula";
    case ExperimentRow::Aside::quotient:
      return "quotient";
  }
  return row.paper.kind == Reading::Kind::none ? "shown" : report.role;
}

std::string csv_reading(const Reading& reading) {
  switch (reading.kind) {
    case Reading::Kind::none:
      return "";
    case Reading::Kind::number:
      return model::shortest_text(reading.value);
    case Reading::Kind::out_of_memory:
      return "OOM";
  }
  throw std::logic_error("reading: kind out of range");
}

std::string shown(const Reading& reading) {
  if (reading.kind != Reading::Kind::number) return csv_reading(reading);
  std::ostringstream text;
  text.precision(3);
  text << reading.value;
  return text.str();
}

std::string shown_error(const ExperimentRow& row) {
  std::string text;
  if (const auto error = row.error()) {
    const double percent = 100.0 * *error;
    text =
        (percent < 0.0 ? "" : "+") + model::fixed(percent, std::abs(percent) < 9.95 ? 1 : 0) + "%";
  } else if (row.paper.kind == Reading::Kind::none) {
    return "";
  } else if (row.tandem.kind == Reading::Kind::none) {
    text = "none";
  } else {
    text = row.paper == row.tandem ? "=" : "differs";
  }
  const bool aside = row.aside != ExperimentRow::Aside::none;
  return text + (row.calibrated ? " c" : aside ? " a" : row.notable() ? " *" : "");
}

// The lines of rows that have the same keys.
class Groups {
 public:
  explicit Groups(const ExperimentReport& report) : report_(report) {
    for (const ExperimentRow& row : report.rows) {
      if (std::find(quantities_.begin(), quantities_.end(), row.quantity) == quantities_.end())
        quantities_.push_back(row.quantity);
    }
  }

  void print(std::ostream& out) const {
    std::vector<std::string> header{joined(report_.key_names), ""};
    header.insert(header.end(), quantities_.begin(), quantities_.end());
    model::Table table(header);
    const auto& rows = report_.rows;
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin;
      while (end < rows.size() && rows[end].keys == rows[begin].keys) ++end;
      add(table, begin, end);
      begin = end;
    }
    table.print(out);
  }

 private:
  void add(model::Table& table, std::size_t begin, std::size_t end) const {
    const std::size_t width = quantities_.size() + 2;
    std::vector<std::string> paper(width);
    std::vector<std::string> tandem(width);
    std::vector<std::string> errors(width);
    bool compared = false;
    for (std::size_t i = begin; i < end; ++i) {
      const ExperimentRow& row = report_.rows[i];
      const auto at = std::find(quantities_.begin(), quantities_.end(), row.quantity);
      const auto column = static_cast<std::size_t>(at - quantities_.begin()) + 2;
      paper[column] = shown(row.paper);
      tandem[column] = shown(row.tandem);
      errors[column] = shown_error(row);
      compared = compared || row.paper.kind != Reading::Kind::none;
    }
    paper[0] = tandem[0] = joined(report_.rows[begin].keys);
    paper[1] = report_.theirs;
    tandem[1] = report_.ours;
    errors[1] = "error";
    if (!compared) {
      table.add(tandem);
      return;
    }
    tandem[0].clear();
    table.add(paper);
    table.add(tandem);
    table.add(errors);
  }

  const ExperimentReport& report_;
  std::vector<std::string> quantities_;
};

void print_summary(const ExperimentReport& report, std::ostream& out) {
  std::size_t predicted = 0;
  std::size_t within = 0;
  std::size_t aside = 0;
  double worst = 0.0;
  double sum = 0.0;
  std::size_t numbers = 0;
  for (const ExperimentRow& row : report.rows) {
    aside += row.aside != ExperimentRow::Aside::none ? 1U : 0U;
    if (!row.predicts()) continue;
    ++predicted;
    if (!row.notable()) ++within;
    if (const auto error = row.error()) {
      ++numbers;
      sum += std::abs(*error);
      worst = std::max(worst, std::abs(*error));
    }
  }
  if (predicted == 0 && aside == 0) return;
  out << "\n"
      << report.role << ": " << predicted << ", of which " << within << " within "
      << model::fixed(100.0 * kNotable, 0) << "%";
  if (numbers > 0)
    out << "; mean error " << model::fixed(100.0 * sum / static_cast<double>(numbers), 1)
        << "%, worst " << model::fixed(100.0 * worst, 0) << "%";
  const PrintedCounts printed = printed_counts({&report, 1});
  out << "\ndistinct printed numbers: " << printed.numbers << ", of which " << printed.within_15
      << " within 15% and " << printed.within_30 << " within 30%";
  if (aside > 0)
    out << "\na: " << aside
        << " rows that are no predictions: they follow from calibrated ones, compare a formula "
           "with itself, or are quotients of printed numbers";
  out << "\nc: calibrated, no prediction   *: off by more than "
      << model::fixed(100.0 * kNotable, 0) << "%, explained below\n";
}

}  // namespace

std::optional<double> ExperimentRow::error() const {
  if (paper.kind != Reading::Kind::number || tandem.kind != Reading::Kind::number) return {};
  return tandem.value / paper.value - 1.0;
}

bool ExperimentRow::notable() const {
  if (paper.kind == Reading::Kind::none) return false;
  if (const auto off = error()) return !(std::abs(*off) <= kNotable);
  return !(paper == tandem);
}

bool ExperimentRow::predicts() const {
  return !calibrated && aside == Aside::none && paper.kind != Reading::Kind::none;
}

bool ExperimentRow::missed() const { return !calibrated && notable(); }

void add_notes(ExperimentReport& report, std::string_view experiment, const model::Csv& notes) {
  for (ExperimentRow& row : report.rows) {
    if (!row.notable() || !row.note.empty()) continue;
    const std::string keys = joined(row.keys);
    for (std::size_t i = 0; i < notes.rows.size() && row.note.empty(); ++i) {
      if (notes.at(i, "experiment") == experiment && notes.at(i, "keys") == keys &&
          notes.at(i, "quantity") == row.quantity)
        row.note = notes.at(i, "note");
    }
  }
}

std::size_t unexplained(const ExperimentReport& report) {
  return static_cast<std::size_t>(
      std::count_if(report.rows.begin(), report.rows.end(),
                    [](const ExperimentRow& row) { return row.missed() && row.note.empty(); }));
}

void print_report(const ExperimentReport& report, std::ostream& out) {
  Groups(report).print(out);
  print_summary(report, out);
  for (const std::string& remark : report.remarks) out << '\n' << remark;
  if (!report.remarks.empty()) out << '\n';
  std::vector<std::string> printed;
  for (const ExperimentRow& row : report.rows) {
    if (!row.missed()) continue;
    const std::string note = row.note.empty() ? "unexplained" : row.note;
    const auto same = [&](const std::string& other) { return other == note; };
    if (std::any_of(printed.begin(), printed.end(), same)) continue;
    std::string rows;
    for (const ExperimentRow& other : report.rows) {
      if (!other.missed() || (other.note.empty() ? "unexplained" : other.note) != note) continue;
      rows += (rows.empty() ? "" : ", ") + joined(other.keys) + " " + other.quantity;
    }
    out << "\n* " << rows << ":\n  " << note << '\n';
    printed.push_back(note);
  }
  out << "unexplained: " << unexplained(report) << '\n';
}

std::string to_csv(const ExperimentReport& report) {
  std::vector<std::string> header = report.key_names;
  for (const char* name :
       {"quantity", "paper", "tandem", "error_percent", "role", "note", "printed"})
    header.emplace_back(name);
  std::string text = model::csv_line(header);
  for (const ExperimentRow& row : report.rows) {
    require(row.keys.size() == report.key_names.size(), "experiment: one key a name");
    std::vector<std::string> fields = row.keys;
    const auto error = row.error();
    for (const std::string& field : {row.quantity, csv_reading(row.paper), csv_reading(row.tandem),
                                     error ? model::fixed(100.0 * *error, 2) : std::string(),
                                     role(report, row), row.note, row.printed})
      fields.push_back(field);
    text += model::csv_line(fields);
  }
  return text;
}

std::string to_json(const ExperimentReport& report, const Experiment& experiment) {
  const auto reading = [](const Reading& value) {
    if (value.kind == Reading::Kind::none) return Json();
    return value.kind == Reading::Kind::number ? Json(value.value) : Json("OOM");
  };
  const PrintedCounts printed = printed_counts({&report, 1});
  Json json{{"experiment", experiment.name},
            {"summary", experiment.summary},
            {"unexplained", unexplained(report)},
            {"printed",
             {{"numbers", printed.numbers},
              {"within_15_percent", printed.within_15},
              {"within_30_percent", printed.within_30}}},
            {"remarks", report.remarks},
            {"rows", Json::array()}};
  for (const ExperimentRow& row : report.rows) {
    const auto error = row.error();
    Json keys = Json::object();
    for (std::size_t i = 0; i < row.keys.size(); ++i) keys[report.key_names[i]] = row.keys[i];
    json["rows"].push_back({{"keys", keys},
                            {"quantity", row.quantity},
                            {"paper", reading(row.paper)},
                            {"tandem", reading(row.tandem)},
                            {"error", error ? Json(*error) : Json()},
                            {"role", role(report, row)},
                            {"note", row.note},
                            {"printed", row.printed}});
  }
  return json.dump(2) + '\n';
}

}  // namespace tandem::study
