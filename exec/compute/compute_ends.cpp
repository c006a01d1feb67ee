// The ends of a step: tokens to hidden states, hidden states to logits.

#include <algorithm>
#include <string>

#include "exec/compute/compute_state.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

using model::Task;

namespace {

// A row of a table that is always f32.
const float* floats(const MatrixView& table, std::int64_t row) {
  require(table.format == model::WeightFormat::f32, "positions and token types are f32");
  return reinterpret_cast<const float*>(table.row(row));
}

}  // namespace

void Compute::State::embed(const model::Batch& batch, const Task& task) {
  const MatrixView& table = shard.tensors().embedding;
  if (table.data == nullptr) lacks("the embedding");
  require(task.rows.end <= token_count, "tokens set for every embedded row");
  const Buffer y = operand(task.output, task, transformer.hidden);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    const std::int64_t id = tokens[static_cast<std::size_t>(row)];
    decode(table.format, {table.row(id), static_cast<std::size_t>(table.row_bytes())},
           {y.at(row), static_cast<std::size_t>(table.columns)});
  }
  scale_embedding(task, y);
  add_positions(batch, task, y);
}

void Compute::State::scale_embedding(const Task& task, const Buffer& y) const {
  if (transformer.embedding_scale == 1.0) return;
  const auto scale = static_cast<float>(transformer.embedding_scale);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row)
    kernels.scale_by(scale, y.width, y.at(row));
}

void Compute::State::fetch(const model::Batch& batch, const Task& task) {
  if (embedding_rows == nullptr) lacks("rows of the embedding");
  require(task.rows.end <= token_count, "tokens set for every embedded row");
  const Buffer y = operand(task.output, task, transformer.hidden);
  for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row) {
    embedding_rows->read_row(tokens[static_cast<std::size_t>(row)],
                             {y.at(row), static_cast<std::size_t>(transformer.hidden)});
  }
  scale_embedding(task, y);
  add_positions(batch, task, y);
}

void Compute::State::add_positions(const model::Batch& batch, const Task& task, const Buffer& y) {
  const MatrixView& positions = shard.tensors().positions;
  const MatrixView& types = shard.tensors().token_types;
  if (transformer.position_rows() > 0) {
    if (positions.data == nullptr) lacks("learned positions");
    for_segments(batch, task.rows, [&](const TaskSegment& segment) {
      const std::int64_t first = segment.past + transformer.architecture().position_offset;
      require(first + segment.rows.size() <= positions.rows,
              "positions within the model's context");
      for (std::int32_t i = 0; i < segment.rows.size(); ++i)
        kernels.add(floats(positions, first + i), y.width, y.at(segment.rows.begin + i));
    });
  }
  if (transformer.token_types > 0) {
    if (types.data == nullptr) lacks("token types");
    for (std::int32_t row = task.rows.begin; row < task.rows.end; ++row)
      kernels.add(floats(types, 0), y.width, y.at(row));  // a text is of type 0
  }
}

std::int64_t Compute::State::logit_row(const model::Batch& batch, std::int32_t row) const {
  const bool each = logit_rows.rows > limits.sequences;
  std::int64_t at = 0;
  std::int32_t end = 0;
  for (const model::Segment& segment : batch.segments) {
    end += segment.rows;
    if (row < end) {
      const std::int32_t sampled = row - (end - segment.sampled);
      require(sampled >= 0 || !each, "logits of a row that is sampled");
      if (each) at += sampled;
      require(at < logit_rows.rows, "rows of logits within the limits");
      return at;
    }
    at += each || !batch.places.empty() ? segment.sampled : 1;
  }
  throw std::logic_error("logits of a row outside the batch");
}

void Compute::State::lm_head(const model::Batch& batch, const Task& task) {
  const MatrixView& w = shard.tensors().head;
  if (w.data == nullptr) lacks("the LM head");
  const Buffer x = operand(task.input, task, transformer.hidden);
  require(task.output.kind == model::BufferKind::logits, "an LM head's output is the logits");
  require(task.columns.end <= transformer.vocab, "columns within the vocabulary");
  const std::int64_t first_row = shard.tensors().head_begin;
  if (task.columns.begin < first_row || task.columns.end > first_row + w.rows)
    lacks("rows " + std::to_string(task.columns.begin) + ".." + std::to_string(task.columns.end) +
          " of the LM head");
  if (task.rows.empty()) return;
  const std::int64_t first = logit_row(batch, task.rows.begin);
  last_logits = logit_row(batch, task.rows.end - 1);
  require(last_logits + 1 - first == task.rows.size(), "a row of logits for each row");
  multiply({x.at(task.rows.begin), x.width, w.row(task.columns.begin - first_row), w.row_bytes(),
            w.format, logit_rows.at(first, task.columns.begin), logit_rows.width, task.rows.size(),
            task.columns.size(), w.columns});
  if (transformer.logit_divisor == 1.0 && transformer.logit_cap == 0.0) return;
  const auto scale = static_cast<float>(1.0 / transformer.logit_divisor);
  const auto cap = static_cast<float>(transformer.logit_cap);
  pool.parallel_for(task.columns.size(), kOutputGranule,
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t row = first; row <= last_logits; ++row) {
                        float* const some = logit_rows.at(row, task.columns.begin + begin);
                        if (scale != 1.0F) kernels.scale_by(scale, end - begin, some);
                        if (cap > 0.0F) kernels.soft_cap(cap, end - begin, some);
                      }
                    });
}

void Compute::State::shortlist(const model::Batch& batch, const Task& task) {
  const Buffer logits = buffer(task.input);
  const Buffer candidates = buffer(task.output);
  const model::Range rows = stored_rows(batch, task.input, task.rows);
  check_part(logits, rows, task.columns);
  check_part(candidates, rows, task.chosen);
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    tell_candidates(
        kernels,
        {logits.at(row, task.columns.begin), static_cast<std::size_t>(task.columns.size())},
        task.columns.begin, best,
        {candidates.at(row, task.chosen.begin), static_cast<std::size_t>(task.chosen.size())});
  }
}

}  // namespace tandem::exec
