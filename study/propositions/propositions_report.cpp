#include "study/propositions/propositions_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <tuple>

#include "model/base/csv.hpp"
#include "model/base/text_table.hpp"
#include "study/propositions/draw_numbers.hpp"

namespace tandem::study {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0
             ? "-"
             : model::fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 2) +
                   "%";
}

std::string scientific(double value) {
  std::ostringstream text;
  text.precision(1);
  text << std::scientific << value;
  return text.str();
}

bool is_size(const Tally& tally) {
  return !tally.classes.empty() && tally.classes.begin()->first.says == "as stated";
}

void print_confusion(const DrawsResult& result, std::ostream& out) {
  model::Table verdicts({"condition against recurrence", "draws", "both steady", "both stalling",
                         "says steady, stalls", "says stalling, is steady", "agree"});
  model::Table sizes({"peak memory against recurrence", "draws", "as stated", "holds more",
                      "holds less", "agree"});
  for (const Tally& tally : result.tallies) {
    const std::string draws = std::to_string(tally.count());
    const std::string agree = percent(tally.agreeing(), tally.count());
    const auto cell = [&](std::string_view says, std::string_view is) {
      return std::to_string(tally.count(says, is));
    };
    if (is_size(tally)) {
      sizes.add({tally.name, draws, cell("as stated", "as stated"), cell("as stated", "more"),
                 cell("as stated", "less"), agree});
    } else {
      verdicts.add({tally.name, draws, cell("steady", "steady"), cell("stalling", "stalling"),
                    cell("steady", "stalling"), cell("stalling", "steady"), agree});
    }
  }
  verdicts.print(out);
  out << '\n';
  sizes.print(out);
}

void print_classes(const DrawsResult& result, std::ostream& out) {
  model::Table classes(
      {"disagreement", "says", "recurrence", "assumption that breaks", "draws", "share"});
  std::int64_t unexplained = 0;
  for (const Tally& tally : result.tallies) {
    std::map<std::tuple<std::string, std::string, std::string>, std::int64_t> grouped;
    for (const auto& [key, entry] : tally.classes)
      if (key.says != key.is) grouped[{key.says, key.is, to_text(key.broken)}] += entry.count;
    for (const auto& [group, count] : grouped)
      classes.add({tally.name, std::get<0>(group), std::get<1>(group), std::get<2>(group),
                   std::to_string(count), percent(count, tally.count())});
    unexplained += tally.unexplained;
  }
  classes.print(out);
  out << "unexplained: " << unexplained << '\n';
}

void print_simulations(const Simulations& simulations, std::ostream& out) {
  std::int64_t starts = 0;
  for (const SimulatedDraw& draw : simulations.apart) starts += draw.starts;
  out << "SimGrid against recurrence, nothing contends: " << simulations.apart.size()
      << " schedules, " << starts << " starts, " << simulations.different
      << " schedules differ by more than " << scientific(kSimulationTolerance)
      << ", worst relative difference " << scientific(simulations.worst) << '\n';
  out << "SimGrid, all-reduces share one half-duplex link: " << simulations.contended << " of "
      << simulations.shared.size() << " differ, by the assumption of no contention\n";
}

Json classes_json(const Tally& tally) {
  Json classes = Json::array();
  for (const auto& [key, entry] : tally.classes)
    classes.push_back({{"says", key.says},
                       {"recurrence", key.is},
                       {"breaks", key.says == key.is ? Json(nullptr) : Json(to_text(key.broken))},
                       {"window", key.window},
                       {"release", key.release},
                       {"devices", key.devices},
                       {"draws", entry.count},
                       {"example", entry.example.empty() ? Json(nullptr) : Json(entry.example)}});
  return classes;
}

std::string number(double value) { return Json(value).dump(); }

}  // namespace

bool PropositionsReport::sound() const {
  return std::all_of(draws.tallies.begin(), draws.tallies.end(),
                     [](const Tally& tally) { return tally.unexplained == 0; }) &&
         std::all_of(draws.forms.begin(), draws.forms.end(),
                     [](const FormCheck& form) { return form.different == 0; }) &&
         simulations.different == 0;
}

void print_report(const PropositionsReport& report, std::ostream& out) {
  print_confusion(report.draws, out);
  out << '\n';
  print_classes(report.draws, out);
  out << '\n';
  model::Table forms({"token time, closed form", "draws", "differs from recurrence"});
  for (const FormCheck& form : report.draws.forms)
    forms.add({form.name, std::to_string(form.draws), std::to_string(form.different)});
  forms.print(out);
  if (!report.simulations.apart.empty()) {
    out << '\n';
    print_simulations(report.simulations, out);
  }
  if (!report.replayed.empty()) {
    double worst = 0.0;
    for (const BoundaryPoint& point : report.replayed)
      worst =
          std::max(worst, std::abs(point.replayed_stall_fraction - point.predicted_stall_fraction));
    out << "\nreplayed: " << report.replayed.size() << " points, stall fraction at most "
        << model::fixed(100.0 * worst, 1) << " points from the predicted\n";
  }
  if (!report.sound()) out << "\nNOT SOUND: a disagreement is unexplained, see above\n";
}

std::string to_json(const PropositionsReport& report) {
  Json json{{"schema", "tandem.propositions/1"},
            {"worked_example", report.example},
            {"sound", report.sound()},
            {"conditions", Json::array()},
            {"token_times", Json::array()}};
  for (const Tally& tally : report.draws.tallies)
    json["conditions"].push_back({{"name", tally.name},
                                  {"question", tally.question},
                                  {"draws", tally.count()},
                                  {"agree", tally.agreeing()},
                                  {"unexplained", tally.unexplained},
                                  {"classes", classes_json(tally)}});
  for (const FormCheck& form : report.draws.forms)
    json["token_times"].push_back(
        {{"name", form.name}, {"draws", form.draws}, {"different", form.different}});
  json["simulations"] = {{"draws", report.simulations.apart.size()},
                         {"different", report.simulations.different},
                         {"worst_relative_difference", report.simulations.worst},
                         {"shared_link_draws", report.simulations.shared.size()},
                         {"shared_link_different", report.simulations.contended}};
  json["boundary"] = Json::array();
  for (const SeriesPoint& point : report.boundary)
    json["boundary"].push_back({{"series", point.series},
                                {"window", window_text(point.window)},
                                {"release", rule_text(point.release)},
                                {"slack", point.slack},
                                {"stall_fraction", point.stall_fraction}});
  return json.dump(2) + '\n';
}

std::string classes_csv(const PropositionsReport& report) {
  std::string csv = model::csv_line({"condition", "says", "recurrence", "breaks", "window",
                                     "release", "devices", "draws", "example"});
  for (const Tally& tally : report.draws.tallies) {
    for (const auto& [key, entry] : tally.classes) {
      csv += model::csv_line(
          {tally.name, key.says, key.is, key.says == key.is ? "" : to_text(key.broken), key.window,
           key.release, key.devices, std::to_string(entry.count), entry.example});
    }
  }
  return csv;
}

std::string simulations_csv(const PropositionsReport& report) {
  std::string csv = model::csv_line({"schedule", "network", "starts", "recurrence_end_ticks",
                                     "simulated_end_ticks", "relative_difference", "breaks"});
  for (const auto* draws : {&report.simulations.apart, &report.simulations.shared}) {
    for (const SimulatedDraw& draw : *draws) {
      const bool equal = draw.difference <= kSimulationTolerance;
      csv += model::csv_line({draw.text, draw.network, std::to_string(draw.starts),
                              number(draw.end_ticks), number(draw.simulated_end_ticks),
                              number(draw.difference),
                              equal                      ? ""
                              : draw.network == "shared" ? "contention"
                                                         : "unexplained"});
    }
  }
  return csv;
}

std::string boundary_csv(const PropositionsReport& report) {
  std::string csv = model::csv_line({"series", "window", "release", "slack", "stall_fraction"});
  for (const SeriesPoint& point : report.boundary)
    csv += model::csv_line({point.series, window_text(point.window), rule_text(point.release),
                            number(point.slack), number(point.stall_fraction)});
  return csv;
}

}  // namespace tandem::study
