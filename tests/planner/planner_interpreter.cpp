#include "tests/planner/planner_interpreter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::test {
namespace {

using model::BufferKind;
using model::Range;
using model::Task;
using model::TaskKind;
using model::Transformer;
using model::WeightBlock;

enum Matrix { kEmbedding, kHead, kQuery, kKey, kValue, kOut, kGate, kUp, kDown, kNorm };

// A fixed pseudo-random weight in [-0.5, 0.5).
double weight(Matrix matrix, int layer, std::int64_t row, std::int64_t column) {
  std::uint64_t x = static_cast<std::uint64_t>(matrix) * 1000003U +
                    static_cast<std::uint64_t>(layer + 1) * 7919U +
                    static_cast<std::uint64_t>(row) * 104729U +
                    static_cast<std::uint64_t>(column) * 1299709U + 17U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) / 9007199254740992.0 - 0.5;
}

// Row `r` of `matrix` times x, where x[0] meets column `first`.
double dot(Matrix matrix, int layer, std::int64_t r, const Row& x, std::int64_t first = 0) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += weight(matrix, layer, r, first + static_cast<std::int64_t>(i)) * x[i];
  }
  return sum;
}

Row normalized(const Transformer& t, const Row& x, int id) {
  double squares = 0.0;
  for (const double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + t.norm_epsilon);
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] * scale * (1.0 + weight(kNorm, id, 0, static_cast<std::int64_t>(i)));
  }
  return y;
}

int norm_id(WeightBlock block, int layer) {
  if (block == WeightBlock::head) return 1000;
  return 2 * layer + (block == WeightBlock::ffn ? 1 : 0);
}

// One head: `matrix` rows [head * d, (head + 1) * d) times x, rotated to `position`.
Row head_of(const Transformer& t, Matrix matrix, int layer, int head, const Row& x) {
  Row y(static_cast<std::size_t>(t.head_dim));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = dot(matrix, layer, head * t.head_dim + static_cast<std::int64_t>(i), x);
  }
  return y;
}

Row rotated(Row y, int position) {
  for (std::size_t i = 0; i + 1 < y.size(); i += 2) {
    const double angle =
        position * std::pow(100.0, -static_cast<double>(i) / static_cast<double>(y.size()));
    const double a = y[i];
    const double b = y[i + 1];
    y[i] = a * std::cos(angle) - b * std::sin(angle);
    y[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
  return y;
}

// `total`: the softmax's denominator. Of no positions: zeros.
template <class Key, class Value>
Row attention(const Row& query, int positions, const Key& key, const Value& value, double& total) {
  std::vector<double> scores;
  for (int p = 0; p < positions; ++p) {
    double score = 0.0;
    for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * key(p)[i];
    scores.push_back(std::exp(score / std::sqrt(static_cast<double>(query.size()))));
  }
  total = 0.0;
  for (const double s : scores) total += s;
  Row y(query.size(), 0.0);
  for (int p = 0; p < positions; ++p) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] += scores[static_cast<std::size_t>(p)] / total * value(p)[i];
    }
  }
  return y;
}

double gated(double gate, double up) { return gate / (1.0 + std::exp(-gate)) * up; }

const model::Segment& segment_of(const model::Batch& batch, int r, int& first) {
  first = 0;
  for (const model::Segment& segment : batch.segments) {
    if (r < first + segment.rows) return segment;
    first += segment.rows;
  }
  throw std::logic_error("row outside the batch");
}

int position_of(const model::Batch& batch, int r) {
  int first = 0;
  const model::Segment& segment = segment_of(batch, r, first);
  return segment.past + r - first;
}

}  // namespace

Row reference_logits(const Transformer& t, const std::vector<int>& tokens) {
  const auto positions = static_cast<int>(tokens.size());
  std::vector<Row> x;
  for (const int token : tokens) {
    Row row(static_cast<std::size_t>(t.hidden));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = weight(kEmbedding, -1, token, static_cast<std::int64_t>(i));
    }
    x.push_back(std::move(row));
  }
  for (int layer = 0; layer < t.layers; ++layer) {
    std::vector<Row> normed;
    for (const Row& row : x) normed.push_back(normalized(t, row, 2 * layer));
    for (int p = 0; p < positions; ++p) {
      Row joined;
      for (int head = 0; head < t.heads; ++head) {
        const auto kv = static_cast<int>(head / t.group());
        const Row query =
            rotated(head_of(t, kQuery, layer, head, normed[static_cast<std::size_t>(p)]), p);
        double total = 0.0;
        const Row y = attention(
            query, p + 1,
            [&](int k) {
              return rotated(head_of(t, kKey, layer, kv, normed[static_cast<std::size_t>(k)]), k);
            },
            [&](int k) {
              return head_of(t, kValue, layer, kv, normed[static_cast<std::size_t>(k)]);
            },
            total);
        joined.insert(joined.end(), y.begin(), y.end());
      }
      Row& row = x[static_cast<std::size_t>(p)];
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] += dot(kOut, layer, static_cast<std::int64_t>(i), joined);
      }
    }
    for (Row& row : x) {
      const Row y = normalized(t, row, 2 * layer + 1);
      Row activation;
      for (int c = 0; c < t.intermediate; ++c) {
        activation.push_back(gated(dot(kGate, layer, c, y), dot(kUp, layer, c, y)));
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] += dot(kDown, layer, static_cast<std::int64_t>(i), activation);
      }
    }
  }
  const Row last = normalized(t, x.back(), norm_id(WeightBlock::head, -1));
  Row logits;
  for (int v = 0; v < t.vocab; ++v) logits.push_back(dot(kHead, -1, v, last));
  return logits;
}

Row& Interpreter::row(model::DeviceIndex device, model::BufferRef buffer, int r) {
  require(buffer.kind != BufferKind::none, "interpreter: task without a buffer");
  Row& values = buffers_[{device, buffer.kind, buffer.slot}][r];
  if (values.empty()) {
    const std::int64_t width = std::max({plan_->model.hidden, plan_->model.intermediate,
                                         plan_->model.vocab, 2 * plan_->model.heads});
    values.assign(static_cast<std::size_t>(width), std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

std::map<int, Row> Interpreter::run(const model::TaskGraph& graph, const std::vector<int>& tokens) {
  buffers_.clear();
  gathered_blocks_.clear();
  std::map<int, Row> sampled;
  for (const Task& task : graph.tasks()) {
    keep_window(task);
    execute(graph.batch(), task, tokens, sampled);
  }
  return sampled;
}

void Interpreter::keep_window(const Task& task) {
  const planner::DevicePlan& device = plan_->devices[static_cast<std::size_t>(task.device)];
  if (!device.window.streams()) {
    require(task.kind != TaskKind::load && task.kind != TaskKind::release,
            "interpreter: a load or release on a device that holds all weights");
    return;
  }
  require(task.kind != TaskKind::embed, "interpreter: the embedding is not in memory");
  if (task.block == WeightBlock::none || task.block == WeightBlock::embedding) return;
  if (task.block == WeightBlock::head && task.kind == TaskKind::norm) return;  // resident
  if (task.block == WeightBlock::ffn && device.window.retains(task.layer)) {
    require(task.kind != TaskKind::load && task.kind != TaskKind::release,
            "interpreter: a load or release of a retained block");
    return;
  }
  std::vector<Held>& held = held_[task.device];
  const auto same = [&](const Held& block) {
    return block.block == task.block && block.layer == task.layer &&
           (task.kind == TaskKind::norm || block.columns.contains(task.columns));
  };
  const auto found = std::find_if(held.begin(), held.end(), same);
  if (task.kind == TaskKind::load) {
    require(found == held.end(), "interpreter: a block is loaded that is in memory");
    require(held.size() < static_cast<std::size_t>(device.window.blocks),
            "interpreter: more blocks in memory than the window holds");
    held.push_back({task.block, task.layer, task.columns});
    return;
  }
  require(found != held.end(), "interpreter: a block is used that is not in memory");
  if (task.kind == TaskKind::release) held.erase(found);
}

void Interpreter::execute(const model::Batch& batch, const Task& task,
                          const std::vector<int>& tokens, std::map<int, Row>& sampled) {
  const model::Share& share = plan_->devices[static_cast<std::size_t>(task.device)].share;
  for (int r = task.rows.begin; r < task.rows.end; ++r) {
    if (task.kind == TaskKind::embed || task.kind == TaskKind::fetch) {
      require(share.embedding, "interpreter: embed without the embedding");
      Row& y = row(task.device, task.output, r);
      for (int i = 0; i < plan_->model.hidden; ++i) {
        y[static_cast<std::size_t>(i)] =
            weight(kEmbedding, -1, tokens[static_cast<std::size_t>(r)], i);
      }
    } else if (task.kind == TaskKind::sample) {
      const Row& logits = row(task.device, task.input, r);
      sampled[r] = Row(logits.begin(), logits.begin() + plan_->model.vocab);
    } else {
      execute_row(batch, task, r);
    }
  }
}

void Interpreter::execute_row(const model::Batch& batch, const Task& task, int r) {
  const Transformer& t = plan_->model;
  const model::Share& share = plan_->devices[static_cast<std::size_t>(task.device)].share;
  const auto hidden = static_cast<std::ptrdiff_t>(t.hidden);
  const auto columns = task.columns;
  switch (task.kind) {
    case TaskKind::norm: {
      const Row& x = row(task.device, task.input, r);
      const Row y =
          normalized(t, Row(x.begin(), x.begin() + hidden), norm_id(task.block, task.layer));
      std::copy(y.begin(), y.end(), row(task.device, task.output, r).begin());
      return;
    }
    case TaskKind::project_qkv:
      return project_qkv(batch, task, r);
    case TaskKind::attend:
      return attend(batch, task, r);
    case TaskKind::merge:
      return merge(task, r);
    case TaskKind::project_out: {
      need_weights(task, share.heads);
      const Row& all = row(task.device, task.input, r);
      const auto d = static_cast<std::ptrdiff_t>(t.head_dim);
      const Row x(all.begin() + columns.begin * d, all.begin() + columns.end * d);
      Row& y = row(task.device, task.output, r);
      for (int i = 0; i < t.hidden; ++i) {
        y[static_cast<std::size_t>(i)] = dot(kOut, task.layer, i, x, columns.begin * d);
      }
      return;
    }
    case TaskKind::ffn_up: {
      need_weights(task, share.columns);
      const Row& all = row(task.device, task.input, r);
      const Row x(all.begin(), all.begin() + hidden);
      Row& y = row(task.device, task.output, r);
      for (int c = columns.begin; c < columns.end; ++c) {
        y[static_cast<std::size_t>(c)] =
            gated(dot(kGate, task.layer, c, x), dot(kUp, task.layer, c, x));
      }
      return;
    }
    case TaskKind::ffn_down: {
      need_weights(task, share.columns);
      const Row& all = row(task.device, task.input, r);
      const Row x(all.begin() + columns.begin, all.begin() + columns.end);
      Row& y = row(task.device, task.output, r);
      for (int i = 0; i < t.hidden; ++i) {
        y[static_cast<std::size_t>(i)] = dot(kDown, task.layer, i, x, columns.begin);
      }
      return;
    }
    case TaskKind::add: {
      const Row& x = row(task.device, task.input, r);
      Row& y = row(task.device, task.output, r);
      for (auto i = static_cast<std::size_t>(columns.begin);
           i < static_cast<std::size_t>(columns.end); ++i) {
        y[i] += x[i];
      }
      return;
    }
    case TaskKind::lm_head: {
      require(share.head, "interpreter: lm_head without the head");
      const Row& all = row(task.device, task.input, r);
      const Row x(all.begin(), all.begin() + hidden);
      Row& y = row(task.device, task.output, r);
      for (int v = columns.begin; v < columns.end; ++v) {
        y[static_cast<std::size_t>(v)] = dot(kHead, -1, v, x);
      }
      return;
    }
    case TaskKind::transfer: {
      if (model::moves_weights(task)) {
        const Range held = task.block == WeightBlock::attention ? share.heads : share.columns;
        require(task.keys == held, "interpreter: weights are sent as their device has them");
        gathered_blocks_[{task.peer, task.output.slot}] = {task.block, task.layer, held};
        return;
      }
      elements_sent_ += columns.size();
      if (model::moves_cache(task)) return copy_cache(batch, task, r);
      if (task.input.kind == BufferKind::key_value) {
        const auto pair = static_cast<std::int32_t>(2 * t.head_dim);
        require(task.output == task.input && columns.begin % pair == 0 && columns.end % pair == 0 &&
                    columns.end <= pair * t.kv_heads,
                "interpreter: keys and values of some rows and heads, to the same place");
        int first = 0;
        const int sequence = segment_of(batch, r, first).sequence;
        const int position = position_of(batch, r);
        for (int head = columns.begin / pair; head < columns.end / pair; ++head) {
          const Position sent = cached(task.device, task.layer, sequence, head, position);
          require(!sent.key.empty(), "interpreter: keys are sent that nobody has made");
          cached(task.peer, task.layer, sequence, head, position) = sent;
        }
        return;
      }
      const Row x = row(task.device, task.input, r);
      Row& y = row(task.peer, task.output, r);
      std::copy(x.begin() + columns.begin, x.begin() + columns.end, y.begin() + columns.begin);
      return;
    }
    case TaskKind::load:
    case TaskKind::release:
      return;  // see keep_window
    case TaskKind::embed:
    case TaskKind::fetch:
    case TaskKind::sample:
    case TaskKind::capture:
    case TaskKind::deliver:
    case TaskKind::shortlist:
    case TaskKind::select:
    case TaskKind::gather:
    case TaskKind::score:
      break;
  }
  throw std::logic_error("interpreter: task kind that it does not know");
}

void Interpreter::need_weights(const Task& task, Range held) const {
  if (task.weights_slot == 0)
    return require(held.contains(task.columns), "interpreter: weights of another device");
  const auto found = gathered_blocks_.find({task.device, task.weights_slot});
  require(found != gathered_blocks_.end() && found->second.block == task.block &&
              found->second.layer == task.layer && found->second.columns.contains(task.columns),
          "interpreter: weights that do not visit");
}

void Interpreter::project_qkv(const model::Batch& batch, const Task& task, int r) {
  const Transformer& t = plan_->model;
  const model::Share& share = plan_->devices[static_cast<std::size_t>(task.device)].share;
  need_weights(task, share.heads);
  const Row& all = row(task.device, task.input, r);
  const Row x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(t.hidden));
  const int position = position_of(batch, r);
  Row& y = row(task.device, task.output, r);
  for (int head = task.columns.begin; head < task.columns.end; ++head) {
    const Row query = rotated(head_of(t, kQuery, task.layer, head, x), position);
    std::copy(query.begin(), query.end(), y.begin() + head * t.head_dim);
  }
  int first = 0;
  const int sequence = segment_of(batch, r, first).sequence;
  const Range kv = t.kv_heads_for(task.columns);
  for (int head = kv.begin; head < kv.end; ++head) {
    cached(task.device, task.layer, sequence, head, position) = {
        rotated(head_of(t, kKey, task.layer, head, x), position),
        head_of(t, kValue, task.layer, head, x)};
  }
}

Interpreter::Position& Interpreter::cached(int device, int layer, int sequence, int head,
                                           int position) {
  auto& positions = cache_[{device, layer, sequence, head}];
  positions.resize(std::max(positions.size(), static_cast<std::size_t>(position) + 1));
  return positions[static_cast<std::size_t>(position)];
}

void Interpreter::copy_cache(const model::Batch& batch, const Task& task, int r) {
  int first = 0;
  const int sequence = segment_of(batch, r, first).sequence;
  for (int head = 0; head < plan_->model.kv_heads; ++head) {
    for (int p = task.keys.begin; p < task.keys.end; ++p)
      cached(task.peer, task.layer, kRemoteKv, head, p) =
          cached(task.device, task.layer, sequence, head, p);
  }
}

void Interpreter::attend(const model::Batch& batch, const Task& task, int r) {
  const Transformer& t = plan_->model;
  require(task.causal && task.window == 0 && task.selection == 0,
          "interpreter: attention that is not causal");
  const Row& queries = row(task.device, task.input, r);
  Row& y = row(task.device, task.output, r);
  int first = 0;
  const int sequence = task.of_remote_kv ? kRemoteKv : segment_of(batch, r, first).sequence;
  const Range keys = task.keys.intersect({0, position_of(batch, r) + 1});
  const auto d = static_cast<std::ptrdiff_t>(t.head_dim);
  for (int head = task.columns.begin; head < task.columns.end; ++head) {
    const auto kv = static_cast<int>(head / t.group());
    const auto& positions = cache_[{task.device, task.layer, sequence, kv}];
    const Row query(queries.begin() + head * d, queries.begin() + (head + 1) * d);
    double total = 0.0;
    const auto at = [&](int p) -> const Position& {
      const Position& position = positions.at(static_cast<std::size_t>(keys.begin + p));
      require(!position.key.empty(),
              "interpreter: attention to a position that no device has written");
      return position;
    };
    const Row out = attention(
        query, keys.size(), [&](int p) { return at(p).key; }, [&](int p) { return at(p).value; },
        total);
    std::copy(out.begin(), out.end(), y.begin() + head * d);
    if (!task.statistics) continue;
    row(task.device, {BufferKind::softmax, task.output.slot}, r)
        .at(static_cast<std::size_t>(2 * head + 1)) = total;
  }
}

void Interpreter::merge(const Task& task, int r) {
  require(task.selection == 0, "interpreter: rows that a list names");
  const auto d = static_cast<std::size_t>(plan_->model.head_dim);
  const Row& x = row(task.device, task.input, r);
  Row& y = row(task.device, task.output, r);
  for (auto head = static_cast<std::size_t>(task.columns.begin);
       head < static_cast<std::size_t>(task.columns.end); ++head) {
    const auto total = [&](std::int16_t slot) -> double& {
      return row(task.device, {BufferKind::softmax, slot}, r).at(2 * head + 1);
    };
    const double other = total(task.input.slot);
    double& own = total(task.output.slot);
    for (std::size_t i = head * d; i < (head + 1) * d; ++i)
      y[i] = (y[i] * own + x[i] * other) / (own + other);
    own += other;
  }
}

}  // namespace tandem::test
