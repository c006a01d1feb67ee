#include "planner/collective/star.hpp"

#include <algorithm>

#include "model/error.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::Task;
using model::TaskGraph;
using model::TaskIndex;
using model::TaskKind;

constexpr BufferRef kPartial{BufferKind::partial, 0};

class Star {
 public:
  Star(TaskGraph& graph, const StarSum& sum) : graph_(&graph), sum_(sum) {}

  TaskIndex send(model::DeviceIndex from, model::DeviceIndex to, BufferRef output,
                 TaskIndex after) {
    Task task = common(TaskKind::transfer, from);
    task.lane = model::LaneKind::channel;
    task.peer = to;
    task.input = kPartial;
    task.output = output;
    return after < 0 ? graph_->add(task, {}) : graph_->add(task, {after});
  }

  // `before`: what the master's partial holds so far is made by it.
  TaskIndex add(BufferRef term, TaskIndex arrived, TaskIndex before) {
    Task task = common(TaskKind::add, sum_.master);
    task.input = term;
    task.output = kPartial;
    return before < 0 ? graph_->add(task, {arrived}) : graph_->add(task, {arrived, before});
  }

 private:
  [[nodiscard]] Task common(TaskKind kind, model::DeviceIndex device) const {
    Task task;
    task.kind = kind;
    task.device = device;
    task.layer = sum_.layer;
    task.rows = sum_.rows;
    task.columns = sum_.columns;
    return task;
  }

  TaskGraph* graph_;
  StarSum sum_;
};

}  // namespace

void star_sum(TaskGraph& graph, const StarSum& sum, std::span<Participant> participants) {
  const auto is_master = [&](const Participant& p) { return p.device == sum.master; };
  const auto master = std::find_if(participants.begin(), participants.end(), is_master);
  require(master != participants.end(), "star_sum: the master does not take part");
  require(std::any_of(participants.begin(), participants.end(),
                      [](const Participant& p) { return p.contributes; }),
          "star_sum: nobody has a term");

  Star star(graph, sum);
  std::int16_t slot = 0;
  std::vector<std::pair<BufferRef, TaskIndex>> arrivals;
  bool direct = !master->contributes;
  for (const Participant& worker : participants) {
    if (is_master(worker)) continue;
    const BufferRef receive{BufferKind::receive, slot++};
    if (!worker.contributes) continue;
    const TaskIndex sent =
        star.send(worker.device, sum.master, direct ? kPartial : receive, worker.ready);
    if (direct) {
      master->ready = sent;
      direct = false;
    } else {
      arrivals.emplace_back(receive, sent);
    }
  }
  for (const auto& [term, arrived] : arrivals) {
    master->ready = star.add(term, arrived, master->ready);
  }
  for (Participant& worker : participants) {
    if (is_master(worker) || !worker.receives) continue;
    worker.ready = star.send(sum.master, worker.device, kPartial, master->ready);
  }
}

}  // namespace tandem::planner
