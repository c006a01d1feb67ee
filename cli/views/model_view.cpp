#include "cli/views/model_view.hpp"

#include <algorithm>

#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Experts;
using model::LatentAttention;
using model::Transformer;

std::int64_t dense_layers(const Experts& e) { return std::ranges::count(e.dense_layers, true); }

std::string experts_text(const Transformer& t, std::int64_t rows) {
  const Experts& e = *t.experts;
  const std::int64_t dense = dense_layers(e);
  const auto n = static_cast<double>(rows);
  std::string text = "parameters: " + billions(t.parameters()) + ", of which a token uses " +
                     billions(t.active_parameters()) + " (" +
                     billions(t.active_parameters() - (t.vocab * t.hidden)) +
                     " without the embedding); ";
  text += std::to_string(e.chosen) + " of " + std::to_string(e.count) + " experts of " +
          std::to_string(t.intermediate) + " columns in each of " +
          std::to_string(t.layers - dense) + " layers";
  if (e.shared > 0) text += ", and a shared one of " + std::to_string(e.shared);
  if (dense > 0)
    text += "; " + std::to_string(dense) + (dense == 1 ? " layer has" : " layers have") +
            " one FFN of " + std::to_string(e.dense);
  text += "\nexperts of a layer that " + std::to_string(rows) +
          (rows == 1 ? " row uses: " : " rows use: ") + model::fixed(e.expected_distinct(n), 1) +
          " expected (standard deviation " + model::fixed(e.distinct_deviation(n), 1) + ", from " +
          std::to_string(e.chosen) + " to " +
          std::to_string(std::min(e.count, rows > e.count ? e.count : rows * e.chosen)) +
          "), if all are equally likely; a window streams all experts of a layer\n";
  return text;
}

std::string latent_text(const Transformer& t) {
  const LatentAttention& l = *t.latent;
  std::string text = "latent attention: the cache keeps " + std::to_string(l.cached()) +
                     " numbers of a token and layer (" + std::to_string(l.rank) + " + " +
                     std::to_string(l.rotated);
  if (l.index_heads > 0) text += " + " + std::to_string(l.index_dims) + " of the indexer";
  text += "), whole on every device that has heads of the layer";
  if (l.index_heads > 0)
    text +=
        "; attention is over the " + std::to_string(l.index_keys) + " keys with the best scores";
  return text + "; computed in the absorbed form\n";
}

}  // namespace

std::string billions(std::int64_t parameters) {
  const double value = static_cast<double>(parameters);
  return value >= 1e9 ? model::fixed(value * 1e-9, 2) + "e9" : model::fixed(value * 1e-6, 2) + "e6";
}

std::string model_remarks(const Transformer& t, std::int64_t rows) {
  std::string text;
  if (t.experts) text += experts_text(t, rows);
  if (t.latent) text += latent_text(t);
  if (!t.quantisation.empty())
    text += "published weights are quantised by " + t.quantisation +
            ": sizes are those of '--dtype' all the same\n";
  if (!text.empty()) text += "such a model can be planned and simulated, but not run yet\n";
  return text;
}

void add_experts(const Transformer& t, std::int64_t rows, Json& json) {
  json["active_parameters"] = t.active_parameters();
  json["experts"] = Json();
  if (t.experts) {
    const Experts& e = *t.experts;
    const auto n = static_cast<double>(rows);
    json["experts"] = {{"count", e.count},
                       {"chosen", e.chosen},
                       {"shared_columns", e.shared},
                       {"dense_layers", dense_layers(e)},
                       {"dense_columns", e.dense},
                       {"rows", rows},
                       {"expected_distinct", e.expected_distinct(n)},
                       {"distinct_deviation", e.distinct_deviation(n)}};
  }
  json["latent_attention"] = Json();
  if (t.latent) {
    const LatentAttention& l = *t.latent;
    json["latent_attention"] = {{"query_rank", l.query_rank}, {"rank", l.rank},
                                {"plain", l.plain},           {"rotated", l.rotated},
                                {"value", l.value},           {"cached", l.cached()}};
  }
}

}  // namespace tandem::cli
