#include "planner/serving/replicas.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

using model::Result;

double end_of(const Result& result) {
  double end = 0.0;
  for (const model::RequestResult& request : result.requests) end = std::max(end, request.end_s);
  return end;
}

// Links, with their direction where that has a bandwidth of its own, that messages of `plan` pass.
std::vector<std::pair<std::string, model::Direction>> used_links(const Plan& plan) {
  std::vector<std::pair<std::string, model::Direction>> used;
  const model::Cluster& cluster = plan.cluster;
  for (model::DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      for (const model::Hop& hop : cluster.route(from, to).hops) {
        const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
        if (link.sharing == model::Sharing::fatpipe) continue;
        const bool duplex = link.sharing == model::Sharing::split_duplex;
        used.emplace_back(link.name, duplex ? hop.direction : model::Direction::none);
      }
    }
  }
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

}  // namespace

std::vector<InferenceRequest> Replica::part(std::span<const InferenceRequest> all) const {
  std::vector<InferenceRequest> own;
  for (const std::size_t r : requests) own.push_back(all[r]);
  return own;
}

std::string shared_link(std::span<const Replica> replicas) {
  std::map<std::pair<std::string, model::Direction>, std::string> masters;  // of users, by link
  for (const Replica& replica : replicas) {
    const std::string& master =
        replica.plan.cluster.devices()[static_cast<std::size_t>(replica.plan.master)].name;
    for (const auto& link : used_links(replica.plan)) {
      const auto [other, added] = masters.emplace(link, master);
      if (!added)
        return "messages of the replicas of '" + other->second + "' and '" + master +
               "' would share link '" + link.first + "'";
    }
  }
  return {};
}

Result joined(std::span<const InferenceRequest> requests, std::span<const Replica> replicas,
              std::span<const Result> of_each) {
  require(replicas.size() == of_each.size(), "joined: a result a replica");
  Result all;
  all.requests.resize(requests.size());
  std::map<std::string, double> bytes;  // by link
  double tokens = 0.0;
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const Result& one = of_each[i];
    if (replicas[i].requests.empty()) continue;
    require(one.requests.size() == replicas[i].requests.size(), "joined: results of the requests");
    all.origin = one.origin;
    all.evaluator = one.evaluator;
    all.weights_sha256 = one.weights_sha256;
    all.environment.insert(one.environment.begin(), one.environment.end());
    for (std::size_t k = 0; k < replicas[i].requests.size(); ++k) {
      model::RequestResult& request = all.requests[replicas[i].requests[k]];
      request = one.requests.at(k);
      request.id = requests[replicas[i].requests[k]].id;  // samples are numbered by replica
    }
    all.devices.insert(all.devices.end(), one.devices.begin(), one.devices.end());
    all.task_kinds.insert(all.task_kinds.end(), one.task_kinds.begin(), one.task_kinds.end());
    for (const model::LinkMetrics& link : one.links) bytes[link.name] += link.bytes;
    double begin = std::numeric_limits<double>::infinity();
    for (const std::size_t r : replicas[i].requests) begin = std::min(begin, requests[r].arrival_s);
    first = std::min(first, begin);
    // An encoder's passes have no tokens.
    tokens += one.metrics.throughput_tokens_per_s.value_or(0.0) * (end_of(one) - begin);
  }
  for (const auto& [name, sum] : bytes) all.links.push_back({.name = name, .bytes = sum});
  for (const char* const own : {"announcements", "announcement_bytes", "in_flight", "chunk"})
    all.environment.erase(own);
  all.environment["replicas"] = std::to_string(replicas.size());
  all.metrics.ttft_s = std::numeric_limits<double>::quiet_NaN();
  const double end = end_of(all);
  if (tokens > 0.0 && end > first) all.metrics.throughput_tokens_per_s = tokens / (end - first);
  return all;
}

}  // namespace tandem::planner
