#include "cli/files/reference_processors.hpp"

#include <filesystem>

#include "cli/files/files.hpp"
#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::cli {
namespace {

std::string lower(std::string text) {
  for (char& c : text) {
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

model::ReferenceProcessor reference_processor(const std::string& processor) {
  const std::filesystem::path folder = resource_folder("scenarios") / "profiles";
  const std::string table = (folder / "processors.csv").string();
  const model::Csv rows = model::parse_csv(read_file(table), table);
  std::string known;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const std::string& name = rows.at(row, "processor");
    known += (known.empty() ? "'" : ", '") + name + "'";
    if (lower(name) != lower(processor)) continue;
    const std::string file = (folder / rows.at(row, "profile")).string();
    return {
        .name = name,
        .stated = {.name = name,
                   .flop_rate = model::parse_flops(rows.at(row, "speed"), table),
                   .memory_bandwidth = model::parse_rate(rows.at(row, "memory_bandwidth"), table)},
        .profile = model::parse_profile_json(read_file(file), file)};
  }
  throw Error("processor '" + processor + "': is not in " + table + ", which has " + known +
              "; name one of them, or leave tandem:processor out");
}

}  // namespace tandem::cli
