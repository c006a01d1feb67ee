#include "cli/fidelity/recordings_folder.hpp"

#include <algorithm>

#include "cli/files/files.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::cli {

namespace fs = std::filesystem;

std::vector<study::Recording> RecordingsFolder::read(study::Half half) const {
  std::vector<fs::path> paths;
  std::error_code fault;
  if (!fs::is_directory(folder_, fault)) return {};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, fault)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (fault)
    throw Error(folder_.string() +
                ": cannot list: " + model::system_fault(fault.value(), "check the folder"));
  std::ranges::sort(paths);
  std::vector<study::Recording> recordings;
  for (const fs::path& path : paths) {
    study::Recording recording = study::parse_recording(read_file(path), path.string());
    if (recording.file_name() != path.stem().string())
      throw Error(path.string() + ": has the recording of '" + recording.file_name() +
                  "', expected that of the file's name without .json; rename the file");
    if (study::is_set_aside(recording.configuration) == (half == study::Half::set_aside))
      recordings.push_back(std::move(recording));
  }
  return recordings;
}

void RecordingsFolder::write(const study::Recording& recording) const {
  write_file(path_of(recording), study::to_json(recording));
}

void check_recorder(const RecordingsFolder& folder, const std::vector<study::Recording>& recordings,
                    const std::string& recorder) {
  for (const study::Recording& recording : recordings) {
    const auto found = recording.environment.find("recorder");
    const std::string made_by = found == recording.environment.end() ? "none" : found->second;
    if (made_by == recorder) continue;
    std::string fault = folder.path_of(recording).string();
    fault.append(": recorded by '").append(made_by).append("', expected '").append(recorder);
    throw Error(fault.append("'; give another folder with '--out', or remove it"));
  }
}

}  // namespace tandem::cli
