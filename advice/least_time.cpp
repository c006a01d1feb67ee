#include "advice/least_time.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "advice/settings.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/bounds/search_bound.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/search/affordable_types.hpp"

namespace tandem::study {

using planner::Plan;
using planner::Request;

double least_seconds(const Question& question) {
  if (question.served) return 0.0;
  const Request& request = question.request;
  Plan plan{.strategy = "local",
            .partition = {},
            .allreduce = {},
            .model = request.model,
            .cluster = request.cluster,
            .workload = request.workload,
            .devices = {},
            .profiles = {}};
  if (request.memory_limit) {
    plan.cluster = model::with_devices(plan.cluster, [&](model::Device& device) {
      device.memory = std::min(device.memory, *request.memory_limit);
    });
  }
  if (request.budget) plan.model.cache = planner::with_narrowest_types(request).model.cache;
  double least = planner::kNever;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, question.formats.size()); ++i) {
    if (!question.formats.empty()) plan.model.formats = question.formats[i];
    plan.profiles.clear();
    for (model::DeviceProfile& profile : profiles_of(request))
      plan.profiles.push_back(
          model::for_formats(std::move(profile), plan.model.formats, plan.model.cache));
    least = std::min(least, planner::least_seconds(plan, request.objective));
  }
  return least;
}

}  // namespace tandem::study
