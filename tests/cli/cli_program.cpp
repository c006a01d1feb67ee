#include "tests/cli/cli_program.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "exec/kernels/kernels_here.hpp"
#include "tests/support/source_tree.hpp"

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
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Exit status of `child`, which is killed if it takes longer than five minutes: measuring takes
// long under sanitizers.
int wait_for(pid_t child) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::minutes(5);
  bool killed = false;
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0) FAIL("the program cannot be waited for");
    if (ended == child) return status;
    if (Clock::now() > deadline && !std::exchange(killed, true)) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Plans of tests are of strategy tensor with sums at a star and read prompts whole unless they say
// so. As none may depend on the machine's speed, searches make so many evaluations, or go to the
// end where they always do. Returns whether they may be cut by this.
bool complete_plan(std::vector<std::string>& words) {
  if (words.size() < 2 || words[1] != "plan") return false;
  const auto begins = [&](const std::string& flag) {
    return std::ranges::any_of(words, [&](const std::string& w) { return w.starts_with(flag); });
  };
  if (!begins("--chunk")) words.insert(words.begin() + 2, {"--chunk", "whole"});
  if (!begins("--strategy")) {
    words.insert(words.begin() + 2, {"--strategy", "tensor"});
    if (!begins("--allreduce")) words.insert(words.begin() + 2, {"--allreduce", "star"});
  }
  if (begins("--seconds") || begins("--evaluations")) return false;
  const auto given = [&](const std::string& flag, const std::string& value) {
    const auto at = std::ranges::find(words, flag);
    return at != words.end() && std::next(at) != words.end() && *std::next(at) == value;
  };
  if (begins("--max-") || given("--sp", "auto") || given("--decode-moves", "auto") ||
      given("--devices", "fewest")) {
    words.insert(words.begin() + 2, {"--seconds", "0"});
    return false;
  }
  words.insert(words.begin() + 2, {"--evaluations", "2000"});
  return true;
}

// Takes out the line about a search that was cut.
void forget_cut(std::string& err) {
  const std::size_t begin = err.find("tandem plan: stopped after ");
  if (begin != std::string::npos) err.erase(begin, err.find('\n', begin) + 1 - begin);
}

}  // namespace

Workbench::Workbench(std::string_view program) : program_(testing::program(program)) {
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
  std::vector<std::string> words{program_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const bool may_be_cut = complete_plan(words);
  Outcome outcome = spawn(path, std::move(words), environment);
  if (may_be_cut) forget_cut(outcome.err);
  return outcome;
}

Outcome Workbench::shell(const std::string& script) const {
  const std::string out = (outputs_ / "out").string();
  Outcome outcome = spawn(out, {"/bin/sh", "-c", script}, {"TANDEM=" + program_.string()});
  outcome.out = contents(out);
  return outcome;
}

Outcome Workbench::spawn(const std::string& path, std::vector<std::string> words,
                         const std::vector<std::string>& environment) const {
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
  const int status = wait_for(child);
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

Kitchen::Kitchen() {
  write("tiny.json", source_file("tests/data/good/tiny.json"));
  write("pair.xml", source_file("tests/data/good/pair.xml"));
  // Of this program's kernels and one thread, as a profile of others is remarked on.
  write("profile.json",
        replaced(source_file("tests/data/good/profile.json"), "\"program_bytes\"",
                 "\"threads\": 1, \"kernels\": {\"generation\": " +
                     std::to_string(exec::kKernelGeneration) +
                     ", \"instruction_sets\": \"some\", \"processor\": \"a machine's\"}, "
                     "\"program_bytes\""));
}

std::string Kitchen::good(const std::vector<std::string>& words) const {
  const Outcome outcome = run(words);
  CAPTURE(words);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(outcome.err.empty());
  return outcome.out;
}

void Kitchen::plan() const {
  must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--prompt-tokens", "5",
        "--new-tokens", "4", "--out", "plan.json"});
}

void check_refused(const Workbench& bench, const std::vector<std::string>& words, int code,
                   const std::string& expected) {
  const std::vector<std::string> before = bench.listing();
  const Outcome outcome = bench.run(words);
  CAPTURE(words);
  CAPTURE(outcome.err);
  CHECK(outcome.code == code);
  CHECK(outcome.out.empty());
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.rfind("tandem", 0) == 0);
  CHECK(outcome.err.size() > 20);
  CHECK(outcome.err.size() < 700);
  CHECK(outcome.err.find("internal error") == std::string::npos);
  CHECK(outcome.err.find("json.exception") == std::string::npos);
  CHECK_MESSAGE(outcome.err.find(expected) != std::string::npos, expected);
  // Where a processor has several integer kernels, their times are kept in the cache folder.
  std::vector<std::string> made;
  std::ranges::set_symmetric_difference(before, bench.listing(), std::back_inserter(made));
  std::erase_if(made, [](const std::string& name) {
    return name == "cache" || name.starts_with("cache/kernels");
  });
  CHECK(made == std::vector<std::string>{});
}

std::string source_file(const std::string& path) { return contents(testing::in_sources(path)); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, std::string(from));
  return text.replace(at, from.size(), to);
}

std::string as_measured(std::string prediction) {
  prediction = replaced(std::move(prediction), "\"kind\": \"predicted\"", "\"kind\": \"measured\"");
  prediction = replaced(std::move(prediction), "\"pace\": null", "\"pace\": \"measured\"");
  return replaced(std::move(prediction), "\"simgrid\"", "\"exec\"");
}

}  // namespace tandem::test
