// `tandem run` and `tandem worker` as a user starts them.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "exec/transport/key.hpp"
#include "exec/transport/listener.hpp"
#include "tests/cli/cli_program.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::session_program_test {
namespace {

using test::Kitchen;
using test::Outcome;
using testing::eventually;
using testing::has;
using testing::seconds_since;

// A tandem that runs while the test goes on; killed at the end.
class Background {
 public:
  // Standard error goes to the log too, unless `errors` is a descriptor for it.
  Background(const Kitchen& kitchen, std::vector<std::string> words, const std::string& log,
             int errors = -1)
      : log_(kitchen.folder() / log) {
    words.insert(words.begin(), testing::program().string());
    pid_ = testing::fork_child([&] {
      std::filesystem::current_path(kitchen.folder());
      for (const auto& [stream, path] :
           {std::pair{stdout, log_.string()}, {stderr, log_.string()}}) {
        if (std::freopen(path.c_str(), "a", stream) == nullptr) return 6;
      }
      if (errors >= 0) dup2(errors, STDERR_FILENO);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      return 5;
    });
  }
  ~Background() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string log() const { return testing::read_all(log_); }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
};

struct ProcessState {
  char state = 0;  // 'R', 'S', 'Z', ...; 0: there is no such process
  pid_t parent = 0;
};

ProcessState state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  ProcessState result;
  words >> result.state >> result.parent;
  return result;
}

bool gone(pid_t pid) {
  const char state = state_of(pid).state;
  return state == 0 || state == 'Z';
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (state_of(pid).parent == parent) children.push_back(pid);
  }
  return children;
}

struct Home : Kitchen {
  Home() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    plan();
    must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "tensor",
          "--prompt-tokens", "5", "--new-tokens", "100", "--out", "long.json", "--quiet"});
  }
  [[nodiscard]] static std::vector<std::string> run_words(const std::string& plan,
                                                          const std::vector<std::string>& more) {
    std::vector<std::string> words{"run",     plan,    "--weights", "tiny",
                                   "--cache", "cache", "--quiet",   "--ignore-eos"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_CASE("exec/program: emulated devices say what one device says, in every pace") {
  const Home home;
  home.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
             "--prompt-tokens", "5", "--new-tokens", "4", "--out", "local.json", "--quiet"});
  const std::string expected = home.good(Home::run_words("local.json", {}));
  CHECK(expected.size() > 6);
  CHECK(home.good(Home::run_words("plan.json", {"--emulate", "--allow-drift", "--out", "m.json",
                                                "--trace", "t.json"})) == expected);
  CHECK(home.good(Home::run_words("plan.json", {"--emulate", "--pace", "nominal", "--out", "n.json",
                                                "--trace", "tn.json"})) == expected);
  CHECK(has(home.read("m.json"), R"("kind": "measured")"));
  CHECK(has(home.read("m.json"), R"x("pace": "measured (emulated)")x"));
  CHECK(has(home.read("t.json"), "[measured]"));
  // A replay is called measured nowhere, neither in the result nor in the trace.
  CHECK(has(home.read("n.json"), R"("kind": "replayed")"));
  CHECK(has(home.read("n.json"), R"("pace": "replayed")"));
  CHECK(has(home.read("tn.json"), "[replayed]"));
  CHECK_FALSE(has(home.read("tn.json"), "measured"));
}

TEST_CASE("exec/program: at measured pace messages cost what was measured, not what a plan says") {
  const Home home;
  // 0.2 s a message, so a first token takes at least as much where the profile is believed.
  home.write("slow.json", test::replaced(home.read("profile.json"), "\"overhead_s\": 1.5e-05",
                                         "\"overhead_s\": 0.2"));
  home.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "tensor",
             "--profile", "slow.json", "--partition", "equal", "--prompt-tokens", "5",
             "--new-tokens", "1", "--out", "slow-plan.json", "--quiet"});
  const auto ttft_s = [&](const std::string& pace) {
    std::vector<std::string> words =
        Home::run_words("slow-plan.json", {"--emulate", "--pace", pace, "--out", pace + ".json"});
    if (pace == "measured") words.emplace_back("--allow-drift");
    home.must(words);
    const std::string result = home.read(pace + ".json");
    const std::string key = "\"ttft_s\": ";
    return std::stod(result.substr(result.find(key) + key.size()));
  };
  CHECK(ttft_s("nominal") >= 0.2);
  CHECK(ttft_s("measured") < 0.2);
  CHECK(has(home.read("measured.json"), "message_overhead_s"));
}

TEST_CASE("exec/program: a worker on another host serves run after run") {
  const Home home;
  generate_key_file(home.folder() / "home.key");
  const Background worker(
      home, {"worker", "--listen", "127.0.0.1:0", "--key", "home.key", "--cache", "worker-cache"},
      "worker.log");
  REQUIRE(eventually([&] { return has(worker.log(), "listening on 127.0.0.1:"); }));
  const std::string line = worker.log();
  const std::string address =
      line.substr(line.find("127.0.0.1:"), line.find('\n') - line.find("127."));
  home.write("hosts", "# my home\nsofa " + address + "\ndesk local  # here\n");
  const std::vector<std::string> flags{"--hosts", "hosts", "--key", "home.key"};
  const std::string text = home.good(Home::run_words("plan.json", flags));
  CHECK(home.good(Home::run_words("plan.json", flags)) == text);
  CHECK(has(worker.log(), ", 0 B received, 0 B read into memory"));
  // Without the key nobody gets in, and nothing breaks.
  const Outcome outcome = home.run(Home::run_words("plan.json", {"--hosts", "hosts"}));
  CHECK(outcome.code == 1);
  CHECK(home.good(Home::run_words("plan.json", flags)) == text);
}

// The writing end of a pipe that is full, and that nobody reads.
class FullPipe {
 public:
  FullPipe() {
    REQUIRE(pipe2(ends_.data(), O_NONBLOCK) == 0);
    const std::string page(4096, '.');
    while (::write(ends_[1], page.data(), page.size()) > 0) {
    }
    REQUIRE(fcntl(ends_[1], F_SETFL, 0) == 0);  // whoever writes now waits
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  ~FullPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  [[nodiscard]] int writing() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{};
};

void knock_and_leave(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  ::send(socket, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
  ::close(socket);
}

TEST_CASE("exec/program: a worker whose log nobody reads serves on, strangers or not") {
  const Home home;
  generate_key_file(home.folder() / "home.key");
  const FullPipe nobody_reads;
  const Background worker(
      home, {"worker", "--listen", "127.0.0.1:0", "--key", "home.key", "--cache", "worker-cache"},
      "worker.log", nobody_reads.writing());
  REQUIRE(eventually([&] { return has(worker.log(), "listening on 127.0.0.1:"); }));
  const std::string line = worker.log();
  const std::string address =
      line.substr(line.find("127.0.0.1:"), line.find('\n') - line.find("127."));
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
  for (int i = 0; i < 700; ++i) knock_and_leave(port);
  home.write("hosts", "sofa " + address + "\n");
  const std::vector<std::string> flags{"--hosts", "hosts", "--key", "home.key"};
  const std::string text = home.good(Home::run_words("plan.json", flags));
  CHECK(home.good(Home::run_words("plan.json", flags)) == text);
}

// Whether the process is the program, which catches or blocks SIGINT, so that it would no longer
// just end. Before that it is a copy of this one, whose own handlers end with it.
bool awaits_interrupt(pid_t pid) {
  std::error_code gone;
  const auto program = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
  if (gone || program != std::filesystem::canonical(testing::program())) return false;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:") && !line.starts_with("SigBlk:")) continue;
    if ((std::stoull(line.substr(8), nullptr, 16) & (1ULL << (SIGINT - 1))) != 0) return true;
  }
  return false;
}

TEST_CASE("exec/program: Ctrl-C ends a run whose standard error nobody reads") {
  const Home home;
  const FullPipe nobody_reads;
  const ListenSocket silent({.host = "127.0.0.1"}, true);
  home.write("hosts", "sofa " + to_text(silent.endpoint()) + "\n");
  generate_key_file(home.folder() / "home.key");
  Background run(home,
                 {"run", "plan.json", "--weights", "tiny", "--cache", "cache", "--hosts", "hosts",
                  "--key", "home.key"},
                 "run.log", nobody_reads.writing());
  REQUIRE(eventually([&] { return awaits_interrupt(run.pid()); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto begin = Clock::now();
  kill(run.pid(), SIGINT);
  CHECK(run.wait() == 1);
  CHECK(seconds_since(begin) < 20.0);
}

TEST_CASE("exec/program: no emulated device outlives a master that is killed") {
  const Home home;
  Background run(home, Home::run_words("long.json", {"--emulate"}), "run.log");
  REQUIRE(eventually([&] { return children_of(run.pid()).size() == 1; }));
  const pid_t worker = children_of(run.pid()).front();
  REQUIRE(eventually([&] { return !run.log().empty(); }));  // text is coming
  kill(run.pid(), SIGKILL);
  CHECK(run.wait() == 128 + SIGKILL);
  CHECK(eventually([&] { return gone(worker); }));
}

TEST_CASE("exec/program: Ctrl-C ends every process, with one line") {
  const Home home;
  Background run(home, Home::run_words("long.json", {"--emulate"}), "run.log");
  REQUIRE(eventually([&] { return children_of(run.pid()).size() == 1; }));
  const pid_t worker = children_of(run.pid()).front();
  REQUIRE(eventually([&] { return !run.log().empty(); }));
  kill(worker, SIGINT);  // as the terminal does, to the whole group
  kill(run.pid(), SIGINT);
  const auto begin = Clock::now();
  CHECK(run.wait() == 1);
  CHECK(seconds_since(begin) < 20.0);
  CHECK(gone(worker));
  CHECK(run.log().ends_with("tandem run: interrupted\n"));
}

TEST_CASE("exec/program: a killed emulated device is one clear error") {
  const Home home;
  Background run(home, Home::run_words("long.json", {"--emulate"}), "run.log");
  REQUIRE(eventually([&] { return children_of(run.pid()).size() == 1; }));
  REQUIRE(eventually([&] { return !run.log().empty(); }));
  kill(children_of(run.pid()).front(), SIGKILL);
  CHECK(run.wait() == 1);
  const std::string log = run.log();
  CHECK(has(log, "tandem run: sofa at 127.0.0.1:"));
  CHECK(log.find("tandem run:") == log.rfind("tandem run:"));
}

TEST_CASE("exec/program: a drift beyond the bound is a no, with the reason") {
  const Home home;
  const Outcome outcome =
      home.run(Home::run_words("plan.json", {"--emulate", "--max-drift", "0", "--out", "m.json"}));
  CHECK(outcome.code == 3);
  CHECK(has(outcome.out, "drifted"));
  CHECK(has(home.read("m.json"), "\"drift\""));
}

}  // namespace
}  // namespace tandem::exec::session_program_test
