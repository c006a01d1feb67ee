#pragma once

// Named experiments: a paper's table or figure, reproduced by prediction beside the paper's
// numbers. Each is one file of this folder; registry.cpp is their table.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/progress.hpp"
#include "advice/scenario_source.hpp"

namespace tandem::study {

// Bytes of a device in experiments that ignore whether a model fits.
inline constexpr double kAnyMemory = 1e15;

// A paper's or a prediction's value of one quantity.
struct Reading {
  enum class Kind { none, number, out_of_memory };
  Kind kind = Kind::none;
  double value = 0.0;
  [[nodiscard]] static Reading number(double value) { return {Kind::number, value}; }
  [[nodiscard]] static Reading out_of_memory() { return {Kind::out_of_memory, 0.0}; }
  bool operator==(const Reading&) const = default;
};

// One number. Consecutive rows with equal keys are printed together.
struct ExperimentRow {
  std::vector<std::string> keys{};  // one a key name of the report
  std::string quantity{};           // with its unit: "ttft_s"
  Reading paper{};                  // none: the paper prints no number
  Reading tandem{};
  // Whether constants that the paper does not state are calibrated by this row's paper value; other
  // rows are predicted and never used for calibration.
  bool calibrated = false;
  // Why a row that calibrates nothing is no prediction either.
  enum class Aside : std::uint8_t {
    none,
    follows,   // from calibrated rows alone
    formula,   // paper and program compute the same formula
    quotient,  // of printed numbers that have rows of their own
  };
  Aside aside = Aside::none;
  // The printed number, if several rows of a paper's experiments compare with the same one ("memory
  // off, llama-2-3b, 8 devices"); empty: no other row does.
  std::string printed{};
  std::string note{};  // explains a large error; from scenarios/experiments/notes.csv if empty

  // Returns tandem / paper - 1 if both are numbers.
  [[nodiscard]] std::optional<double> error() const;
  // Returns whether the error exceeds kNotable, only one of the two runs out of memory, or the
  // paper's number has no prediction.
  [[nodiscard]] bool notable() const;
  // Returns whether the row compares a prediction with a printed number.
  [[nodiscard]] bool predicts() const;
  // Returns whether the row needs a note: it is notable and calibrates nothing.
  [[nodiscard]] bool missed() const;
};

inline constexpr double kNotable = 0.15;

struct ExperimentReport {
  std::vector<std::string> key_names{};
  std::vector<ExperimentRow> rows{};
  std::string theirs = "paper";        // one word for the source of `ExperimentRow::paper`
  std::string ours = "tandem";         // one word for `ExperimentRow::tandem`
  std::string role = "predicted";      // role of rows with both values that are not calibrated
  std::vector<std::string> remarks{};  // lines below the table: constants and their sources
};

struct Experiment {
  std::string_view name;
  std::string_view paper;    // whose numbers it compares; empty: none's
  std::string_view summary;  // one line
  std::string_view plot;     // script in plots/ that draws the report's CSV
  // Reads platforms, models and the paper's numbers from `scenarios`, and reports every finished
  // part to `progress`.
  ExperimentReport (*run)(const Scenarios& scenarios, Progress& progress);
};

[[nodiscard]] const std::vector<Experiment>& experiments();

ExperimentReport csps_by_steps(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_readings(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_consistency(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_drop(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_figure2(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_figure5(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_figure10(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_figure14(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_figure17(const Scenarios& scenarios, Progress& progress);
ExperimentReport csps_table3(const Scenarios& scenarios, Progress& progress);
ExperimentReport collectives_map(const Scenarios& scenarios, Progress& progress);
ExperimentReport mdi_figure13(const Scenarios& scenarios, Progress& progress);
ExperimentReport mdi_memory(const Scenarios& scenarios, Progress& progress);
ExperimentReport measured_clusters(const Scenarios& scenarios, Progress& progress);
ExperimentReport mdi_rates(const Scenarios& scenarios, Progress& progress);
ExperimentReport mdi_times(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_table1(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_table4(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_table5(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_figure8(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_figure9(const Scenarios& scenarios, Progress& progress);
ExperimentReport galaxy_scaling(const Scenarios& scenarios, Progress& progress);
ExperimentReport papers(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_table1(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_table2(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_table3(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_figure1(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_figure3(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_figure5(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_page_cache(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_times(const Scenarios& scenarios, Progress& progress);
ExperimentReport tpi_figure6(const Scenarios& scenarios, Progress& progress);

}  // namespace tandem::study
