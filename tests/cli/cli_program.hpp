#pragma once

// Runs a built program, `tandem` or another, as a user would, in a folder of its own.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test {

struct Outcome {
  int code = -1;  // exit code; 128 + signal if one ended it, as after five minutes
  std::string out;
  std::string err;
};

// A folder that is removed, with everything in it, at the end; the program runs in it.
class Workbench {
 public:
  explicit Workbench(std::string_view program = "tandem");
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;
  ~Workbench();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] Outcome run(const std::vector<std::string>& arguments) const;
  // Standard output goes to the file `path` instead; environment variables "NAME=VALUE" are added.
  [[nodiscard]] Outcome run_into(const std::string& path, const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {}) const;

  // A script of /bin/sh, in which "$TANDEM" is the program; its standard output is the outcome's.
  [[nodiscard]] Outcome shell(const std::string& script) const;

  void write(const std::string& name, std::string_view contents) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  // Paths of everything in the folder, sorted.
  [[nodiscard]] std::vector<std::string> listing() const;

 private:
  [[nodiscard]] Outcome spawn(const std::string& path, std::vector<std::string> words,
                              const std::vector<std::string>& environment) const;

  std::filesystem::path program_;
  std::filesystem::path folder_;   // of the program
  std::filesystem::path outputs_;  // of what it says
};

// A workbench with a good model (tiny.json), platform (pair.xml: desk and sofa) and profile
// (profile.json).
class Kitchen : public Workbench {
 public:
  Kitchen();
  // Standard output of a run that must succeed and say nothing else.
  [[nodiscard]] std::string good(const std::vector<std::string>& words) const;
  void must(const std::vector<std::string>& words) const { static_cast<void>(good(words)); }
  // Makes plan.json: both devices, 5 prompt and 4 new tokens.
  void plan() const;
};

// Runs the program and checks that it refuses: `code`, nothing on standard output, one clear line
// with `expected` in it on standard error, no file more or less than before.
void check_refused(const Workbench& bench, const std::vector<std::string>& words, int code,
                   const std::string& expected);

// Contents of a file of the source tree.
[[nodiscard]] std::string source_file(const std::string& path);
// `text` with the first `from` replaced; fails the test if it is not there.
[[nodiscard]] std::string replaced(std::string text, std::string_view from, std::string_view to);
// A prediction of SimGrid, as JSON, as if it were the result of a run on real devices.
[[nodiscard]] std::string as_measured(std::string prediction);

}  // namespace tandem::test
