// CSPS, all figures and Tables 3 and 4, by its software's cost a step and a token: a second reading
// beside that of csps-figure2 to csps-figure17.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_steps.hpp"
#include "study/experiment/csps_two_modes.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

constexpr const char* kNoStep =
    "this reading has no such time: its three constants are of Sarathi-Serve's steps and of CSPS's "
    "tokens";

enum class Basis { predicted, calibrates, follows };

class BySteps {
 public:
  explicit BySteps(const Scenarios& scenarios)
      : scenarios_(scenarios), costs_(calibrated_csps_steps(scenarios)) {
    for (const std::string_view name : kCspsModels)
      models_.emplace_back(csps_model(scenarios, name), costs_);
  }

  ExperimentReport run() && {
    figures_2_and_3();
    figure_5();
    figures_10_and_11();
    table_3();
    for (std::size_t d = 0; d < kCspsDataSets.size(); ++d) data_set(d);
    rates();
    savings();
    remark();
    return std::move(report_);
  }

 private:
  struct Number {
    std::string figure;
    std::string of;
    std::string quantity;
    double paper = 0.0;
    Reading tandem{};
    std::string printed{};
    Basis basis = Basis::predicted;
    std::string note{};
  };

  void add(Number number) {
    report_.rows.push_back(
        {.keys = {std::move(number.figure), std::move(number.of)},
         .quantity = std::move(number.quantity),
         .paper = Reading::number(number.paper),
         .tandem = number.tandem,
         .calibrated = number.basis == Basis::calibrates,
         .aside = number.basis == Basis::follows ? ExperimentRow::Aside::follows
                                                 : ExperimentRow::Aside::none,
         .printed = std::move(number.printed),
         .note = number.tandem.kind == Reading::Kind::none ? kNoStep : std::move(number.note)});
  }

  void figures_2_and_3() {
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 2> kEnds{
        {{"1K", 1'000}, {"1M", kCspsMillion}}};
    // The figure's group holds prompts of up to 1K tokens: on average three chunks.
    constexpr std::int64_t kMeanOfGroup = 3 * kCspsChunk;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const CspsStepModel& model = models_[m];
      const bool first = m == 0;
      for (const auto& [length, tokens] : kEnds) {
        const bool is_short = length == "1K";
        const double step_s = model.sarathi_step_s(tokens);
        const auto number = [&, of = length](const char* claim, double value, Basis basis,
                                             const char* note) {
          const std::string name(claim);
          add({.figure = "figures 2 and 3",
               .of = std::string(kCspsModels[m]) + ", " + std::string(of),
               .quantity = name,
               .paper = csps_claim(scenarios_, claim, of).least,
               .tandem = Reading::number(value),
               .printed = name + ", " + std::string(of),
               .basis = basis,
               .note = note});
        };
        number("sarathi ttft s", model.sarathi_ttft_s(is_short ? kMeanOfGroup : tokens),
               is_short ? Basis::calibrates : Basis::predicted,
               "1M tokens at figure 3's 191 tokens/s are 5,236 s: the paper's two numbers exclude "
               "each other");
        number("sarathi tbt s", step_s, is_short ? Basis::follows : Basis::predicted,
               "figure 3's 191 tokens/s are steps of 1.34 s; 9.6 s between tokens are seven such "
               "steps");
        number("sarathi prefill tokens/s", static_cast<double>(kCspsChunk) / step_s,
               first ? Basis::calibrates : Basis::predicted, "");
        const auto sequences = static_cast<double>(model.sarathi_sequences(tokens));
        number("sarathi decode tokens/s", sequences / step_s, Basis::predicted,
               "two caches of 1M tokens of InternLM2.5 fit eight GPUs, seven of GLM-4; 128 "
               "sequences at 1K are Sarathi's default");
      }
    }
  }

  void figure_5() {
    constexpr std::array<std::int64_t, 6> kLengths5{1'000,   10'000,  100'000,
                                                    250'000, 500'000, kCspsMillion};
    for (const auto& [prefill, name, partition] : {std::tuple(CspsPrefill::ntp, "sp-ntp", "64K"),
                                                   std::tuple(CspsPrefill::tp, "sp-tp", "128K")}) {
      std::vector<double> shares;
      for (const CspsStepModel& model : models_) {
        for (const std::int64_t tokens : kLengths5)
          shares.push_back(model.attention_share(prefill, tokens));
      }
      const auto [least, most] = std::ranges::minmax(shares);
      for (const std::string share : {"communication", "attention"}) {
        const CspsClaim claim = csps_claim(scenarios_, share + " share " + name, partition);
        for (const auto& [end, paper, value] :
             {std::tuple("least", claim.least, least), std::tuple("most", claim.most, most)}) {
          add({.figure = "figure 5",
               .of = std::string(name) + ", " + end,
               .quantity = share + "_percent",
               .paper = 100.0 * paper,
               .tandem = share == "attention" ? Reading::number(100.0 * value) : Reading{},
               .printed = "figure 5, " + std::string(name) + ", " + share + ", " + end,
               .note =
                   "of 1K to 1M tokens; the figure's lengths are bars. R, which is nearly all of "
                   "a short prompt's time, includes communication"});
        }
      }
    }
  }

  void figures_10_and_11() {
    for (const char* length : {"1K", "1M"}) {
      for (const char* claim : {"sp tbt s", "sp decode tokens/s"}) {
        add({.figure = "figures 10 and 11",
             .of = length,
             .quantity = claim,
             .paper = csps_claim(scenarios_, claim, length).least,
             .printed = std::string(claim) + ", " + length});
      }
    }
  }

  // Keys and values of all 32 heads, as appendix A counts them, by one server's line, and a
  // constant.
  void table_3() {
    constexpr double kLine = 50e9;  // bytes a second: 400 Gbps
    constexpr double kBytes = 2.0;
    const model::Csv table = scenarios_.paper("csps_table3");
    double constant_ms = 0.0;
    double first_bytes = 0.0;  // rows of as many have the same prediction
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const model::Transformer transformer = scenarios_.model(table.at(i, "model"));
      const double bytes = 2.0 * kBytes *
                           static_cast<double>(transformer.heads * transformer.head_dim) *
                           paper_reading(table, i, "tokens").value;
      const double paper_ms = paper_reading(table, i, "kv_ms").value;
      if (i == 0) {
        constant_ms = paper_ms - 1e3 * bytes / kLine;
        first_bytes = bytes;
      }
      const std::string of = table.at(i, "data_set") + ", " + table.at(i, "model");
      add({.figure = "Table 3",
           .of = of,
           .quantity = "kv_ms",
           .paper = paper_ms,
           .tandem = Reading::number(constant_ms + 1e3 * bytes / kLine),
           .printed = of + ", kv_ms",
           .basis = i == 0                 ? Basis::calibrates
                    : bytes == first_bytes ? Basis::follows
                                           : Basis::predicted});
      add({.figure = "Table 3",
           .of = of,
           .quantity = "q_ms",
           .paper = paper_reading(table, i, "q_ms").value,
           .printed = of + ", q_ms"});
    }
    report_.remarks.push_back("Table 3: " + model::fixed(constant_ms, 0) +
                              " ms (its first row) and 16,384 bytes a token, keys and values of "
                              "all 32 heads, by 400 Gbps");
  }

  void data_set(std::size_t d) {
    const std::string name(kCspsDataSets[d]);
    const std::vector<planner::InferenceRequest> requests =
        csps_two_mode_requests(csps_lengths(scenarios_, name), kCspsStepRequests);
    std::vector<planner::InferenceRequest> longer;
    std::vector<planner::InferenceRequest> shorter;
    for (const planner::InferenceRequest& request : requests)
      (request.prompt_tokens > kCspsLong ? longer : shorter).push_back(request);
    Ratios sarathi_over_csps;
    Ratios ntp_over_tp;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const CspsStepModel& model = models_[m];
      const CspsMeans sarathi = csps_means(requests, model.sarathi());
      const CspsMeans csps = csps_means(requests, model.csps());
      const CspsMeans ntp = csps_means(longer, model.prefilled(CspsPrefill::ntp));
      const CspsMeans tp = csps_means(shorter, model.prefilled(CspsPrefill::tp));
      table_4(2 * d + m, model, sarathi, {&csps, &ntp, &tp});
      sarathi_over_csps.add(sarathi, csps);
      ntp_over_tp.add(ntp, tp);
      rates_.push_back(sarathi.device_s / csps.device_s);
    }
    ranges(name, "sarathi over csps", sarathi_over_csps, false);
    ranges(name, "csps-ntp over csps-tp", ntp_over_tp, true);
  }

  struct Ratios {
    std::vector<double> ttft, token, response;
    void add(const CspsMeans& over, const CspsMeans& under) {
      ttft.push_back(over.ttft_s / under.ttft_s);
      token.push_back(over.token_s / under.token_s);
      response.push_back(over.response_s / under.response_s);
    }
  };

  void table_4(std::size_t column, const CspsStepModel& model, const CspsMeans& sarathi,
               std::array<const CspsMeans*, 3> csps) {
    const std::string of = std::string(kCspsDataSets[column / kCspsModels.size()]) + ", " +
                           std::string(kCspsModels[column % kCspsModels.size()]);
    const auto number = [&](const std::string& system, const std::string& phase, Reading tandem,
                            Basis basis) {
      add({.figure = "Table 4",
           .of = of + ", " + system,
           .quantity = phase + "_tokens_per_s",
           .paper = csps_throughputs(scenarios_, system, phase).tokens_per_s[column],
           .tandem = tandem,
           .printed = csps_printed_throughput(system, phase, column),
           .basis = basis,
           .note = system == "csps-tp" ? "SP-TP's prompts are the short ones, of which attention "
                                         "takes little: 1 / R"
                                       : "as many sequences as eight GPUs hold decode together; "
                                         "which of them did is not stated"});
    };
    const auto sequences =
        model.sarathi_sequences(static_cast<std::int64_t>(sarathi.prompt_tokens));
    number("sarathi", "prefill", Reading::number(csps_prefill_rate(sarathi)), Basis::predicted);
    number("sarathi", "decode", Reading::number(static_cast<double>(sequences) / sarathi.token_s),
           Basis::predicted);
    constexpr std::array kSystems{"csps", "csps-ntp", "csps-tp"};
    for (std::size_t s = 0; s < kSystems.size(); ++s) {
      number(kSystems.at(s), "prefill", Reading::number(csps_prefill_rate(*csps.at(s))),
             s == 0 && column == 0 ? Basis::calibrates : Basis::follows);
      number(kSystems.at(s), "decode", {}, Basis::predicted);
    }
    number("oracle", "prefill", {}, Basis::predicted);
    number("oracle", "decode", {}, Basis::predicted);
  }

  void ranges(const std::string& name, const std::string& of, const Ratios& ratios,
              bool ntp_over_tp) {
    const auto range = [&](const std::string& quantity, const std::string& claim,
                           const std::vector<double>& values, const char* note) {
      const CspsClaim said = csps_claim(scenarios_, claim + " " + of, name);
      const auto [least, most] = std::ranges::minmax(values);
      for (const auto& [end, paper, value] :
           {std::tuple("least", said.least, least), std::tuple("most", said.most, most)}) {
        std::string compared = name;
        compared.append(", ").append(of).append(", ").append(end);
        add({.figure = "figures 14 to 16",
             .of = std::move(compared),
             .quantity = quantity,
             .paper = paper,
             .tandem = Reading::number(value),
             .printed = csps_printed_range(quantity, name, end, ntp_over_tp),
             .note = note});
      }
    };
    const char* const of_prompts =
        "long prompts (SP-NTP) over short ones (SP-TP): the paper does not say which prompts its "
        "two means are of; of new tokens this reading distinguishes none";
    range("ttft_ratio", "ttft", ratios.ttft,
          ntp_over_tp
              ? of_prompts
              : "Table 4's own rates give 5.7 on BookCorpus, where the text has 6.1 to 7.2");
    range("tbt_ratio", "tbt", ratios.token, of_prompts);
    range("response_ratio", "response time", ratios.response,
          ntp_over_tp ? of_prompts : "no ratio of sums exceeds those of their parts");
  }

  void rates() {
    const CspsClaim said = csps_claim(scenarios_, "request rate csps over sarathi", "all");
    const auto [least, most] = std::ranges::minmax(rates_);
    for (const auto& [end, paper, value] :
         {std::tuple("least", said.least, least), std::tuple("most", said.most, most)}) {
      add({.figure = "figure 17",
           .of = end,
           .quantity = "rate_ratio",
           .paper = paper,
           .tandem = Reading::number(value),
           .printed = csps_printed_range("rate_ratio", "", end, false),
           .note =
               "device seconds of prompts: eight of Sarathi-Serve's, one for 64K tokens of "
               "CSPS's; the paper gains less than its own throughputs of prompts (5.7 to 7.0)"});
    }
  }

  void savings() {
    for (const char* of :
         {"communication time saved at no loss", "computation time saved at no loss"}) {
      add({.figure = "section 5.3",
           .of = "22% dropped",
           .quantity = of,
           .paper = 100.0 * csps_claim(scenarios_, of, "all").least,
           .printed = of});
    }
  }

  void remark() {
    report_.remarks.insert(
        report_.remarks.begin(),
        {"a step of Sarathi-Serve takes " + model::fixed(costs_.step_s, 3) + " s and " +
             model::fixed(100.0 * costs_.efficiency, 1) +
             "% of four A100's peak (figure 3's 487 and 191 tokens/s, by GLM-4); one chunk is in "
             "flight",
         "a prompt of CSPS takes " + model::fixed(1e6 * costs_.token_s, 0) +
             " us a token, however many its devices (Table 4, NeedleBench, GLM-4: 1580), and "
             "attention at half of their peak; its new tokens take a step",
         "prompts up to 1K tokens are three chunks on average: chosen by the 1.6 s",
         "a reading of software, made after seeing the numbers: at 1K tokens a step computes for "
         "less than a tenth of its time"});
    for (const std::string_view name : kCspsDataSets) {
      const CspsLengths lengths = csps_lengths(scenarios_, name);
      const CspsTwoModes modes = csps_two_modes(lengths, kCspsStepRequests);
      report_.remarks.push_back(std::string(name) + ": half of the prompts log-uniform from " +
                                std::to_string(modes.least) +
                                " tokens to the median, half at the 99th percentile: deviation " +
                                model::fixed(1e-3 * modes.deviation(), 0) + "K, Table 2's " +
                                model::fixed(1e-3 * lengths.prompt_deviation, 0) + "K");
    }
  }

  const Scenarios& scenarios_;
  CspsStepCosts costs_;
  std::vector<CspsStepModel> models_;
  std::vector<double> rates_;
  ExperimentReport report_{.key_names = {"figure", "of"}};
};

}  // namespace

ExperimentReport csps_by_steps(const Scenarios& scenarios, Progress& progress) {
  progress.expect(1);
  ExperimentReport report = BySteps(scenarios).run();
  progress.advance(1);
  return report;
}

}  // namespace tandem::study
