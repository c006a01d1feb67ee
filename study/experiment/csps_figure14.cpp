// CSPS, figures 14 to 16 and Table 4: CSPS against Sarathi-Serve, by the lengths of Table 2.

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_systems.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kFigure14Requests = 500;
constexpr const char* kNtpOverTp = "csps-ntp over csps-tp";
constexpr const char* kDropping = "csps dropping 22%";
constexpr const char* kTable4Note =
    "operations and bytes alone, at the rates that the 213 s imply; a decoding sequence is alone. "
    "Table 4 is of another world: see csps-consistency";

// Of one data set's requests with one model.
struct Means {
  CspsMeans sarathi, slow, csps, dropping, ntp, tp;
};

// Of one data set, by model.
struct Ratios {
  std::vector<double> ttft, token, response, rate, ntp_ttft, ntp_token, ntp_response;
  std::vector<double> dropping_ttft, dropping_response, dropping_rate;
};

std::vector<std::string> remarks_of(const CspsTestbed& testbed) {
  std::vector<std::string> remarks = csps_remarks(testbed);
  remarks.emplace_back(
      std::to_string(kFigure14Requests) +
      " requests of each data set, log-normal by Table 2's medians and 99th percentiles (seed 1); "
      "each alone on its devices, no queue");
  remarks.emplace_back(
      "CSPS: SP-NTP above 100K tokens, parts of 64K; SP-TP of eight devices up to there; decoding "
      "over spread caches. Rate: requests that 64 devices can read a second, decoding left out");
  remarks.emplace_back(
      "dropping 22%: of SP-NTP's prompts on several devices, with two levels, the mean of ratios "
      "over levels and layers, the first level and the three layers that drop nothing counted. "
      "What new tokens attend to is not dropped, nor what SP-TP's prompts do");
  remarks.emplace_back(
      "1K's steps: each takes longer by what the text's 1.6 s to the first of 1K tokens lack, so "
      "that 1M tokens would take 1,750 s and not 213");
  return remarks;
}

Means means_of(const std::vector<planner::InferenceRequest>& requests, CspsSystems& systems) {
  std::vector<planner::InferenceRequest> longer;
  std::vector<planner::InferenceRequest> shorter;
  for (const planner::InferenceRequest& request : requests)
    (request.prompt_tokens > kCspsLong ? longer : shorter).push_back(request);
  return {.sarathi = csps_means(requests, systems.sarathi()),
          .slow = csps_means(requests, systems.slow_sarathi()),
          .csps = csps_means(requests, systems.csps()),
          .dropping = csps_means(requests, systems.csps(true)),
          .ntp = csps_means(longer, systems.ntp()),
          .tp = csps_means(shorter, systems.tp())};
}

// Rows of one data set and model.
class ModelRows {
 public:
  ModelRows(ExperimentReport& report, const Scenarios& scenarios, std::size_t data_set,
            std::size_t model)
      : report_(report),
        scenarios_(scenarios),
        data_set_(kCspsDataSets[data_set]),
        model_(kCspsModels[model]),
        column_(2 * data_set + model) {}

  void times(const Means& means) {
    for (const auto& [name, of] :
         {std::pair("sarathi", &means.sarathi), std::pair("sarathi, 1K's steps", &means.slow),
          std::pair("csps", &means.csps), std::pair(kDropping, &means.dropping),
          std::pair("csps-ntp", &means.ntp), std::pair("csps-tp", &means.tp)}) {
      measured(name, "ttft_s", of->ttft_s);
      measured(name, "tbt_s", of->token_s);
      measured(name, "response_s", of->response_s);
    }
    const char* const slow = "sarathi, 1K's steps, over csps";
    measured(slow, "ttft_ratio", means.slow.ttft_s / means.csps.ttft_s);
    measured(slow, "tbt_ratio", means.slow.token_s / means.csps.token_s);
    measured(slow, "response_ratio", means.slow.response_s / means.csps.response_s);
  }

  void table4(const Means& means) {
    throughputs("sarathi", &means.sarathi);
    throughputs("csps", &means.dropping);
    throughputs("csps-ntp", &means.ntp);
    throughputs("csps-tp", &means.tp);
    throughputs("oracle", nullptr);
    quotients("csps", "sarathi", means.csps, means.sarathi);
    quotients("csps", "sarathi", means.dropping, means.sarathi, kDropping);
    quotients("csps-ntp", "csps-tp", means.ntp, means.tp);
  }

 private:
  void measured(const std::string& name, const char* quantity, double value) {
    report_.rows.push_back({.keys = {data_set_, model_, name},
                            .quantity = quantity,
                            .tandem = Reading::number(value)});
  }
  [[nodiscard]] double printed(const std::string& system, const std::string& phase) const {
    return csps_throughputs(scenarios_, system, phase).tokens_per_s[column_];
  }
  // Table 4's two numbers of a system.
  void throughputs(const std::string& system, const CspsMeans* means) {
    for (const std::string phase : {"prefill", "decode"}) {
      Reading value;
      if (means != nullptr)
        value =
            Reading::number(phase == "prefill" ? csps_prefill_rate(*means) : 1.0 / means->token_s);
      report_.rows.push_back({.keys = {data_set_, model_, system},
                              .quantity = phase + "_tokens_per_s",
                              .paper = Reading::number(printed(system, phase)),
                              .tandem = value,
                              .printed = csps_printed_throughput(system, phase, column_),
                              .note = means != nullptr
                                          ? kTable4Note
                                          : "the best configuration, which no reading here "
                                            "distinguishes"});
    }
  }
  // Of Table 4's numbers: of its means, and by tokens a second of prompts and of sequences.
  void quotients(const std::string& over, const std::string& under, const CspsMeans& a,
                 const CspsMeans& b, const char* shown_as = nullptr) {
    const auto ratio = [&](const char* quantity, const char* phase, double value) {
      const std::string name = shown_as != nullptr ? shown_as : over;
      report_.rows.push_back(
          {.keys = {data_set_, model_, name + " over " + under},
           .quantity = quantity,
           .paper = Reading::number(printed(over, phase) / printed(under, phase)),
           .tandem = Reading::number(value),
           .aside = ExperimentRow::Aside::quotient});
    };
    ratio("prefill_ratio", "prefill", (a.prompt_tokens / a.ttft_s) / (b.prompt_tokens / b.ttft_s));
    if (shown_as == nullptr) ratio("decode_ratio", "decode", b.token_s / a.token_s);
  }

  ExperimentReport& report_;
  const Scenarios& scenarios_;
  std::string data_set_;
  std::string model_;
  std::size_t column_;
};

void add_ratios(Ratios& ratios, const Means& means) {
  const auto& [sarathi, slow, csps, dropping, ntp, tp] = means;
  ratios.ttft.push_back(sarathi.ttft_s / csps.ttft_s);
  ratios.token.push_back(sarathi.token_s / csps.token_s);
  ratios.response.push_back(sarathi.response_s / csps.response_s);
  ratios.rate.push_back((kCspsDevices / csps.device_s) / (kCspsDevices / sarathi.device_s));
  ratios.ntp_ttft.push_back(ntp.ttft_s / tp.ttft_s);
  ratios.ntp_token.push_back(ntp.token_s / tp.token_s);
  ratios.ntp_response.push_back(ntp.response_s / tp.response_s);
  ratios.dropping_ttft.push_back(sarathi.ttft_s / dropping.ttft_s);
  ratios.dropping_response.push_back(sarathi.response_s / dropping.response_s);
  ratios.dropping_rate.push_back(sarathi.device_s / dropping.device_s);
}

// What the paper claims of a data set, over its models.
void show_ranges(ExperimentReport& report, const Scenarios& scenarios, const std::string& data_set,
                 const Ratios& ratios) {
  const auto range = [&](const std::string& of, const char* quantity, const CspsClaim& claim,
                         const std::vector<double>& values) {
    const auto [least, most] = std::ranges::minmax(values);
    for (const auto& [end, said, value] :
         {std::tuple("least", claim.least, least), std::tuple("most", claim.most, most)}) {
      report.rows.push_back(
          {.keys = {data_set, end, of},
           .quantity = quantity,
           .paper = Reading::number(said),
           .tandem = Reading::number(value),
           .printed = csps_printed_range(quantity, data_set, end, of == kNtpOverTp)});
    }
  };
  const auto claim = [&](const char* of) { return csps_claim(scenarios, of, data_set); };
  const CspsClaim ttft = claim("ttft sarathi over csps");
  const CspsClaim response = claim("response time sarathi over csps");
  const CspsClaim rate = csps_claim(scenarios, "request rate csps over sarathi", "all");
  const std::string both = "sarathi over csps";
  const std::string dropped = std::string("sarathi over ") + kDropping;
  range(both, "ttft_ratio", ttft, ratios.ttft);
  range(both, "tbt_ratio", claim("tbt sarathi over csps"), ratios.token);
  range(both, "response_ratio", response, ratios.response);
  range(dropped, "ttft_ratio", ttft, ratios.dropping_ttft);
  range(dropped, "response_ratio", response, ratios.dropping_response);
  range(kNtpOverTp, "ttft_ratio", claim("ttft csps-ntp over csps-tp"), ratios.ntp_ttft);
  range(kNtpOverTp, "tbt_ratio", claim("tbt csps-ntp over csps-tp"), ratios.ntp_token);
  range(kNtpOverTp, "response_ratio", claim("response time csps-ntp over csps-tp"),
        ratios.ntp_response);
  range("csps over sarathi", "rate_ratio", rate, ratios.rate);
  range(std::string(kDropping) + " over sarathi", "rate_ratio", rate, ratios.dropping_rate);
}

}  // namespace

ExperimentReport csps_figure14(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"data set", "model", "systems"},
                          .remarks = remarks_of(testbed)};
  progress.expect(kCspsModels.size() * static_cast<std::size_t>(CspsSystems::kParts));
  std::vector<CspsSystems> systems;
  systems.reserve(kCspsModels.size());
  for (const std::string_view model : kCspsModels)
    systems.emplace_back(scenarios, testbed, model, progress);
  for (std::size_t d = 0; d < kCspsDataSets.size(); ++d) {
    const std::string data_set(kCspsDataSets[d]);
    const CspsLengths lengths = csps_lengths(scenarios, data_set);
    const std::vector<planner::InferenceRequest> requests =
        planner::drawn_requests({.count = kFigure14Requests,
                                 .prompt = lengths.prompt,
                                 .output = lengths.output,
                                 .most = kCspsContext});
    Ratios ratios;
    for (std::size_t m = 0; m < kCspsModels.size(); ++m) {
      const Means means = means_of(requests, systems[m]);
      ModelRows rows(report, scenarios, d, m);
      rows.times(means);
      rows.table4(means);
      add_ratios(ratios, means);
    }
    show_ranges(report, scenarios, data_set, ratios);
  }
  return report;
}

}  // namespace tandem::study
