#include "model/base/csv.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {
namespace {

constexpr std::size_t kMostFields = 10'000'000;

// One line's fields. Throws Error.
std::vector<std::string> parse_line(std::string_view line, const std::string& where) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = false;
        if (i + 1 < line.size() && line[i + 1] != ',')
          throw Error(where + ": text after a closing quote, expected a comma; quote whole fields");
      }
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '"') {
      if (!fields.back().empty())
        throw Error(where + ": a quote within a field, expected it to begin one; double it");
      quoted = true;
    } else {
      fields.back() += c;
    }
  }
  if (quoted) throw Error(where + ": no closing quote; fields may not contain line breaks");
  return fields;
}

}  // namespace

std::size_t Csv::column(std::string_view name) const {
  const auto found = std::find(header.begin(), header.end(), name);
  require(found != header.end(), "csv: no such column");
  return static_cast<std::size_t>(found - header.begin());
}

const std::string& Csv::at(std::size_t row, std::string_view name) const {
  return rows.at(row)[column(name)];
}

Csv parse_csv(std::string_view text, std::string_view source) {
  Csv csv;
  std::size_t fields = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = std::string(source) + ":" + std::to_string(number);
    std::vector<std::string> parsed = parse_line(line, where);
    fields += parsed.size();
    if (fields > kMostFields)
      throw Error(where + ": more than 10000000 fields, expected a smaller table");
    if (csv.header.empty()) {
      csv.header = std::move(parsed);
      continue;
    }
    if (parsed.size() != csv.header.size())
      throw Error(where + ": " + std::to_string(parsed.size()) + " fields, expected " +
                  std::to_string(csv.header.size()) + " as in the header");
    csv.rows.push_back(std::move(parsed));
    csv.lines.push_back(number);
  }
  if (csv.header.empty())
    throw Error(std::string(source) + ": empty, expected a header and rows of a table");
  return csv;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) line += ',';
    // A line without a character would be no row.
    const bool blank = field.empty() && fields.size() == 1;
    if (!blank && field.find_first_of(",\"\r") == std::string::npos) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + '\n';
}

}  // namespace tandem::model
