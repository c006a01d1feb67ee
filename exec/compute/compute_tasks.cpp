// One function a task kind, attention's apart: checks the task against the device's share, then
// runs kernels on it.

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <string>

#include "exec/compute/compute_state.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using model::Range;
using model::Task;
using model::TaskKind;

std::string text(Range r) { return std::to_string(r.begin) + ".." + std::to_string(r.end); }

// A row's elementwise work is too short to hand to another thread below this many values.
constexpr std::int64_t kElementwiseFloats = std::int64_t{16} * 1024;

// Returns where column `column` of each row begins, after whole blocks.
const std::byte* part_of_row(const MatrixView& w, std::int64_t column) {
  require(column % model::block_of(w.format).elements == 0, "a part of a row is whole blocks");
  return w.data + model::row_bytes(w.format, column);
}

std::int64_t row_granule(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementwiseFloats / std::max<std::int64_t>(width, 1));
}

bool multiplies_layer(TaskKind kind) {
  return kind == TaskKind::project_qkv || kind == TaskKind::project_out ||
         kind == TaskKind::ffn_up || kind == TaskKind::ffn_down;
}

}  // namespace

void lacks(const std::string& what) {
  throw Error("shard: lacks " + what +
              " that a task needs; plan and shard are of different runs, "
              "make both again");
}

void Compute::State::execute(const model::Batch& batch, const Task& task) {
  // Products of more rows read weights from a cache.
  const bool timed =
      move && multiplies_layer(task.kind) && task.layer >= 0 && task.rows.size() <= kFewRows;
  if (!timed) return execute_now(batch, task);
  const auto begin = std::chrono::steady_clock::now();
  execute_now(batch, task);
  const auto took = std::chrono::steady_clock::now() - begin;
  move->saw(static_cast<std::size_t>(share.layers.place(task.layer)),
            std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
}

void Compute::State::move_weights() {
  if (!move) return;
  const auto now = move->next(steps_left);
  if (!now) return;
  const auto begin = std::chrono::steady_clock::now();
  const auto part = shard.copy_mapped(now->place, pool, now->at_most);
  if (!part) return move->stop();
  if (!move->copied(std::chrono::steady_clock::now() - begin, *part)) shard.leave_mapped();
}

void Compute::State::execute_now(const model::Batch& batch, const Task& task) {
  require(task.lane == model::LaneKind::cpu, "compute executes tasks of the cpu lane");
  check_batch(batch, task);
  switch (task.kind) {
    case TaskKind::embed:
      return embed(batch, task);
    case TaskKind::fetch:
      return fetch(batch, task);
    case TaskKind::norm:
      return norm(task);
    case TaskKind::project_qkv:
      return project_qkv(batch, task);
    case TaskKind::attend:
      return attend(batch, task);
    case TaskKind::merge:
      return merge(task);
    case TaskKind::select:
      return select(task);
    case TaskKind::gather:
      return gather(batch, task);
    case TaskKind::score:
      return score(batch, task);
    case TaskKind::project_out:
      return project_out(task);
    case TaskKind::ffn_up:
      return ffn_up(task);
    case TaskKind::ffn_down:
      return ffn_down(task);
    case TaskKind::add:
      return add_rows(task);
    case TaskKind::lm_head:
      return lm_head(batch, task);
    case TaskKind::shortlist:
      return shortlist(batch, task);
    case TaskKind::sample:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
      break;
  }
  throw std::logic_error("compute does not execute " + std::string(model::to_string(task.kind)));
}

void Compute::State::check_batch(const model::Batch& batch, const Task& task) const {
  std::int64_t rows = 0;
  for (const model::Segment& s : batch.segments) {
    require(s.past >= 0 && s.rows >= 0 &&
                std::int64_t{s.past} + s.rows <= std::numeric_limits<std::int32_t>::max(),
            "positions that there are");
    rows += s.rows;
  }
  require(rows <= limits.max_rows, "rows within the limits");
  require(0 <= task.rows.begin && task.rows.begin <= task.rows.end && task.rows.end <= rows,
          "a task's rows within the batch");
  require(task.columns.begin >= 0 && task.columns.begin <= task.columns.end,
          "a task's columns in order");
}

Compute::State::Buffer Compute::State::operand(model::BufferRef ref, const Task& task,
                                               std::int64_t width) const {
  const Buffer b = buffer(ref);
  require(b.width == width && task.rows.end <= b.rows, "an operand of the task's size");
  return b;
}

const LayerTensors& Compute::State::layer(const Task& task) const {
  if (!share.layers.contains(task.layer)) lacks("layer " + std::to_string(task.layer));
  return shard.tensors().layers[static_cast<std::size_t>(share.layers.place(task.layer))];
}

Compute::State::Weights Compute::State::weights_of(const Task& task) const {
  const bool of_heads = task.kind == TaskKind::project_qkv || task.kind == TaskKind::project_out;
  const model::Share& held = shard.tensors().share;
  Weights weights{.heads = held.heads, .columns = held.columns};
  if (task.weights_slot == 0) {
    weights.tensors = &layer(task);
  } else {
    const auto found = std::ranges::find(gathered_blocks, task.weights_slot, &GatheredBlock::slot);
    require(
        found != gathered_blocks.end() && found->layer == task.layer && found->block == task.block,
        "the weights that a product multiplies by have come to visit");
    weights = {.tensors = &found->tensors,
               .heads = of_heads ? found->columns : Range{},
               .columns = of_heads ? Range{} : found->columns};
  }
  if (!(of_heads ? weights.heads : weights.columns).contains(task.columns))
    lacks((of_heads ? "heads " : "FFN columns ") + text(task.columns));
  if (!weights.heads.empty()) weights.kv_heads = transformer.kv_heads_for(weights.heads);
  return weights;
}

void Compute::State::need_heads(const Task& task) const {
  if (!share.heads.contains(task.columns)) lacks("heads " + text(task.columns));
}

void Compute::State::need_loaded(const MatrixView& weights, const Task& task) {
  if (weights.data == nullptr && !task.columns.empty())
    lacks("weights of layer " + std::to_string(task.layer));
}

void Compute::State::need_cached(const model::Batch& batch, const Task& task) const {
  if (task.of_remote_kv) {
    require(remote_kv && batch.segments.size() == 1, "remote keys belong to one sequence");
    const Range keys = keys_of({.rows = task.rows,
                                .past = batch.segments[0].past + task.rows.begin,
                                .end = batch.segments[0].past + batch.segments[0].rows},
                               task);
    require(remote_kv->table().holds(kRemoteKv, keys),
            "remote keys must have arrived before they are attended");
    return;
  }
  for_segments(batch, task.rows, [&](const TaskSegment& segment) {
    const bool writes = task.kind == TaskKind::project_qkv || task.kind == TaskKind::transfer ||
                        task.kind == TaskKind::gather;
    const Range positions = model::moves_cache(task) ? task.keys
                            : writes ? Range{segment.past, segment.past + segment.rows.size()}
                                     : keys_of(segment, task);
    if (!cache.table().holds(segment.sequence, positions)) {
      throw std::logic_error("sequence " + std::to_string(segment.sequence) +
                             ": the cache lacks some of positions " + text(positions) +
                             "; begin the step first");
    }
  });
}

void Compute::State::multiply(const WeightProduct& p) {
  pool.parallel_for(p.outputs, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
    kernels.product(p.slice(begin, end));
  });
}

NormView Compute::State::norm_of(const Task& task) const {
  const bool of_sum = task.input.kind == model::BufferKind::partial;
  switch (task.block) {
    case model::WeightBlock::attention:
      return of_sum ? layer(task).attention_sum_norm : layer(task).attention_norm;
    case model::WeightBlock::ffn:
      return of_sum ? layer(task).ffn_sum_norm : layer(task).ffn_norm;
    case model::WeightBlock::head:
      return shard.tensors().final_norm;
    case model::WeightBlock::none:
    case model::WeightBlock::embedding:
      break;
  }
  throw std::logic_error("a norm names the block it precedes, or whose sum it is of");
}

void Compute::State::norm(const Task& task) {
  const NormView vectors = norm_of(task);
  if (vectors.weight.empty()) lacks("a norm");
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer y = operand(task.output, task, transformer.hidden);
  const auto epsilon = static_cast<float>(transformer.norm_epsilon);
  const model::Norm kind = transformer.architecture().norm;
  pool.parallel_for(
      task.rows.size(), row_granule(x.width), [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = task.rows.begin + begin; row < task.rows.begin + end; ++row) {
          switch (kind) {
            case model::Norm::rms:
              kernels.rms_norm(x.at(row), vectors.weight.data(), x.width, epsilon, y.at(row));
              break;
            case model::Norm::layer:
              kernels.layer_norm(x.at(row), vectors.weight.data(), vectors.bias.data(), x.width,
                                 epsilon, y.at(row));
              break;
          }
        }
      });
}

void Compute::State::add_bias(const Task& task, std::span<const float> bias, const Buffer& y) {
  if (bias.empty() || task.columns.empty() || task.columns.begin != 0) return;
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row)
    kernels.add(bias.data(), y.width, y.at(row));
}

void Compute::State::project_out(const Task& task) {
  const Weights weights = weights_of(task);
  const MatrixView& w = weights.tensors->out;
  need_loaded(w, task);
  const std::int64_t d = transformer.head_dim;
  const std::int64_t column = (task.columns.begin - share.heads.begin) * d;
  const Buffer x = operand(task.input, task, attention.width);
  const Buffer y = operand(task.output, task, transformer.hidden);
  require(x.data != y.data, "a product does not work in place");
  const Range stored = transformer.out_columns(task.layer, weights.heads);
  const Range wide = transformer.out_columns(task.layer, task.columns);
  WeightProduct p{
      x.at(task.rows.begin, column), x.width, w.data,           w.row_bytes(),     w.format,
      y.at(task.rows.begin),         y.width, task.rows.size(), transformer.hidden};
  if (!task.columns.empty()) {
    p.w = part_of_row(w, wide.begin - stored.begin);
    p.depth = wide.size();
    p.before = task.columns.begin * d - wide.begin;
    p.after = wide.end - task.columns.end * d;
  }
  multiply(p);
  add_bias(task, weights.tensors->out_bias, y);
}

void Compute::State::ffn_up(const Task& task) {
  const Weights held = weights_of(task);
  const LayerTensors& weights = *held.tensors;
  need_loaded(weights.up, task);
  const std::int64_t column = task.columns.begin - share.columns.begin;
  const std::int64_t weight_row = task.columns.begin - held.columns.begin;
  const Buffer x = operand(task.input, task, transformer.hidden);
  const Buffer y = operand(task.output, task, activation.width);
  require(x.data != y.data, "a product does not work in place");
  const auto rows_of = [&](const MatrixView& w, const Buffer& to) {
    return WeightProduct{x.at(task.rows.begin),
                         x.width,
                         w.row(weight_row),
                         w.row_bytes(),
                         w.format,
                         to.at(task.rows.begin, column),
                         to.width,
                         task.rows.size(),
                         task.columns.size(),
                         w.columns};
  };
  const std::span<const float> bias = weights.up_bias;
  if (!transformer.architecture().gated) {
    const WeightProduct all = rows_of(weights.up, y);
    pool.parallel_for(all.outputs, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
      const WeightProduct mine = all.slice(begin, end);
      kernels.product(mine);
      for (std::int64_t row = 0; row < mine.tokens; ++row) {
        kernels.activate(transformer.activation,
                         bias.empty() ? nullptr : bias.data() + weight_row + begin, mine.outputs,
                         mine.y + row * mine.y_stride);
      }
    });
    return;
  }
  const WeightProduct gate = rows_of(weights.gate, y);
  const WeightProduct ups = rows_of(weights.up, gated);
  pool.parallel_for(gate.outputs, kOutputGranule, [&](std::int64_t begin, std::int64_t end, int) {
    const WeightProduct mine = gate.slice(begin, end);
    const WeightProduct up = ups.slice(begin, end);
    const bool silu = transformer.activation == model::Activation::silu;
    kernels.product(mine);
    kernels.product(up);
    for (std::int64_t row = 0; row < mine.tokens; ++row) {
      float* const gated_row = mine.y + row * mine.y_stride;
      const float* const up_row = up.y + row * up.y_stride;
      if (silu) {
        kernels.gate_with(up_row, mine.outputs, gated_row);
      } else {
        kernels.activate(transformer.activation, nullptr, mine.outputs, gated_row);
        kernels.multiply_with(up_row, mine.outputs, gated_row);
      }
    }
  });
}

void Compute::State::ffn_down(const Task& task) {
  const Weights weights = weights_of(task);
  const MatrixView& w = weights.tensors->down;
  need_loaded(w, task);
  const std::int64_t column = task.columns.begin - share.columns.begin;
  const Buffer x = operand(task.input, task, activation.width);
  const Buffer y = operand(task.output, task, transformer.hidden);
  require(x.data != y.data, "a product does not work in place");
  multiply({x.at(task.rows.begin, column), x.width,
            part_of_row(w, task.columns.begin - weights.columns.begin), w.row_bytes(), w.format,
            y.at(task.rows.begin), y.width, task.rows.size(), transformer.hidden,
            task.columns.size()});
  add_bias(task, weights.tensors->down_bias, y);
}

void Compute::State::add_rows(const Task& task) {
  if (task.selection > 0) return add_listed(task);
  const Buffer x = buffer(task.input);
  const Buffer y = buffer(task.output);
  const bool of_block = task.input.kind == model::BufferKind::partial &&
                        task.output.kind == model::BufferKind::hidden;
  const float scale = of_block ? static_cast<float>(transformer.residual_scale) : 1.0F;
  require(
      task.columns.end <= std::min(x.width, y.width) && task.rows.end <= std::min(x.rows, y.rows),
      "an operand of the task's size");
  pool.parallel_for(task.rows.size(), row_granule(task.columns.size()),
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t row = task.rows.begin + begin; row < task.rows.begin + end;
                           ++row) {
                        const float* const from = x.at(row, task.columns.begin);
                        float* const to = y.at(row, task.columns.begin);
                        if (scale == 1.0F) {
                          kernels.add(from, task.columns.size(), to);
                        } else {
                          kernels.add_scaled(from, scale, task.columns.size(), to);
                        }
                      }
                    });
}

}  // namespace tandem::exec
