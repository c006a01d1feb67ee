// CSPS, figures 14 to 16 and Table 4: CSPS against Sarathi-Serve, by the lengths of Table 2.

#include <algorithm>
#include <utility>
#include <vector>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_systems.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kFigure14Requests = 500;

struct Means {
  double ttft_s = 0.0;
  double token_s = 0.0;
  double response_s = 0.0;
  double prompt_tokens = 0.0;
  double device_s = 0.0;  // of all devices, for prompts
};

Means means_of(const std::vector<planner::InferenceRequest>& requests, const CspsSystem& system) {
  Means means;
  const auto count = static_cast<double>(requests.size());
  for (const planner::InferenceRequest& request : requests) {
    const std::int64_t tokens = request.prompt_tokens;
    const double ttft_s = system.ttft_s(tokens);
    const double token_s = system.token_s(tokens);
    means.ttft_s += ttft_s / count;
    means.token_s += token_s / count;
    means.response_s += (ttft_s + static_cast<double>(request.new_tokens - 1) * token_s) / count;
    means.prompt_tokens += static_cast<double>(tokens) / count;
    means.device_s += ttft_s * system.devices(tokens) / count;
  }
  return means;
}

struct Ratios {
  std::vector<double> ttft, token, response, rate, ntp_ttft;
  std::vector<double> dropping_ttft, dropping_response, dropping_rate;
};
constexpr const char* kDropping = "csps dropping 22%";

// The text's range, which rows with and without dropping compare with; of rates one of both data
// sets.
std::string csps_printed(const std::string& quantity, const std::string& data_set,
                         const std::string& end, const std::string& of) {
  if (quantity == "rate_ratio") return "request rate, " + end;
  return quantity + ", " + data_set + ", " + end +
         (of.starts_with("csps-ntp") ? ", ntp over tp" : "");
}

}  // namespace

ExperimentReport csps_figure14(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"data set", "model", "systems"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      std::to_string(kFigure14Requests) +
      " requests of each data set, log-normal by Table 2's medians and 99th percentiles (seed 1); "
      "each alone on its devices, no queue");
  report.remarks.emplace_back(
      "CSPS: SP-NTP above 100K tokens, parts of 64K; SP-TP of eight devices up to there; decoding "
      "over spread caches. Rate: requests that 64 devices can read a second, decoding left out");
  report.remarks.emplace_back(
      "dropping 22%: of SP-NTP's prompts on several devices, with two levels, the mean of ratios "
      "over levels and layers, the first level and the three layers that drop nothing counted. "
      "What new tokens attend to is not dropped, nor what SP-TP's prompts do");
  report.remarks.emplace_back(
      "1K's steps: each takes longer by what the text's 1.6 s to the first of 1K tokens lack, so "
      "that 1M tokens would take 1,750 s and not 213");
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
      const std::string model(kCspsModels[m]);
      const Means sarathi = means_of(requests, systems[m].sarathi());
      const Means slow = means_of(requests, systems[m].slow_sarathi());
      const Means csps = means_of(requests, systems[m].csps());
      const Means dropping = means_of(requests, systems[m].csps(true));
      std::vector<planner::InferenceRequest> longer;
      std::vector<planner::InferenceRequest> shorter;
      for (const planner::InferenceRequest& request : requests)
        (request.prompt_tokens > kCspsLong ? longer : shorter).push_back(request);
      const Means ntp = means_of(longer, systems[m].ntp());
      const Means tp = means_of(shorter, systems[m].tp());
      for (const auto& [name, means] :
           {std::pair("sarathi", sarathi), std::pair("sarathi, 1K's steps", slow),
            std::pair("csps", csps), std::pair(kDropping, dropping), std::pair("csps-ntp", ntp),
            std::pair("csps-tp", tp)}) {
        const std::vector<std::string> keys{data_set, model, name};
        const auto show = [&](const char* quantity, double value) {
          report.rows.push_back(
              {.keys = keys, .quantity = quantity, .tandem = Reading::number(value)});
        };
        show("ttft_s", means.ttft_s);
        show("tbt_s", means.token_s);
        show("response_s", means.response_s);
      }
      const std::vector<std::string> shown{data_set, model, "sarathi, 1K's steps, over csps"};
      for (const auto& [quantity, value] :
           {std::pair("ttft_ratio", slow.ttft_s / csps.ttft_s),
            std::pair("tbt_ratio", slow.token_s / csps.token_s),
            std::pair("response_ratio", slow.response_s / csps.response_s)}) {
        report.rows.push_back(
            {.keys = shown, .quantity = quantity, .tandem = Reading::number(value)});
      }
      // Table 4: of its means, and by tokens a second of prompts and of sequences.
      const auto table4 = [&](const char* over, const char* under, const Means& a, const Means& b,
                              const char* shown_as = nullptr) {
        const std::vector<std::string> keys{
            data_set, model, std::string(shown_as != nullptr ? shown_as : over) + " over " + under};
        const auto ratio = [&](const char* quantity, const char* phase, double value) {
          const std::size_t column = 2 * d + m;
          report.rows.push_back(
              {.keys = keys,
               .quantity = quantity,
               .paper =
                   Reading::number(csps_throughputs(scenarios, over, phase).tokens_per_s[column] /
                                   csps_throughputs(scenarios, under, phase).tokens_per_s[column]),
               .tandem = Reading::number(value),
               .printed = data_set + ", " + model + ", " + over + " over " + under + ", " + phase});
        };
        ratio("prefill_ratio", "prefill",
              (a.prompt_tokens / a.ttft_s) / (b.prompt_tokens / b.ttft_s));
        if (shown_as == nullptr) ratio("decode_ratio", "decode", b.token_s / a.token_s);
      };
      table4("csps", "sarathi", csps, sarathi);
      table4("csps", "sarathi", dropping, sarathi, kDropping);
      table4("csps-ntp", "csps-tp", ntp, tp);
      ratios.ttft.push_back(sarathi.ttft_s / csps.ttft_s);
      ratios.token.push_back(sarathi.token_s / csps.token_s);
      ratios.response.push_back(sarathi.response_s / csps.response_s);
      ratios.rate.push_back((kCspsDevices / csps.device_s) / (kCspsDevices / sarathi.device_s));
      ratios.ntp_ttft.push_back(ntp.ttft_s / tp.ttft_s);
      ratios.dropping_ttft.push_back(sarathi.ttft_s / dropping.ttft_s);
      ratios.dropping_response.push_back(sarathi.response_s / dropping.response_s);
      ratios.dropping_rate.push_back(sarathi.device_s / dropping.device_s);
    }
    const auto range = [&](const std::string& of, const char* quantity, const CspsClaim& claim,
                           const std::vector<double>& values) {
      const auto [least, most] = std::ranges::minmax(values);
      for (const auto& [end, said, value] :
           {std::tuple("least", claim.least, least), std::tuple("most", claim.most, most)}) {
        report.rows.push_back({.keys = {data_set, end, of},
                               .quantity = quantity,
                               .paper = Reading::number(said),
                               .tandem = Reading::number(value),
                               .printed = csps_printed(quantity, data_set, end, of)});
      }
    };
    const CspsClaim ttft = csps_claim(scenarios, "ttft sarathi over csps", data_set);
    const CspsClaim response = csps_claim(scenarios, "response time sarathi over csps", data_set);
    const CspsClaim rate = csps_claim(scenarios, "request rate csps over sarathi", "all");
    const std::string both = "sarathi over csps";
    range(both, "ttft_ratio", ttft, ratios.ttft);
    range(both, "tbt_ratio", csps_claim(scenarios, "tbt sarathi over csps", data_set),
          ratios.token);
    range(both, "response_ratio", response, ratios.response);
    range(std::string("sarathi over ") + kDropping, "ttft_ratio", ttft, ratios.dropping_ttft);
    range(std::string("sarathi over ") + kDropping, "response_ratio", response,
          ratios.dropping_response);
    range("csps-ntp over csps-tp", "ttft_ratio",
          csps_claim(scenarios, "ttft csps-ntp over csps-tp", data_set), ratios.ntp_ttft);
    range("csps over sarathi", "rate_ratio", rate, ratios.rate);
    range(std::string(kDropping) + " over sarathi", "rate_ratio", rate, ratios.dropping_rate);
  }
  return report;
}

}  // namespace tandem::study
