#pragma once

// The layers of a device or of a buffer: runs of adjacent ones.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/base/range.hpp"

namespace tandem::model {

// Layers in ascending order. One run is the usual case and allocates nothing; a device in several
// stages has several. Iteration gives the layers' numbers.
class LayerRuns {
 public:
  LayerRuns() = default;
  LayerRuns(std::int32_t begin, std::int32_t end) : first_{begin, end} {}
  // One run: the usual case.
  LayerRuns(Range run) : first_(run) {}  // NOLINT(google-explicit-constructor)
  // Drops empty runs and joins adjacent ones. Throws logic_error unless they ascend.
  explicit LayerRuns(const std::vector<Range>& runs);

  [[nodiscard]] bool empty() const { return first_.empty(); }
  [[nodiscard]] std::int32_t size() const;
  [[nodiscard]] bool contains(std::int32_t layer) const;
  // Returns the number of the layers before `layer`, which is one of them.
  [[nodiscard]] std::int32_t place(std::int32_t layer) const;
  // Returns the lowest layer; 0 if there are none.
  [[nodiscard]] std::int32_t first() const { return first_.begin; }

  // Returns the number of separate runs; 1, an empty one, if there are no layers.
  [[nodiscard]] std::size_t run_count() const { return 1 + more_.size(); }
  [[nodiscard]] Range run(std::size_t i) const { return i == 0 ? first_ : more_[i - 1]; }

  class Iterator {
   public:
    Iterator(const LayerRuns& layers, std::size_t run, std::int32_t layer)
        : layers_(&layers), run_(run), layer_(layer) {}
    std::int32_t operator*() const { return layer_; }
    Iterator& operator++() {
      if (++layer_ == layers_->run(run_).end && run_ + 1 < layers_->run_count())
        layer_ = layers_->run(++run_).begin;
      return *this;
    }
    bool operator==(const Iterator& other) const { return layer_ == other.layer_; }

   private:
    const LayerRuns* layers_;
    std::size_t run_;
    std::int32_t layer_;
  };
  [[nodiscard]] Iterator begin() const { return {*this, 0, first_.begin}; }
  [[nodiscard]] Iterator end() const {
    return {*this, more_.size(), more_.empty() ? first_.end : more_.back().end};
  }

  friend bool operator==(const LayerRuns&, const LayerRuns&) = default;

 private:
  Range first_{};
  std::vector<Range> more_{};
};

}  // namespace tandem::model
