#include "model/graph/task_graph.hpp"

#include <algorithm>
#include <string>

#include "model/base/error.hpp"

namespace tandem::model {

std::string_view to_string(TaskKind kind) {
  switch (kind) {
    case TaskKind::embed:
      return "embed";
    case TaskKind::fetch:
      return "fetch";
    case TaskKind::norm:
      return "norm";
    case TaskKind::project_qkv:
      return "project_qkv";
    case TaskKind::attend:
      return "attend";
    case TaskKind::project_out:
      return "project_out";
    case TaskKind::ffn_up:
      return "ffn_up";
    case TaskKind::ffn_down:
      return "ffn_down";
    case TaskKind::add:
      return "add";
    case TaskKind::lm_head:
      return "lm_head";
    case TaskKind::sample:
      return "sample";
    case TaskKind::load:
      return "load";
    case TaskKind::release:
      return "release";
    case TaskKind::transfer:
      return "transfer";
    case TaskKind::capture:
      return "capture";
    case TaskKind::deliver:
      return "deliver";
    case TaskKind::merge:
      return "merge";
    case TaskKind::shortlist:
      return "shortlist";
    case TaskKind::select:
      return "select";
    case TaskKind::gather:
      return "gather";
    case TaskKind::score:
      return "score";
  }
  throw std::logic_error("task kind out of range");
}

std::string_view to_string(LaneKind lane) {
  switch (lane) {
    case LaneKind::cpu:
      return "cpu";
    case LaneKind::disk:
      return "disk";
    case LaneKind::channel:
      return "channel";
  }
  throw std::logic_error("lane kind out of range");
}

std::string_view to_string(WeightBlock block) {
  switch (block) {
    case WeightBlock::none:
      return "none";
    case WeightBlock::embedding:
      return "embedding";
    case WeightBlock::attention:
      return "attention";
    case WeightBlock::ffn:
      return "ffn";
    case WeightBlock::head:
      return "head";
  }
  throw std::logic_error("weight block out of range");
}

std::int32_t Batch::rows() const {
  std::int64_t rows = 0;
  for (const Segment& segment : segments) rows += segment.rows;
  require(rows <= std::numeric_limits<std::int32_t>::max(), "batch: more than 2^31 - 1 rows");
  return static_cast<std::int32_t>(rows);
}

std::int64_t Batch::sequences() const {
  if (places.empty()) return std::ssize(segments);
  std::vector<std::int32_t> all;
  all.reserve(segments.size());
  for (const Segment& segment : segments) all.push_back(segment.sequence);
  std::ranges::sort(all);
  return std::unique(all.begin(), all.end()) - all.begin();  // clang 14 knows no ranges::unique
}

namespace {

std::shared_ptr<const char> fresh_structure() { return std::make_shared<const char>('\0'); }

void check_past(std::int64_t past, std::int64_t rows) {
  require(past >= 0, "segment: negative past");
  require(past + rows <= std::numeric_limits<std::int32_t>::max(), "segment: positions overflow");
}

void check_cache(const std::vector<CacheOp>& cache) {
  for (const CacheOp& op : cache) require(op.positions >= 0, "cache: negative positions");
}

bool lane_fits(TaskKind kind, LaneKind lane) {
  switch (lane) {
    case LaneKind::cpu:
      return kind != TaskKind::load && kind != TaskKind::transfer && kind != TaskKind::capture &&
             kind != TaskKind::deliver;
    case LaneKind::disk:
      return kind == TaskKind::load || kind == TaskKind::release;
    case LaneKind::channel:
      return kind == TaskKind::transfer;
  }
  return false;
}

bool multiplies_layer(TaskKind kind) {
  return kind == TaskKind::project_qkv || kind == TaskKind::project_out ||
         kind == TaskKind::ffn_up || kind == TaskKind::ffn_down;
}

bool reversed(Range range) { return range.begin < 0 || range.end < range.begin; }

}  // namespace

std::int64_t payload_bytes(const Task& transfer) {
  if (moves_weights(transfer)) return transfer.columns.size();
  return sent_rows(transfer) * wire_row_bytes(transfer.wire, transfer.columns.size());
}

TaskGraph::TaskGraph(Batch batch, WireFormat wire)
    : batch_(std::move(batch)), wire_(wire), structure_(fresh_structure()) {
  for (const Segment& segment : batch_.segments) {
    require(segment.rows >= 1, "segment: fewer than one row");
    require(0 <= segment.sampled && segment.sampled <= segment.rows,
            "segment: sampled rows are some of its rows");
    check_past(segment.past, segment.rows);
  }
  require(batch_.places.empty() || batch_.places.size() == batch_.segments.size(),
          "batch: a place for each segment");
  check_cache(batch_.cache);
  rows_ = batch_.rows();
}

TaskIndex TaskGraph::add(const Task& task, std::span<const TaskIndex> dependencies,
                         std::span<const std::int32_t> events) {
  require(tasks_.size() < static_cast<std::size_t>(std::numeric_limits<TaskIndex>::max()),
          "task graph: too many tasks");
  const TaskIndex index = size();
  for (const TaskIndex dependency : dependencies) {
    require(dependency >= 0 && dependency < index, "task: depends on itself or a later task");
  }
  for (const std::int32_t event : events) require(event >= 0, "task: negative event");
  require(lane_fits(task.kind, task.lane), "task: lane does not fit its kind");
  require(task.device >= 0, "task: negative device");
  const bool channel = task.lane == LaneKind::channel;
  require(channel ? task.peer >= 0 && task.peer != task.device : task.peer == -1,
          "task: peer must be another device for a channel and -1 otherwise");
  require(!reversed(task.rows) && task.rows.end <= rows_, "task: rows outside the batch");
  require(!reversed(task.columns) && !reversed(task.keys), "task: reversed range");
  require(task.layer >= -1, "task: layer below -1");
  require(channel || task.wire == WireFormat::f32, "task: only what is sent has a wire format");
  const bool tells =
      task.input.kind == BufferKind::softmax || task.input.kind == BufferKind::candidates;
  require(!channel || !tells || task.wire == WireFormat::f32,
          "task: a softmax and candidates travel as f32");
  require(!task.of_remote_kv || task.kind == TaskKind::attend, "task: only an attend has keys");
  require(!(moves_cache(task) || task.of_remote_kv) || task.keys.end != kCausal.end,
          "task: what arrives of a cache is of given positions");
  require(!moves_cache(task) || (channel && task.input.kind == BufferKind::key_value),
          "task: keys and values arrive from a cache");
  require(!moves_weights(task) ||
              (channel && task.input.kind == BufferKind::none && task.output.slot > 0 &&
               task.wire == WireFormat::f32 &&
               (task.block == WeightBlock::attention || task.block == WeightBlock::ffn)),
          "task: gathered weights are one block of a layer, in a slot from 1 on");
  require(task.weights_slot >= 0 && (task.weights_slot == 0 || multiplies_layer(task.kind)),
          "task: only products with a layer's weights name a weights slot");
  const bool shortlist = task.kind == TaskKind::shortlist;
  require(!shortlist ||
              (task.input.kind == BufferKind::logits && task.output.kind == BufferKind::candidates),
          "task: a shortlist is of logits");
  const bool chooses =
      shortlist || (task.kind == TaskKind::sample && task.input.kind == BufferKind::candidates);
  require(chooses != task.chosen.empty(), "task: a shortlist, or its sample, has chosen columns");
  require(!reversed(task.chosen), "task: reversed range");
  require(!task.statistics || task.kind == TaskKind::attend, "task: a softmax is of an attend");
  require(task.kind != TaskKind::merge ||
              (task.input.kind == BufferKind::attention &&
               task.output.kind == BufferKind::attention && task.input.slot != task.output.slot),
          "task: a merge is of two slots of attention");
  require(task.selection >= 0, "task: negative list");
  require(task.kind != TaskKind::select ||
              (task.output.kind == BufferKind::selection && task.keys.size() <= task.rows.size()),
          "task: what is selected is a list of some of its rows");
  if (epilogue_ >= 0) {
    const bool follows = index == epilogue_ || task.device == tasks_.back().device;
    require(task.lane == LaneKind::cpu && follows, "task: an epilogue is cpu tasks of one device");
  }

  // A copy shares its original's identity until one of the two changes.
  if (structure_.use_count() != 1) structure_ = fresh_structure();
  tasks_.push_back(task);
  dependencies_.insert(dependencies_.end(), dependencies.begin(), dependencies.end());
  first_dependency_.push_back(dependencies_.size());
  awaited_events_.insert(awaited_events_.end(), events.begin(), events.end());
  first_awaited_event_.push_back(awaited_events_.size());
  return index;
}

void TaskGraph::record_event(TaskIndex task) {
  require(task >= 0 && task < size(), "record_event: no such task");
  if (structure_.use_count() != 1) structure_ = fresh_structure();
  events_.push_back(task);
}

void TaskGraph::begin_epilogue() {
  require(epilogue_ < 0, "begin_epilogue: a graph has one epilogue");
  if (structure_.use_count() != 1) structure_ = fresh_structure();
  epilogue_ = size();
}

void TaskGraph::declare(DeviceIndex device, const BufferDeclaration& buffer) {
  require(device >= 0, "declare: negative device");
  const auto d = static_cast<std::size_t>(device);
  if (declared_.size() <= d) declared_.resize(d + 1);
  if (const BufferDeclaration* const known = find_buffer(declared_[d], buffer.name)) {
    require(*known == buffer, "declare: a buffer has one declaration");
    return;
  }
  if (structure_.use_count() != 1) structure_ = fresh_structure();
  declared_[d].push_back(buffer);
}

std::span<const BufferDeclaration> TaskGraph::declared(DeviceIndex device) const {
  const auto d = static_cast<std::size_t>(device);
  if (device < 0 || d >= declared_.size()) return {};
  return declared_[d];
}

std::size_t TaskGraph::allocated_bytes() const {
  const auto bytes = [](const auto& list) { return list.capacity() * sizeof(list[0]); };
  std::size_t all = bytes(batch_.segments) + bytes(batch_.cache) + bytes(batch_.places) +
                    bytes(tasks_) + bytes(dependencies_) + bytes(first_dependency_) +
                    bytes(events_) + bytes(awaited_events_) + bytes(first_awaited_event_) +
                    bytes(declared_);
  for (const std::vector<BufferDeclaration>& of_device : declared_) all += bytes(of_device);
  return all;
}

void TaskGraph::advance(std::span<const std::int32_t> past, std::vector<CacheOp> cache) {
  require(past.size() == batch_.segments.size(), "advance: one past a segment");
  for (std::size_t i = 0; i < past.size(); ++i) check_past(past[i], batch_.segments[i].rows);
  check_cache(cache);
  for (std::size_t i = 0; i < past.size(); ++i) batch_.segments[i].past = past[i];
  batch_.cache = std::move(cache);
}

void TaskGraph::advance(const Batch& batch) {
  require(std::ranges::equal(batch.segments, batch_.segments,
                             [](const Segment& a, const Segment& b) {
                               return a.rows == b.rows && a.sampled == b.sampled;
                             }) &&
              batch.places == batch_.places,
          "advance: a batch of another structure");
  for (const Segment& segment : batch.segments) check_past(segment.past, segment.rows);
  batch_ = batch;
}

}  // namespace tandem::model
