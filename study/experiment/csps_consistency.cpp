// Consistency of CSPS: claims of its text beside values implied by its own tables and other claims.
// No predictions.

#include <algorithm>
#include <cmath>
#include <utility>

#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {
namespace {

class Comparison {
 public:
  explicit Comparison(const Scenarios& scenarios) : scenarios_(scenarios) {}

  ExperimentReport run() && {
    ratios_of_table4();
    means_between_their_parts();
    seconds_of_sarathi();
    load();
    lengths();
    transfers();
    drops();
    return std::move(report_);
  }

 private:
  [[nodiscard]] CspsClaim claim(std::string_view of_what, std::string_view of = "all") const {
    return csps_claim(scenarios_, of_what, of);
  }

  void add(const std::string& what, const std::string& of, const std::string& quantity, double text,
           double implied) {
    report_.rows.push_back({.keys = {what, of},
                            .quantity = quantity,
                            .paper = Reading::number(text),
                            .tandem = Reading::number(implied)});
  }
  void add_range(const std::string& what, const std::string& of, CspsClaim text,
                 CspsClaim implied) {
    add(what, of, "least", text.least, implied.least);
    add(what, of, "most", text.most, implied.most);
  }

  // The least and most of Table 4's ratios, over data sets and models from column `first` on.
  [[nodiscard]] CspsClaim ratio(std::string_view over, std::string_view under,
                                std::string_view phase, std::size_t first = 0,
                                std::size_t count = 4) const {
    const auto a = csps_throughputs(scenarios_, over, phase).tokens_per_s;
    const auto b = csps_throughputs(scenarios_, under, phase).tokens_per_s;
    CspsClaim range{.least = a[first] / b[first], .most = a[first] / b[first]};
    for (std::size_t i = first; i < first + count; ++i) {
      range.least = std::min(range.least, a[i] / b[i]);
      range.most = std::max(range.most, a[i] / b[i]);
    }
    return range;
  }

  void ratios_of_table4() {
    for (const std::string phase : {"prefill", "decode"}) {
      add_range(phase + " throughput, csps over sarathi", "Table 4",
                claim(phase + " throughput csps over sarathi"), ratio("csps", "sarathi", phase));
      add(phase + " throughput, csps over oracle", "Table 4", "least",
          claim("throughput csps over oracle").least, ratio("csps", "oracle", phase).least);
      add_range(phase + " throughput, csps-ntp over csps-tp", "Table 4",
                claim("throughput csps-ntp over csps-tp"), ratio("csps-ntp", "csps-tp", phase));
    }
    // One prompt's throughput is its length over its time to first token.
    for (std::size_t i = 0; i < kCspsDataSets.size(); ++i) {
      const std::string of(kCspsDataSets[i]);
      add_range("ttft, sarathi over csps", of + ", Table 4's prefill",
                claim("ttft sarathi over csps", of), ratio("csps", "sarathi", "prefill", 2 * i, 2));
    }
  }

  // A response is its first token and its further ones, so of two systems' means
  //   (a + b) / (c + d) <= max(a / c, b / d)
  void means_between_their_parts() {
    for (const std::string_view name : kCspsDataSets) {
      const std::string of(name);
      add("response time, sarathi over csps", of + ", at most ttft's or tbt's", "most",
          claim("response time sarathi over csps", of).most,
          std::max(claim("ttft sarathi over csps", of).most,
                   claim("tbt sarathi over csps", of).most));
    }
  }

  // For prompts of 1M tokens.
  void seconds_of_sarathi() {
    const double ttft_s = claim("sarathi ttft s", "1M").least;
    constexpr auto kTokens = static_cast<double>(kCspsMillion);
    add("sarathi's prefill tokens/s", "1M tokens in its ttft", "least",
        claim("sarathi prefill tokens/s", "1M").least, kTokens / ttft_s);
    // Attention makes steps longer in proportion to what is cached, so the last takes at most
    // twice the mean; a token passes both stages, while another step has the other.
    const double steps = std::ceil(kTokens / static_cast<double>(kCspsChunk));
    constexpr double kLast = 2.0;
    constexpr double kStages = 2.0;
    add("sarathi's tbt, s", "at most four mean steps of its ttft", "most",
        claim("sarathi tbt s", "1M").most, kLast * kStages * ttft_s / steps);
  }

  // 5.2: "unlikely to increase the queueing delay".
  void load() {
    const double rate = claim("requests a second").least;
    for (const std::string system : {"sarathi", "csps"}) {
      const auto tokens = csps_throughputs(scenarios_, system, "prefill").tokens_per_s;
      for (std::size_t i = 0; i < kCspsDataSets.size(); ++i) {
        const std::string of(kCspsDataSets[i]);
        std::string read = of;
        read += ", median prompts that ";
        read += system;
        read += "'s prefill can read";
        add("requests/s", read, "most", rate,
            std::max(tokens[2 * i], tokens[2 * i + 1]) /
                csps_lengths(scenarios_, of).prompt.median);
      }
    }
  }

  // Half of NeedleBench's prompts are no longer than the median, at most one in a hundred is longer
  // than the 99th percentile, and none longer than the models' context: what lies at the ends of
  // these has the largest deviation.
  void lengths() {
    const CspsLengths lengths = csps_lengths(scenarios_, kCspsDataSets.front());
    constexpr double kContext = 1048576.0;
    const double mean = 0.49 * lengths.prompt.p99 + 0.01 * kContext;
    const double square =
        0.49 * lengths.prompt.p99 * lengths.prompt.p99 + 0.01 * kContext * kContext;
    add("deviation of needlebench's prompts", "the most by median and 99th percentile", "most",
        lengths.prompt_deviation, std::sqrt(square - mean * mean));
  }

  // Table 3: keys and values of a layer are 2 heads' in GLM-4, 8 heads' in InternLM2.5.
  void transfers() {
    const auto ms = [&](const std::string& model, std::string_view of) {
      return claim("kv transfer ms", model + " " + std::string(of)).least;
    };
    const auto heads = [&](const std::string& model) {
      return static_cast<double>(scenarios_.model(model).kv_heads);
    };
    for (const std::string_view of : kCspsDataSets) {
      add("K and V to move, glm-4 over internlm2.5", std::string(of) + ", bytes", "least",
          ms("glm-4", of) / ms("internlm2.5", of),
          heads("glm-4-9b-1m") / heads("internlm2.5-7b-1m"));
    }
    constexpr double kLongest = 406e3;
    for (const std::string model : {"glm-4", "internlm2.5"}) {
      add("K and V to move, 406K over 1M tokens", model + ", bytes", "least",
          ms(model, "bookcorpus") / ms(model, "needlebench"), kLongest / kCspsMillion);
    }
  }

  // 3.2.4: "drops more", by 1 - p2 = (1 - p3) / 2.
  void drops() { add("tokens kept, level 3 over level 2", "its formula", "least", 0.5, 2.0); }

  const Scenarios& scenarios_;
  ExperimentReport report_{
      .key_names = {"claim", "implied by"},
      .theirs = "text",
      .ours = "implied",
      .role = "compared",
      .remarks = {
          "nothing here is predicted: what the paper's text says, beside what its tables "
          "and other claims imply",
          "appendix A: with two devices its rule, d / L < (1 - 2 / N) / 2, never holds; its "
          "text says that SP-NTP is then always better"}};
};

}  // namespace

ExperimentReport csps_consistency(const Scenarios& scenarios, Progress& progress) {
  progress.expect(1);
  ExperimentReport report = Comparison(scenarios).run();
  progress.advance(1);
  return report;
}

}  // namespace tandem::study
