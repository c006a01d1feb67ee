#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "advice/fidelity/matrix.hpp"
#include "advice/fidelity/recording.hpp"

namespace tandem::cli {

// The folder of recordings, one file a configuration, and one more in each testbed way: NAME.json,
// NAME.WAY.json (study::Recording::file_name).
class RecordingsFolder {
 public:
  explicit RecordingsFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Those of `half` that are there, by name; none if there is no such folder. Throws Error (path,
  // what is wrong, remedy) for a file that is no recording, or that bears another one's name.
  [[nodiscard]] std::vector<study::Recording> read(study::Half half) const;
  void write(const study::Recording& recording) const;
  [[nodiscard]] std::filesystem::path path_of(const study::Recording& recording) const {
    return folder_ / (recording.file_name() + ".json");
  }

 private:
  std::filesystem::path folder_;
};

// Throws Error, naming the file, unless all were made by `recorder` (SittingOptions::recorder).
void check_recorder(const RecordingsFolder& folder, const std::vector<study::Recording>& recordings,
                    const std::string& recorder);

}  // namespace tandem::cli
