#pragma once

// Sparse attention in double precision, from its rules: which rows are kept, who attends to whom,
// one softmax over all that a row sees. Knows of no devices that attend for others.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/support/reference_transformer.hpp"

namespace tandem::testing {

struct SparseRule {
  std::vector<std::int32_t> place;               // of each row of the prompt; ascending
  std::vector<std::vector<std::int32_t>> group;  // of levels 2, 3, ..: of each place
  // By layer, of levels 2, 3, ..: of each key/value head.
  std::vector<std::vector<std::vector<double>>> drop;
  bool overlap = false;  // whether rows that meet at a level meet at all later ones, too
};

namespace sparse {

// The level at which two rows meet: 1 in one place.
inline std::size_t level_of(const SparseRule& rule, std::int32_t a, std::int32_t b) {
  if (a == b) return 1;
  std::size_t level = 2;
  const auto at = [&](std::int32_t place) {
    return rule.group[level - 2][static_cast<std::size_t>(place)];
  };
  while (at(a) != at(b)) ++level;
  return level;
}

// By row, whether it is one of the ceil((1 - drop) n) of the n rows of its place with the highest
// scores, of equal ones the first.
inline std::vector<bool> kept(const SparseRule& rule, double drop,
                              const std::vector<double>& scores) {
  std::vector<bool> all(scores.size());
  for (std::size_t begin = 0; begin < scores.size();) {
    std::size_t end = begin;
    while (end < scores.size() && rule.place[end] == rule.place[begin]) ++end;
    std::vector<std::size_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    std::ranges::stable_sort(rows,
                             [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    const double wanted = std::ceil((1.0 - drop) * static_cast<double>(rows.size()) - 1e-9);
    for (std::size_t i = 0; i < static_cast<std::size_t>(wanted); ++i) all[rows[i]] = true;
    begin = end;
  }
  return all;
}

}  // namespace sparse

// Logits of every position of one sequence, [tokens, vocab], whose first rows, as many as the rule
// has, were a sparse prompt. The others see everything before them.
inline Matrix sparse_logits(const model::Transformer& t, const WeightFunction& weights,
                            const std::vector<std::int32_t>& tokens, const SparseRule& rule) {
  using exec::WeightName;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto prompt = static_cast<std::int64_t>(rule.place.size());
  const auto matrix = [&](WeightName name, std::int32_t layer, std::int64_t rows,
                          std::int64_t columns) {
    return weight_matrix(weights, name, layer, rows, columns);
  };
  const std::int64_t q_width = t.heads * t.head_dim;
  const std::int64_t kv_width = t.kv_heads * t.head_dim;
  const auto heads = static_cast<std::size_t>(t.kv_heads);
  Matrix x(count, t.hidden);
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < t.hidden; ++c)
      x.at(r, c) = weights({WeightName::embedding, -1, tokens[static_cast<std::size_t>(r)], c});
  }
  std::vector<std::vector<double>> scores(heads);
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    Matrix in = rms_norm(x, matrix(WeightName::attention_norm, layer, t.hidden, 1), t.norm_epsilon);
    Matrix q = times_transposed(in, matrix(WeightName::query, layer, q_width, t.hidden));
    Matrix k = times_transposed(in, matrix(WeightName::key, layer, kv_width, t.hidden));
    const Matrix v = times_transposed(in, matrix(WeightName::value, layer, kv_width, t.hidden));
    apply_rope(q, t, 0);
    apply_rope(k, t, 0);
    const std::vector<std::vector<double>>& drop = rule.drop[static_cast<std::size_t>(layer)];
    Matrix attended(count, q_width);
    std::vector<std::vector<double>> weighed(heads,
                                             std::vector<double>(static_cast<std::size_t>(prompt)));
    for (std::size_t kv = 0; kv < heads; ++kv) {
      std::vector<std::vector<bool>> keeps;
      for (const std::vector<double>& by_head : drop)
        keeps.push_back(by_head[kv] > 0.0
                            ? sparse::kept(rule, by_head[kv], scores[kv])
                            : std::vector<bool>(static_cast<std::size_t>(prompt), true));
      // How many times a row attends to a key: at one level, or at several.
      const auto sees = [&](std::int64_t row, std::int64_t key) {
        if (key > row) return 0;
        if (row >= prompt) return 1;
        const auto r = static_cast<std::size_t>(row);
        const auto p = static_cast<std::size_t>(key);
        const auto at = [&](std::size_t level) {
          return level == 1 || (keeps[level - 2][r] && keeps[level - 2][p]) ? 1 : 0;
        };
        std::size_t level = sparse::level_of(rule, rule.place[r], rule.place[p]);
        int times = at(level);
        while (rule.overlap && ++level <= keeps.size() + 1) times += at(level);
        return times;
      };
      const auto first = static_cast<std::int64_t>(kv) * t.group();
      for (std::int64_t head = first; head < first + t.group(); ++head) {
        for (std::int64_t row = 0; row < count; ++row) {
          std::vector<double> part(static_cast<std::size_t>(row) + 1);
          double sum = 0.0;
          for (std::int64_t key = 0; key <= row; ++key) {
            const int times = sees(row, key);
            if (times == 0) continue;
            double dot = 0.0;
            for (std::int64_t i = 0; i < t.head_dim; ++i)
              dot += q.at(row, head * t.head_dim + i) *
                     k.at(key, static_cast<std::int64_t>(kv) * t.head_dim + i);
            part[static_cast<std::size_t>(key)] =
                times * std::exp(dot / std::sqrt(static_cast<double>(t.head_dim)));
            sum += part[static_cast<std::size_t>(key)];
          }
          for (std::int64_t key = 0; key <= row; ++key) {
            const double share = part[static_cast<std::size_t>(key)] / sum;
            if (row < prompt) weighed[kv][static_cast<std::size_t>(key)] += share;
            for (std::int64_t i = 0; i < t.head_dim; ++i)
              attended.at(row, head * t.head_dim + i) +=
                  share * v.at(key, static_cast<std::int64_t>(kv) * t.head_dim + i);
          }
        }
      }
    }
    scores = weighed;
    add_to(x, times_transposed(attended, matrix(WeightName::out, layer, t.hidden, q_width)));
    in = rms_norm(x, matrix(WeightName::ffn_norm, layer, t.hidden, 1), t.norm_epsilon);
    const Matrix gate =
        times_transposed(in, matrix(WeightName::gate, layer, t.intermediate, t.hidden));
    const Matrix up = times_transposed(in, matrix(WeightName::up, layer, t.intermediate, t.hidden));
    add_to(x, times_transposed(swiglu(gate, up),
                               matrix(WeightName::down, layer, t.hidden, t.intermediate)));
  }
  const Matrix out = rms_norm(x, matrix(WeightName::final_norm, -1, t.hidden, 1), t.norm_epsilon);
  const WeightName head = t.tied_embeddings ? WeightName::embedding : WeightName::head;
  return times_transposed(out, matrix(head, -1, t.vocab, t.hidden));
}

}  // namespace tandem::testing
