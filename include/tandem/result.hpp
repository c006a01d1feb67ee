#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What was predicted, measured or replayed of a plan. Times are seconds, of one request unless the
// plan's run served several; to_json() has everything, by device, link and kind of task.
class Result {
 public:
  // A result file of `tandem simulate` or `tandem run`. Throws std::runtime_error (file, field).
  [[nodiscard]] static Result read(const std::filesystem::path& file);
  [[nodiscard]] static Result parse(std::string_view json, std::string_view source = "result");
  [[nodiscard]] std::string to_json() const;  // docs/reference/commands.md, "Result files"

  // Where its times come from: "predicted", "measured", or "replayed" by a run at nominal pace,
  // which takes them from the prediction's formulas.
  [[nodiscard]] std::string kind() const;
  [[nodiscard]] bool measured() const;
  [[nodiscard]] double ttft_s() const;  // time to the first token; NaN of several requests
  // Mean time between new tokens; none with fewer than two.
  [[nodiscard]] std::optional<double> token_latency_s() const;
  [[nodiscard]] std::vector<double> token_times_s() const;  // of each token, from the start
  [[nodiscard]] std::vector<std::int32_t> tokens() const;   // empty in a prediction
  struct DeviceUse {
    std::string name;
    double peak_memory_bytes;
    double bytes_sent;
    double computing_s;
  };
  [[nodiscard]] std::vector<DeviceUse> devices() const;

  // Defined in the library.
  struct Data;
  explicit Result(std::shared_ptr<const Data> data);
  [[nodiscard]] const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// One quantity of a prediction and of a run.
struct Deviation {
  std::string scope;   // "run", "request", "device", "link", "task", "token"
  std::string name;    // of the device, link and so on; empty for a run
  std::string metric;  // "ttft", "memory_total", ...
  std::string unit;    // "s", "bytes", "1"
  std::optional<double> predicted;
  std::optional<double> run;
};

// Throws std::runtime_error unless both are of the same plan, the first a prediction and the second
// the result of a run.
[[nodiscard]] std::vector<Deviation> compare(const Result& predicted, const Result& run);

}  // namespace tandem
