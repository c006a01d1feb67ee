// Consistency of CSPS: claims of its text beside values implied by its own tables and other claims.
// No predictions.

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/base/text_table.hpp"
#include "study/experiment/csps_steps.hpp"

namespace tandem::study {
namespace {

class Comparison {
 public:
  explicit Comparison(const Scenarios& scenarios) : scenarios_(scenarios) {}

  ExperimentReport run() && {
    ratios_of_table4();
    means_between_their_parts();
    seconds_of_sarathi();
    steps_at_1k();
    caches();
    tokens_by_phase();
    load();
    lengths();
    transfers();
    drops();
    denominators();
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
      for (const std::string systems : {"csps over oracle", "csps-ntp over csps-tp"}) {
        add("response time, " + systems, of + ", at most ttft's or tbt's", "most",
            claim("response time " + systems, of).most,
            std::max(claim("ttft " + systems, of).most, claim("tbt " + systems, of).most));
      }
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

  // Sarathi-Serve's scheduler leaves out sequences of which a chunk is in flight, so that of a
  // prompt alone one of its two stages works at a time: four devices.
  [[nodiscard]] double least_s(double tokens) const {
    const CspsStepCosts peak{
        .peak_flops = scenarios_.platform("a100-8x8").devices().front().flop_rate.value()};
    return CspsStepModel(csps_model(scenarios_, kCspsModels.front()), peak)
        .sarathi_ttft_s(static_cast<std::int64_t>(tokens));
  }

  // What figures 2 and 3 print at 1K is of one step: 256 tokens at 487 tokens/s.
  void steps_at_1k() {
    const auto chunk = static_cast<double>(kCspsChunk);
    const double step_s = chunk / claim("sarathi prefill tokens/s", "1K").least;
    add("sarathi's tbt, s", "1K: a chunk at figure 3's tokens/s", "least",
        claim("sarathi tbt s", "1K").least, step_s);
    constexpr double kShort = 1000.0;
    add("sarathi's ttft, s", "1K: four such chunks", "most", claim("sarathi ttft s", "1K").least,
        std::ceil(kShort / chunk) * step_s);
    add("sarathi's ttft, s", "1M, glm-4: one chunk in flight, at the peak of four A100", "least",
        claim("sarathi ttft s", "1M").least, least_s(static_cast<double>(kCspsMillion)));
  }

  // Bytes of weights, and of a token's keys and values, in 2 bytes.
  struct CacheBytes {
    double weights = 0.0;
    double token = 0.0;
  };
  [[nodiscard]] CacheBytes bytes_of(std::string_view name) const {
    const model::Transformer transformer = csps_model(scenarios_, name);
    constexpr double kEach = 2.0;
    return {.weights = kEach * static_cast<double>(transformer.parameters()),
            .token = kEach * 2.0 *
                     static_cast<double>(transformer.layers * transformer.kv_heads *
                                         transformer.head_dim)};
  }

  void caches() {
    constexpr double kGpu = 40e9;
    for (const std::string_view name : kCspsModels) {
      const CacheBytes of = bytes_of(name);
      add("tokens of a partition that fully utilizes the KV cache",
          std::string(name) + ", a GPU of 40 GB beside the weights", "most",
          static_cast<double>(kCspsPartition), (kGpu - of.weights) / of.token);
    }
    // Sequences that decode together are their tokens a second by the time between tokens.
    const double together =
        claim("sarathi decode tokens/s", "1M").least * claim("sarathi tbt s", "1M").least;
    const CacheBytes of = bytes_of(kCspsModels.front());
    for (const double gpus : {kSarathiDevices, kCspsDevices}) {
      add("sequences of 1M tokens that decode together",
          "glm-4's caches in " + model::fixed(gpus, 0) + " GPUs", "most", together,
          gpus / kSarathiDevices * (kSarathiDevices * kGpu - of.weights) /
              (of.token * static_cast<double>(kCspsMillion)));
    }
  }

  // Prompts' tokens over new ones: those of Table 4 are of the same requests as Table 2's.
  void tokens_by_phase() {
    for (std::size_t d = 0; d < kCspsDataSets.size(); ++d) {
      const std::string of(kCspsDataSets[d]);
      const CspsLengths lengths = csps_lengths(scenarios_, of);
      const double medians = lengths.prompt.median / lengths.output.median;
      for (const std::string system : {"sarathi", "csps"}) {
        const auto prefill = csps_throughputs(scenarios_, system, "prefill").tokens_per_s;
        const auto decode = csps_throughputs(scenarios_, system, "decode").tokens_per_s;
        const auto [least, most] =
            std::minmax({prefill[2 * d] / decode[2 * d], prefill[2 * d + 1] / decode[2 * d + 1]});
        std::string rates = of;
        rates.append(", Table 4's rates of ").append(system);
        add_range("prompt tokens over new tokens, medians of Table 2", rates,
                  {.least = medians, .most = medians}, {.least = least, .most = most});
      }
    }
    // Systems that read so many times the prompts serve so many times the requests.
    add_range("request rate, csps over sarathi", "Table 4's prefill",
              claim("request rate csps over sarathi"), ratio("csps", "sarathi", "prefill"));
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

  // 3.2.5: less than 0.1% of Q, K and V, of which it counts S x S numbers a head. A head's row has
  // one denominator and three times head_dim numbers.
  void denominators() {
    const model::Transformer transformer = csps_model(scenarios_, kCspsModels.front());
    add("denominators over Q, K and V", "one a row of a head", "most",
        claim("denominators over qkv").most,
        1.0 / (3.0 * static_cast<double>(transformer.head_dim)));
  }

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
