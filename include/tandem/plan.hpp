#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tandem/model.hpp>
#include <tandem/platform.hpp>
#include <variant>
#include <vector>

namespace tandem {

// What each device holds and how devices exchange, with the model and the platform that it is for:
// all that predict(), run() and workers need in addition to weights.
class Plan {
 public:
  // A file that `tandem plan --out` wrote; of many requests, what devices carry out.
  // Throws std::runtime_error (file, field, value, expected, remedy).
  [[nodiscard]] static Plan read(const std::filesystem::path& file);
  [[nodiscard]] static Plan parse(std::string_view json, std::string_view source = "plan");
  [[nodiscard]] std::string to_json() const;

  [[nodiscard]] const std::string& strategy() const;
  [[nodiscard]] std::string sha256() const;  // identifies it in results
  [[nodiscard]] std::vector<std::string> device_names() const;
  // Predicted peak memory of each device, in the order of device_names().
  [[nodiscard]] std::vector<double> memory_bytes() const;

  // Defined in the library.
  struct Data;
  explicit Plan(std::shared_ptr<const Data> data);
  [[nodiscard]] const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// The platform cannot hold or run the model as requested.
struct Infeasible {
  std::string reason;  // one line a device that lacks memory
};

struct PlanOptions {
  std::string strategy = "auto";  // of `tandem strategies`; auto chooses devices, too
  std::int64_t prompt_tokens = 512;
  std::int64_t new_tokens = 128;      // 0 of an encoder
  std::string objective = "request";  // what is to be short: request, ttft or latency
  std::string master{};               // device with the prompt; empty: the first, or as auto finds
  std::string cache_type = "auto";    // of keys and values: f32, f16, q8_0, auto (by the weights)
  std::string wire_type = "auto";     // of activations on the wire: f32, f16, bf16, q8_0, auto
  std::optional<double> memory_limit_bytes{};  // for every device, if it is less
  // Measured speeds (`tandem profile --out`) by device name; of a device without one, the
  // platform's. Of several numbers of threads, the most that were measured.
  std::map<std::string, std::filesystem::path> profiles{};
};

// Plans one request, whose prompt is read whole: `tandem plan` also finds chunks, which pipelines
// read faster. Throws std::runtime_error for options that make no sense (unknown names, more tokens
// than the model's context).
[[nodiscard]] std::variant<Plan, Infeasible> make_plan(const Model& model, const Platform& platform,
                                                       const PlanOptions& options = {});

// A plan for this machine alone, within `memory_bytes`: if weights do not fit, they stream from its
// disk. Its speeds are not measured, so it predicts nothing.
[[nodiscard]] std::variant<Plan, Infeasible> plan_here(const Model& model,
                                                       std::int64_t prompt_tokens,
                                                       std::int64_t new_tokens,
                                                       double memory_bytes);

}  // namespace tandem
