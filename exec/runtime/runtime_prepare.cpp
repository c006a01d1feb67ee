// Prepares steps of a graph: lane programs and memory.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "exec/runtime/runtime.hpp"
#include "model/base/error.hpp"
#include "model/graph/accesses.hpp"
#include "model/graph/work.hpp"

namespace tandem::exec {

void Runtime::prepare(const model::TaskGraph& graph) {
  if (prepared_.contains(graph.structure())) return;
  PreparedStep prepared;  // kept when nothing can fail any more
  prepared.programs = make_lane_programs(graph, options_.device);
  place_weights(graph, prepared.programs);
  prepared.cached = model::cached_rows(graph, options_.device);
  prepared.lanes.resize(static_cast<std::size_t>(options_.steps));
  for (std::size_t place = 0; place < prepared.lanes.size(); ++place) {
    attach(prepared.programs.outgoing, place, prepared.lanes[place].outgoing, outgoing_);
    attach(prepared.programs.incoming, place, prepared.lanes[place].incoming, incoming_);
  }
  if (!prepared.programs.disk.loads.empty()) prepare_loads(graph, prepared.programs.disk);
  prepared_.emplace(graph.structure(), std::move(prepared));
}

void Runtime::place_weights(const model::TaskGraph& graph, LanePrograms& programs) {
  const auto for_each = [&](std::vector<ChannelProgram>& channels, const auto& place) {
    for (ChannelProgram& channel : channels) {
      for (ChannelMessage& message : channel.messages) {
        const model::Task& task = graph.tasks()[static_cast<std::size_t>(message.task)];
        if (model::moves_weights(task)) place(message, task);
      }
    }
  };
  for_each(programs.outgoing, [&](ChannelMessage& message, const model::Task& task) {
    message.lies_at = compute_->sent_weights(task).data();
  });
  for_each(programs.incoming, [&](ChannelMessage& message, const model::Task& task) {
    message.gathered = compute_->gathered_weights_memory(task).data();
  });
}

void Runtime::prepare_loads(const model::TaskGraph& graph, DiskProgram& disk) {
  require(weights_ != nullptr, "Runtime: the graph loads weights, but none are streamed");
  for (DiskLoad& load : disk.loads) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(load.task)];
    load.block = weights_->find(task);
    load.bytes = model::work_of(compute_->transformer(), graph.batch(), task).bytes_disk;
  }
  const std::lock_guard lock(mutex_);
  if (cancelled_) throw Error(reason_);
  if (!disk_) {
    disk_ = std::make_unique<DiskLane>(
        *weights_,
        DiskLaneOptions{.rate = options_.disk_rate,
                        .on_failure = [this](const std::string& reason) { cancel(reason); }});
  }
  disk_->reserve(disk);
}

template <class Lane>
void Runtime::attach(const std::vector<ChannelProgram>& channels, std::size_t place,
                     std::vector<Lane*>& used, Channels<Lane>& lanes) {
  decltype(LaneOptions::thread_time) thread_time;
  if (pacer_->emulates()) {
    thread_time = [this](model::TaskKind kind, std::size_t bytes) {
      return pacer_->message_time(options_.device, kind, model::Bytes{static_cast<double>(bytes)});
    };
  }
  for (const ChannelProgram& channel : channels) {
    require(transport_ != nullptr, "Runtime: the graph has channels, but there is no transport");
    const std::lock_guard lock(mutex_);
    if (cancelled_) throw Error(reason_);
    auto& all = lanes[channel.peer].lanes;
    if (all.size() <= place) {
      const auto fail = [this](const std::string& reason) {
        cancel(reason);
        if (options_.on_failure) options_.on_failure(reason);
      };
      // Threads receive, so that arrivals are recorded while another step is computed.
      all.push_back(std::make_unique<Lane>(*transport_, channel.peer,
                                           LaneOptions{.may_spin = options_.may_spin,
                                                       .threaded = options_.steps > 1,
                                                       .on_failure = fail,
                                                       .thread_time = thread_time}));
      if (options_.storage != nullptr) {
        const auto room =
            std::ranges::find_if(options_.storage->channels, [&](const model::ChannelRoom& one) {
              return one.peer == channel.peer && one.outgoing == std::is_same_v<Lane, OutgoingLane>;
            });
        require(room != options_.storage->channels.end(), "Runtime: the channel was declared");
        all.back()->declare(room->bytes);
      }
    }
    // If rows are split, a smaller step may need more room.
    if (options_.storage == nullptr || options_.steps == 1) {
      all[place]->declare(channel.slots * static_cast<std::int64_t>(channel.slot_bytes));
    }
    all[place]->reserve(channel);
    used.push_back(all[place].get());
  }
}

const Runtime::PreparedStep& Runtime::prepared_of(const model::TaskGraph& graph) const {
  const auto found = prepared_.find(graph.structure());
  require(found != prepared_.end(), "Runtime: the graph was not prepared");
  return found->second;
}

std::size_t Runtime::records(const model::TaskGraph& graph) const {
  return prepared_of(graph).programs.records;
}

double Runtime::allocated_bytes() const {
  double bytes = 0.0;
  for (const auto& [peer, channel] : outgoing_) {
    for (const auto& lane : channel.lanes) bytes += lane->allocated_bytes();
  }
  for (const auto& [peer, channel] : incoming_) {
    for (const auto& lane : channel.lanes) bytes += lane->allocated_bytes();
  }
  return bytes;
}

}  // namespace tandem::exec
