#include "planner/memory/session_memory.hpp"

#include <algorithm>

#include "model/graph/message_schedule.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr double kKiB = 1024.0;
// OpenSSL's memory of a connection: a read buffer (as large as exec/transport/tls requests), a
// write buffer (a record and its encryption), and keys, contexts and queues.
constexpr double kConnectionBytes = (64.0 + 17.0 + 27.0) * kKiB;
// Header and first bytes of a message, which go out together (exec/transport/tcp_transport).
constexpr double kStagedBytes = 16.0 * kKiB;
// The pages that a lane's thread touches of its stack and of the C library's, and the lane.
constexpr double kLaneBytes = 20.0 * kKiB;
// With the first connection: code of handshakes and ciphers, their relocated tables, the thread
// that watches the peers and its read buffer.
constexpr double kNetworkBytes = 600.0 * kKiB;
// An action of the computing thread (exec/runtime/lane_programs), and a message of it at one end.
constexpr double kActionBytes = 20.0;
constexpr double kMessageBytes = 72.0;
// Products with more rows than this pack their inputs (exec/kernels/many_row_product): pieces of up
// to 1,024 numbers of as many rows as fit in so many bytes.
constexpr std::int64_t kFewRows = 8;
constexpr double kPackedRow = 4.0 * kKiB;
constexpr double kPackedBytes = 512.0 * kKiB;

// Returns, by device, the bytes of its lane programs of a step.
std::vector<double> program_bytes(const model::TaskGraph& graph, std::size_t devices) {
  std::vector<double> bytes(devices, 0.0);
  const auto of = [&](model::DeviceIndex device) -> double& {
    return bytes.at(static_cast<std::size_t>(device));
  };
  const model::MessageSchedule schedule = model::message_schedule(graph);
  for (model::TaskIndex i = 0; i < graph.size(); ++i) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    if (task.lane != model::LaneKind::channel) {
      of(task.device) += kActionBytes;
      continue;
    }
    of(task.device) += kMessageBytes + (schedule.is_relay(i) ? 0.0 : kActionBytes);
    of(task.peer) += kMessageBytes + kActionBytes;
  }
  return bytes;
}

}  // namespace

std::vector<bool> workers_of(const Plan& plan, const std::vector<model::DeviceStorage>& storage) {
  const bool parts = sharding_of(plan).splits_rows();
  std::vector<bool> workers;
  workers.reserve(storage.size());
  for (std::size_t d = 0; d < storage.size(); ++d) {
    const bool has_weights = !plan.devices[d].share.layers.empty();
    workers.push_back(!storage[d].channels.empty() || (parts && has_weights));
  }
  workers.at(static_cast<std::size_t>(plan.master)) = false;
  return workers;
}

std::vector<SessionLoad> session_loads(const Plan& plan,
                                       const std::vector<model::TaskGraph>& graphs,
                                       const std::vector<model::DeviceStorage>& storage,
                                       const model::Extents& extents) {
  std::vector<SessionLoad> loads(storage.size());
  const std::vector<bool> connected = workers_of(plan, storage);
  std::int64_t workers = 0;
  for (std::size_t d = 0; d < loads.size(); ++d) {
    SessionLoad& load = loads[d];
    load.steps = extents.steps;
    load.sends = std::ranges::count(storage[d].channels, true, &model::ChannelRoom::outgoing);
    load.receives = std::ssize(storage[d].channels) - load.sends;
    load.peers = connected[d] ? 1 : 0;
    workers += load.peers;
    if (plan.devices[d].share.layers.size() > 0) load.rows = extents.rows;
  }
  loads[static_cast<std::size_t>(plan.master)].peers = workers;
  std::vector<double> largest(loads.size(), 0.0);
  for (const model::TaskGraph& graph : graphs) {
    const std::vector<double> programs = program_bytes(graph, loads.size());
    for (std::size_t d = 0; d < loads.size(); ++d) {
      const double bytes = static_cast<double>(graph.allocated_bytes()) + programs[d];
      loads[d].graph_bytes += bytes;
      largest[d] = std::max(largest[d], bytes);
    }
  }
  const std::int64_t others = std::max<std::int64_t>(0, extents.graphs - std::ssize(graphs));
  for (std::size_t d = 0; d < loads.size(); ++d)
    loads[d].graph_bytes += static_cast<double>(others) * largest[d];
  return loads;
}

double session_bytes(const SessionLoad& load) {
  const auto times = [](std::int64_t count, double bytes) {
    return static_cast<double>(count) * bytes;
  };
  const std::int64_t channels = load.sends + load.receives;
  return (load.peers > 0 ? kNetworkBytes : 0.0) + times(load.peers + channels, kConnectionBytes) +
         times(load.sends, kStagedBytes) + times(channels * load.steps, kLaneBytes) +
         load.graph_bytes +
         (load.rows > kFewRows ? std::min(times(load.rows, kPackedRow), kPackedBytes) : 0.0);
}

}  // namespace tandem::planner
