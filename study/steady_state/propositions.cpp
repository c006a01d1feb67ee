#include "study/steady_state/propositions.hpp"

#include "model/base/error.hpp"

namespace tandem::study {

bool proposition3(const LayerTimes& times, Ticks reduce, std::int64_t layers) {
  const auto& [attention, ffn, load_attention, load_ffn] = times;
  if (attention + ffn + 2 * reduce < load_ffn + load_attention) return false;  // (4)
  bool five = true;
  bool six = true;
  for (std::int64_t l = 1; l <= layers; ++l) {
    five = five && l * attention + (l - 1) * ffn + (2 * l - 1) * reduce >=
                       l * load_ffn + (l - 1) * load_attention;
    six = six && (l - 1) * attention + l * ffn + (2 * l - 1) * reduce >=
                     (l - 1) * load_ffn + l * load_attention;
  }
  return five || six;
}

bool proposition4(const LayerTimes& times, Ticks reduce) {
  return times.attention + reduce >= times.load_ffn && times.ffn + reduce >= times.load_attention;
}

bool proposition6(const LayerTimes& times, Ticks reduce, std::int64_t layers, std::int64_t retain) {
  require(retain >= 1, "proposition 6: T is below 1");
  const auto& [attention, ffn, load_attention, load_ffn] = times;
  for (std::int64_t l = 1; l <= layers; ++l) {
    const std::int64_t loaded = l - (l + retain - 1) / retain;
    const bool nine = l * (attention + ffn + 2 * reduce) >= loaded * load_ffn + l * load_attention;
    const bool ten = l * attention + (l - 1) * ffn + (2 * l - 1) * reduce >=
                     loaded * load_ffn + (l - 1) * load_attention;
    if (!nine || !ten) return false;
  }
  return true;
}

}  // namespace tandem::study
