#include "cli/views/drop_view.hpp"

#include <algorithm>
#include <ostream>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string bits(double loss) { return model::fixed(loss, 5) + " bits per byte"; }
std::string time_text(double seconds) { return model::to_text(model::Seconds{seconds}); }

std::string times_text(const planner::DropCandidate& candidate) {
  return time_text(candidate.checked_s) + ", if no messages share a link " +
         time_text(candidate.ttft_s);
}

double rate(const DropAnswer& answer) {
  return static_cast<double>(answer.choice.evaluated) / std::max(answer.elapsed_s, 1e-9);
}

Json candidate_json(const planner::DropCandidate& candidate, const planner::LossModel& loss) {
  Json bands = Json::array();
  for (std::size_t band = 0; band < candidate.drop.size(); ++band) {
    bands.push_back({{"layers", {loss.bands[band].begin, loss.bands[band].end}},
                     {"drop", candidate.drop[band]}});
  }
  return {{"levels", candidate.levels},
          {"bands", std::move(bands)},
          {"loss_bits_per_byte", candidate.loss},
          {"ttft_s", candidate.checked_s},
          {"analytic_ttft_s", candidate.ttft_s}};
}

}  // namespace

void print_drop(const DropAnswer& answer, const Bounded& bounded, const planner::LossModel& loss,
                std::ostream& out) {
  const planner::DropChoice& choice = answer.choice;
  if (bounded.bounds.loss) {
    out << "\nleast time to the first token within a loss of "
        << model::shortest_text(*bounded.bounds.loss) << " bits per byte: ";
  } else {
    out << "\nleast loss with a first token within " << time_text(*bounded.bounds.ttft_s) << ": ";
  }
  out << planner::describe(choice.taken, loss) << "\nloss by the fit " << bits(choice.taken.loss)
      << " (on settings it did not see it is off by " << model::fixed(loss.held_out_rms, 5)
      << " rms, " << model::fixed(loss.held_out_worst, 5) << " at worst)\nfirst token "
      << times_text(choice.taken) << "; with nothing dropped " << times_text(choice.dense) << " ("
      << planner::describe(choice.dense, loss) << ")\n"
      << choice.evaluated << " plans evaluated in " << time_text(answer.elapsed_s) << ", "
      << model::fixed(rate(answer), 0) << " a second; " << loss.source << ": " << loss.settings
      << " settings measured on " << loss.platform << '\n';
}

Json drop_json(const DropAnswer& answer, const Bounded& bounded, const planner::LossModel& loss) {
  Json json = candidate_json(answer.choice.taken, loss);
  json["objective"] = bounded.flag;
  json["bound"] = bounded.bounds.loss ? *bounded.bounds.loss : *bounded.bounds.ttft_s;
  json["dense"] = candidate_json(answer.choice.dense, loss);
  json["evaluated"] = answer.choice.evaluated;
  json["elapsed_s"] = answer.elapsed_s;
  json["candidates_per_s"] = rate(answer);
  json["loss_model"] = {{"file", loss.source},
                        {"platform", loss.platform},
                        {"settings", loss.settings},
                        {"held_out_rms", loss.held_out_rms},
                        {"held_out_worst", loss.held_out_worst}};
  json["remarks"] = answer.remarks;
  return json;
}

}  // namespace tandem::cli
