#pragma once

// What was timed for a profile.

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "exec/profiling/profile_fit.hpp"
#include "model/graph/task_graph.hpp"
#include "model/graph/work.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// Seconds that each kind of task took, by its size.
class ProfileLog {
 public:
  // What is added from now on was measured at another moment than what was before.
  void begin_moment() { ++moment_; }
  void add(model::TaskKind kind, const model::Work& work, double seconds);
  // Of other moments.
  void add(const ProfileLog& other);
  // One sample a size: the median of its moments' means. With `format`: of work in it only.
  [[nodiscard]] std::vector<ProfileSample> samples(
      model::TaskKind kind, std::optional<model::WeightFormat> format = {}) const;
  // For each size the means of its moments.
  [[nodiscard]] std::vector<std::vector<double>> moments(
      model::TaskKind kind, std::optional<model::WeightFormat> format = {}) const;
  // Of all tasks.
  [[nodiscard]] double total_s() const;

 private:
  // kind, intensity, streamed bytes, format
  using Size = std::tuple<model::TaskKind, double, double, model::WeightFormat>;
  struct Moment {
    int number = 0;
    int count = 0;
    double seconds = 0.0;  // of all
  };
  static std::vector<double> means(const std::vector<Moment>& moments);
  // Whether times of this size are of `kind`, and in `format` if there is one.
  static bool is_of(const Size& size, model::TaskKind kind,
                    std::optional<model::WeightFormat> format);

  int moment_ = 0;
  std::map<Size, std::vector<Moment>> times_;
};

}  // namespace tandem::exec
