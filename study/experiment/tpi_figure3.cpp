// TPI-LLM, figure 3 and Propositions 1 and 2: an all-reduce against the latency of a link.

#include <map>
#include <string>
#include <utility>

#include "model/base/quantity_text.hpp"
#include "study/experiment/allreduce_testbed.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {
namespace {

constexpr std::int32_t kHidden = 8192;  // Llama 2-70B
constexpr std::int32_t kPrompt = 64;

struct Size {
  const char* name;
  std::int32_t columns;
};
constexpr Size kSizes[] = {
    {"4 B", 1}, {"32 KiB, one token", kHidden}, {"2 MiB, 64 tokens", kHidden* kPrompt}};
constexpr double kFigure3LatenciesMs[] = {0.1, 0.3, 1.0, 3.0, 10.0, 30.0};

// Returns the paper's value for 4 bytes, in latencies of a link: four links between two devices.
Reading stated(const std::string& allreduce, std::int32_t columns, double latency_ms) {
  if (columns != 1) return {};
  if (allreduce == "star") return Reading::number(8.0 * latency_ms);
  if (allreduce == "tree") return Reading::number(16.0 * latency_ms);
  if (allreduce == "ring") return Reading::number(56.0 * latency_ms);
  return {};
}

// The remark on Proposition 2: nothing is faster than the star.
std::string claim(std::size_t kept, std::size_t all, const std::string& lost) {
  std::string text = "claim (Proposition 2): the star is the fastest. Holds in " +
                     std::to_string(kept) + " of " + std::to_string(all) + " rows";
  return lost.empty() ? text : text + "; not for " + lost;
}

// The remark on Proposition 1, by the number of rows in which it holds for each collective.
std::string latency_claim(const std::map<std::string, std::size_t>& kept, std::size_t all) {
  std::string text =
      "claim (Proposition 1): latency, not bandwidth, is the bottleneck, here at least half of the "
      "time. Holds in ";
  for (const std::string& allreduce : compared_allreduces()) {
    const bool first = allreduce == compared_allreduces().front();
    text += (first ? "" : ", ") + std::to_string(kept.at(allreduce)) +
            (first ? " of " + std::to_string(all) + " rows" : "") + " for " + allreduce;
  }
  const AllreduceTestbed testbed;
  const model::Bytes most =
      4.0 * testbed.link_latency * testbed.bandwidth / static_cast<double>(testbed.devices - 1);
  return text + "; for the star up to l B / (N - 1) bytes, " + to_text(most) + " at " +
         to_text(testbed.link_latency);
}

}  // namespace

ExperimentReport tpi_figure3(const Scenarios& /*scenarios*/, Progress& progress) {
  ExperimentReport report{.key_names = {"size", "link_latency_ms"}, .rows = {}, .remarks = {}};
  progress.expect(std::size(kSizes) * std::size(kFigure3LatenciesMs));
  std::size_t kept = 0;
  std::string lost;
  std::map<std::string, std::size_t> by_latency;
  std::map<std::pair<double, std::string>, double> latency_ms_of;  // what 4 B take is latency
  for (const Size& size : kSizes) {
    for (const double latency_ms : kFigure3LatenciesMs) {
      const AllreduceTestbed testbed{.link_latency = model::Seconds{latency_ms * 1e-3}};
      std::string latency = std::to_string(latency_ms);
      latency.erase(latency.find_last_not_of('0') + 1);
      if (latency.back() == '.') latency.pop_back();
      double star = 0.0;
      bool fastest = true;
      for (const std::string& allreduce : compared_allreduces()) {
        const double ms = simulated_allreduce(testbed, allreduce, size.columns).value() * 1e3;
        if (allreduce == "star") star = ms;
        fastest = fastest && star <= ms;
        const double alone_ms =
            latency_ms_of.try_emplace({latency_ms, allreduce}, ms).first->second;
        by_latency[allreduce] += ms <= 2.0 * alone_ms ? 1 : 0;
        report.rows.push_back({.keys = {size.name, latency},
                               .quantity = allreduce + "_ms",
                               .paper = stated(allreduce, size.columns, latency_ms),
                               .tandem = Reading::number(ms),
                               .aside = ExperimentRow::Aside::formula});
      }
      if (fastest) {
        ++kept;
      } else {
        lost += (lost.empty() ? "" : "; ") + std::string(size.name) + " at " + latency + " ms";
      }
      progress.advance(1);
    }
  }
  const std::size_t all = std::size(kSizes) * std::size(kFigure3LatenciesMs);
  report.remarks.emplace_back(
      "8 devices, 300 Mbps a link and direction, four links between two devices; 'paper' is what "
      "its text states for 4 B: 8, 16 and 56 latencies of a link");
  report.remarks.push_back(latency_claim(by_latency, all));
  report.remarks.push_back(claim(kept, all, lost));
  report.remarks.emplace_back(
      "all terms cross the master's link: the star takes 2 l + 2 (N - 1) S / B, not 2 l + 2 S / B; "
      "halving, which the paper leaves out, 2 log2 N l + 2 (1 - 1/N) S / B");
  return report;
}

}  // namespace tandem::study
