// CSPS, figures 14 to 16 and Table 4: CSPS against Sarathi-Serve, by the lengths of Table 2.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_systems.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kFigure14Requests = 500;

struct Ratios {
  std::vector<double> ttft, token, response, rate, ntp_ttft, ntp_token, ntp_response;
  std::vector<double> dropping_ttft, dropping_response, dropping_rate;
};
constexpr const char* kNtpOverTp = "csps-ntp over csps-tp";
constexpr const char* kDropping = "csps dropping 22%";

// Table 4's two numbers of a system.
void add_table4(ExperimentReport& report, const Scenarios& scenarios, const std::string& system,
                const std::vector<std::string>& keys, std::size_t column,
                std::optional<double> prefill, std::optional<double> decode) {
  for (const auto& [phase, value] : {std::pair("prefill", prefill), std::pair("decode", decode)}) {
    report.rows.push_back(
        {.keys = keys,
         .quantity = phase + std::string("_tokens_per_s"),
         .paper = Reading::number(csps_throughputs(scenarios, system, phase).tokens_per_s[column]),
         .tandem = value ? Reading::number(*value) : Reading{},
         .printed = csps_printed_throughput(system, phase, column),
         .note = value
                     ? "operations and bytes alone, at the rates that the 213 s imply; a decoding "
                       "sequence is alone. Table 4 is of another world: see csps-consistency"
                     : "the best configuration, which no reading here distinguishes"});
  }
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
      const CspsMeans sarathi = csps_means(requests, systems[m].sarathi());
      const CspsMeans slow = csps_means(requests, systems[m].slow_sarathi());
      const CspsMeans csps = csps_means(requests, systems[m].csps());
      const CspsMeans dropping = csps_means(requests, systems[m].csps(true));
      std::vector<planner::InferenceRequest> longer;
      std::vector<planner::InferenceRequest> shorter;
      for (const planner::InferenceRequest& request : requests)
        (request.prompt_tokens > kCspsLong ? longer : shorter).push_back(request);
      const CspsMeans ntp = csps_means(longer, systems[m].ntp());
      const CspsMeans tp = csps_means(shorter, systems[m].tp());
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
      const std::size_t table4_column = 2 * d + m;
      for (const auto& [system, means] :
           {std::pair("sarathi", sarathi), std::pair("csps", dropping), std::pair("csps-ntp", ntp),
            std::pair("csps-tp", tp)}) {
        add_table4(report, scenarios, system, {data_set, model, system}, table4_column,
                   csps_prefill_rate(means), 1.0 / means.token_s);
      }
      add_table4(report, scenarios, "oracle", {data_set, model, "oracle"}, table4_column, {}, {});
      // Table 4's quotients: of its means, and by tokens a second of prompts and of sequences.
      const auto table4 = [&](const char* over, const char* under, const CspsMeans& a,
                              const CspsMeans& b, const char* shown_as = nullptr) {
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
               .aside = ExperimentRow::Aside::quotient});
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
      ratios.ntp_token.push_back(ntp.token_s / tp.token_s);
      ratios.ntp_response.push_back(ntp.response_s / tp.response_s);
      ratios.dropping_ttft.push_back(sarathi.ttft_s / dropping.ttft_s);
      ratios.dropping_response.push_back(sarathi.response_s / dropping.response_s);
      ratios.dropping_rate.push_back(sarathi.device_s / dropping.device_s);
    }
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
    range(kNtpOverTp, "ttft_ratio", csps_claim(scenarios, "ttft csps-ntp over csps-tp", data_set),
          ratios.ntp_ttft);
    range(kNtpOverTp, "tbt_ratio", csps_claim(scenarios, "tbt csps-ntp over csps-tp", data_set),
          ratios.ntp_token);
    range(kNtpOverTp, "response_ratio",
          csps_claim(scenarios, "response time csps-ntp over csps-tp", data_set),
          ratios.ntp_response);
    range("csps over sarathi", "rate_ratio", rate, ratios.rate);
    range(std::string(kDropping) + " over sarathi", "rate_ratio", rate, ratios.dropping_rate);
  }
  return report;
}

}  // namespace tandem::study
