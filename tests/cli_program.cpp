#include "tests/cli_program.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tandem::test {
namespace fs = std::filesystem;
namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Workbench::Workbench() {
  std::string name = (fs::temp_directory_path() / "tandem-test-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  outputs_ = name;
  folder_ = outputs_ / "work";
  fs::create_directory(folder_);
}

Workbench::~Workbench() {
  std::error_code ignored;
  fs::remove_all(outputs_, ignored);
}

Outcome Workbench::run(const std::vector<std::string>& arguments) const {
  const std::string out = (outputs_ / "out").string();
  Outcome outcome = run_into(out, arguments);
  outcome.out = contents(out);
  return outcome;
}

Outcome Workbench::run_into(const std::string& path, const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment) const {
  std::vector<std::string> words{TANDEM_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  for (char** variable = ::environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  const std::string err = (outputs_ / "err").string();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr,
                                    pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failure == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.err = contents(err);
  return outcome;
}

void Workbench::write(const std::string& name, std::string_view text) const {
  const fs::path path = folder_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.flush().good());
}

std::string Workbench::read(const std::string& name) const { return contents(folder_ / name); }

bool Workbench::has(const std::string& name) const { return fs::exists(folder_ / name); }

std::vector<std::string> Workbench::listing() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    names.push_back(entry.path().lexically_relative(folder_).string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string source_file(const std::string& path) {
  return contents(fs::path(TANDEM_SOURCE_DIR) / path);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, std::string(from));
  return text.replace(at, from.size(), to);
}

}  // namespace tandem::test
