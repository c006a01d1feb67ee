// CSPS, figures 14 to 17 and Table 4: CSPS against Sarathi-Serve, by the lengths of Table 2.

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "model/text_table.hpp"
#include "study/experiment/csps.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kRequests = 500;
constexpr std::int64_t kContext = 1048576;
constexpr std::int64_t kLongest =
    kContext - 576;  // with room for new tokens; longer ones by the curve
constexpr std::int64_t kShort = 2'000;
constexpr double kDevices = 64.0;
constexpr double kSarathiDevices = 8.0;
// 3.2.2: "SP-NTP is preferable ... if the input length is greater than 100K".
constexpr std::int64_t kLong = 100'000;

// A function of a prompt's length, known at some, linear between them: seconds of a new token,
// which reads all there is before it, or of a prompt for each of its tokens, which do.
class Curve {
 public:
  void add(std::int64_t tokens, double value) { points_[static_cast<double>(tokens)] = value; }
  [[nodiscard]] double operator()(std::int64_t tokens) const {
    const auto x = static_cast<double>(tokens);
    auto after = points_.lower_bound(x);
    if (after == points_.end()) after = std::prev(points_.end());
    if (after == points_.begin()) after = std::next(points_.begin());
    const auto before = std::prev(after);
    const double part = (x - before->first) / (after->first - before->first);
    return before->second + (after->second - before->second) * part;
  }

 private:
  std::map<double, double> points_;
};

// Of prompts, a token.
class PromptCurve {
 public:
  void add(std::int64_t tokens, double seconds) {
    of_a_token_.add(tokens, seconds / static_cast<double>(tokens));
  }
  [[nodiscard]] double operator()(std::int64_t tokens) const {
    return static_cast<double>(tokens) * of_a_token_(tokens);
  }

 private:
  Curve of_a_token_;
};

// Seconds of a system's requests, by the length of their prompts.
struct System {
  std::function<double(std::int64_t)> ttft_s;
  std::function<double(std::int64_t)> token_s;
  std::function<double(std::int64_t)> devices;  // while the prompt is read
};

struct Means {
  double ttft_s = 0.0;
  double token_s = 0.0;
  double response_s = 0.0;
  double prompt_tokens = 0.0;
  double device_s = 0.0;  // of all devices, for prompts
};

Means means_of(const std::vector<planner::InferenceRequest>& requests, const System& system) {
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

// All systems with one model.
class Systems {
 public:
  Systems(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
          Progress& progress) {
    const CspsSarathi sarathi(scenarios, testbed, model, kLongest);
    for (const std::int64_t tokens : {kShort, kLong, kLongest}) {
      sarathi_ttft_.add(tokens, sarathi.ttft_s(tokens));
      sarathi_token_.add(tokens, sarathi.step_s(tokens, 1));
      tp_.add(tokens, csps_pass(scenarios, testbed, model, CspsPrefill::tp, tokens).ttft_s);
    }
    constexpr std::int64_t kSaid = 1'000;
    step_s_ = (csps_claim(scenarios, "sarathi ttft s", "1K").least - sarathi.ttft_s(kSaid)) /
              static_cast<double>(chunks(kSaid));
    const auto ntp_s = [&](std::int64_t tokens, const CspsDrop& drop = {}) {
      return csps_pass(scenarios, testbed, model, CspsPrefill::ntp, tokens, drop).ttft_s;
    };
    const std::int64_t layers = csps_model(scenarios, model).layers;
    one_.add(kShort, ntp_s(kShort));
    one_.add(kCspsPartition, ntp_s(kCspsPartition));
    for (std::int64_t devices = 1; devices <= kParts; ++devices) {
      const std::int64_t most = std::min(devices * kCspsPartition, kLongest);
      const std::int64_t least = devices == 1 ? kShort : (devices - 1) * kCspsPartition + 1;
      full_.push_back({.tokens = most, .ttft_s = devices == 1 ? one_(most) : ntp_s(most)});
      PromptCurve& dropping = dropping_.emplace_back();
      const CspsDrop drop = csps_usual_drop(most, layers);
      for (const std::int64_t tokens : {least, most})
        dropping.add(tokens, drop.dense() ? one_(tokens) : ntp_s(tokens, drop));
      Curve& token = token_.emplace_back();
      for (const std::int64_t tokens : {least, most})
        token.add(tokens, csps_token_s(scenarios, testbed, model, tokens));
      progress.advance(1);
    }
  }
  static constexpr std::int64_t kParts = kContext / kCspsPartition;

  [[nodiscard]] System sarathi() const {
    return {.ttft_s = [this](std::int64_t tokens) { return sarathi_ttft_(tokens); },
            .token_s = [this](std::int64_t tokens) { return sarathi_token_(tokens); },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // `drops`: of the rows of prompts that several devices have.
  [[nodiscard]] System ntp(bool drops = false) const {
    return {.ttft_s =
                [this, drops](std::int64_t tokens) {
                  return drops ? of(dropping_, tokens)(tokens) : ntp_s(tokens);
                },
            .token_s = [this](std::int64_t tokens) { return of(token_, tokens)(tokens); },
            .devices = [](std::int64_t tokens) { return parts(tokens); }};
  }
  [[nodiscard]] System tp() const {
    return {.ttft_s = [this](std::int64_t tokens) { return tp_(tokens); },
            .token_s = [this](std::int64_t tokens) { return of(token_, tokens)(tokens); },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // Were it the steps that make 1K tokens take the text's 1.6 s.
  [[nodiscard]] System slow_sarathi() const {
    return {.ttft_s =
                [this](std::int64_t tokens) {
                  return sarathi_ttft_(tokens) + static_cast<double>(chunks(tokens)) * step_s_;
                },
            .token_s = [this](std::int64_t tokens) { return sarathi_token_(tokens) + step_s_; },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // SP-NTP for long prompts, SP-TP for others.
  [[nodiscard]] System csps(bool drops = false) const {
    const auto either = [](auto of_long, auto of_short) {
      return [of_long, of_short](std::int64_t tokens) {
        return tokens > kLong ? of_long(tokens) : of_short(tokens);
      };
    };
    const System many = ntp(drops);
    const System eight = tp();
    return {.ttft_s = either(many.ttft_s, eight.ttft_s),
            .token_s = either(many.token_s, eight.token_s),
            .devices = either(many.devices, eight.devices)};
  }

 private:
  static std::int64_t chunks(std::int64_t tokens) { return (tokens + kCspsChunk - 1) / kCspsChunk; }
  static double parts(std::int64_t tokens) {
    return static_cast<double>(csps_devices(CspsPrefill::ntp, tokens));
  }

  // Of devices whose parts are not full, as of full ones by what one device would take.
  [[nodiscard]] double ntp_s(std::int64_t tokens) const {
    const Full& full = of(full_, tokens);
    return full.ttft_s * one_(tokens) / one_(full.tokens);
  }
  struct Full {
    std::int64_t tokens = 0;
    double ttft_s = 0.0;
  };
  // Of the devices that a prompt has.
  template <typename T>
  static const T& of(const std::vector<T>& curves, std::int64_t tokens) {
    return curves.at(csps_devices(CspsPrefill::ntp, tokens) - 1);
  }

  PromptCurve sarathi_ttft_;
  Curve sarathi_token_;
  double step_s_ = 0.0;
  PromptCurve tp_;
  PromptCurve one_;         // on one device, were it enough
  std::vector<Full> full_;  // by devices less one
  std::vector<PromptCurve> dropping_;
  std::vector<Curve> token_;
};

struct Ratios {
  std::vector<double> ttft, token, response, rate, ntp_ttft;
  std::vector<double> dropping_ttft, dropping_response, dropping_rate;
};
constexpr const char* kDropping = "csps dropping 22%";

}  // namespace

ExperimentReport csps_figure14(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"data set", "model", "systems"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      std::to_string(kRequests) +
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
  progress.expect(kCspsModels.size() * static_cast<std::size_t>(Systems::kParts));
  std::vector<Systems> systems;
  systems.reserve(kCspsModels.size());
  for (const std::string_view model : kCspsModels)
    systems.emplace_back(scenarios, testbed, model, progress);
  for (std::size_t d = 0; d < kCspsDataSets.size(); ++d) {
    const std::string data_set(kCspsDataSets[d]);
    const CspsLengths lengths = csps_lengths(scenarios, data_set);
    const std::vector<planner::InferenceRequest> requests = planner::drawn_requests(
        {.count = kRequests, .prompt = lengths.prompt, .output = lengths.output, .most = kContext});
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
        (request.prompt_tokens > kLong ? longer : shorter).push_back(request);
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
               .tandem = Reading::number(value)});
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
      ratios.rate.push_back((kDevices / csps.device_s) / (kDevices / sarathi.device_s));
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
                               .tandem = Reading::number(value)});
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
