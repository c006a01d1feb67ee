// tandem pair: the key of a group of devices, to another device.

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>

#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/views/line_log.hpp"
#include "exec/pairing/code_agreement.hpp"
#include "exec/pairing/pairing.hpp"
#include "exec/pairing/pairing_code.hpp"
#include "exec/session/rejection_log.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

constexpr std::chrono::minutes kListening{5};
constexpr std::chrono::minutes kTyping{3};
constexpr std::chrono::seconds kComparing{2};
constexpr std::size_t kMostTyped = 200;

Syntax pair_syntax() {
  return {
      .command = "pair",
      .summary =
          "Copies the key of a group of devices to another device. One that has it listens and\n"
          "shows a code, which is typed on the one that joins.",
      .positionals = {},
      .flags = {{"listen", "HOST:PORT", "give the key away: address to listen on"},
                {"join", "HOST:PORT", "get the key: address of the device that listens"},
                {"key", "FILE", "the key; with --join a new file (required)"},
                {"fingerprint", "", "compare a fingerprint on both devices, without a code"}}};
}

// What ends or interrupts the wait for a line.
struct TypingWatch {
  exec::Clock::time_point deadline = exec::Clock::now() + kTyping;
  int descriptor = -1;  // when it is readable, `check` is called; -1: none
  std::function<void()> check{};
};

// The next line of standard input without its end; nothing at the end of input. Throws Error if
// nothing is typed in time, or too much, and what `watch` throws.
std::optional<std::string> typed_line(const std::string& question, const TypingWatch& watch = {}) {
  std::cerr << question << std::flush;
  std::string line;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(watch.deadline - exec::Clock::now()).count();
    if (left <= 0) throw Error("standard input: nothing was typed in time; pair again");
    std::array<pollfd, 2> set{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                               {.fd = watch.descriptor, .events = POLLIN, .revents = 0}}};
    if (::poll(set.data(), set.size(), static_cast<int>(left)) <= 0) continue;
    if (set[1].revents != 0) {
      try {
        watch.check();
      } catch (const Error&) {
        std::cerr << std::endl;  // ends the question's line
        throw;
      }
    }
    if (set[0].revents == 0) continue;
    char c = 0;
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return line.empty() ? std::nullopt : std::optional(line);
    if (c == '\n') return line;
    if (line.size() == kMostTyped)
      throw Error("standard input: a line of more than 200 characters; type one short answer");
    line += c;
  }
}

// Asks again for a yes that comes faster than anybody compares: it was meant for the question
// before, about another device.
bool confirm_fingerprint(const exec::FingerprintQuestion& question, std::ostream& out) {
  const bool is_terminal = ::isatty(STDIN_FILENO) != 0;
  if (is_terminal) ::tcflush(STDIN_FILENO, TCIFLUSH);
  out << "fingerprint: " << question.fingerprint << std::endl;
  const auto asked = exec::Clock::now();
  for (;;) {
    const std::optional<std::string> answer =
        typed_line("Does the device at " + question.peer +
                       " show the same fingerprint, in ALL eight groups? [y/n] ",
                   {.deadline = question.deadline,
                    .descriptor = question.descriptor,
                    .check = question.watch});
    if (!answer) throw Error("standard input: ended without an answer, expected y or n");
    const bool is_compared = !is_terminal || exec::Clock::now() - asked >= kComparing;
    if (is_compared && (*answer == "y" || *answer == "yes")) return true;
    if (*answer == "n" || *answer == "no") return false;
  }
}

exec::ConfirmFingerprint person_at(std::ostream& out) {
  return [&out](const exec::FingerprintQuestion& question) {
    return confirm_fingerprint(question, out);
  };
}

int give_key(const exec::Endpoint& endpoint, const std::string& file, bool by_fingerprint,
             std::ostream& out) {
  const exec::Key key = exec::read_key_file(file);
  const exec::ListenSocket socket(endpoint, /*has_key=*/true);
  exec::PairingProof proof{.code = by_fingerprint ? "" : exec::random_pairing_code(),
                           .confirm = person_at(out)};
  out << "listening on " << to_text(socket.endpoint()) << " for 5 minutes\n"
      << "on the other device: tandem pair --join HOST:" << socket.endpoint().port << " --key FILE"
      << (by_fingerprint ? " --fingerprint" : "") << '\n';
  if (!by_fingerprint) out << "code: " << proof.code << '\n';
  out << std::flush;
  LineLog log("tandem pair: ");
  exec::RejectionLog rejections([&log](const std::string& line) { log.write(line); });
  // Guesses are few and always shown; strangers without a guess are counted.
  const auto on_rejected = [&](const std::string& line, bool is_guess) {
    if (is_guess) {
      log.write(line);
    } else {
      rejections.add(line, exec::Clock::now());
    }
  };
  const auto settle = [&] { rejections.settle(exec::Clock::now() + exec::RejectionLog::kWindow); };
  std::string guest;
  try {
    guest = exec::offer_key(socket, key, proof, {.deadline = exec::Clock::now() + kListening},
                            on_rejected);
  } catch (...) {
    settle();
    throw;
  }
  settle();
  out << "paired: " << guest << " has the key of " << file << '\n';
  return 0;
}

void join_by_code(const exec::Endpoint& endpoint,
                  const std::function<void(const exec::Key&)>& store) {
  for (int left = exec::kPairingTries; left > 0;) {
    const std::optional<std::string> typed = typed_line("Code that the other device shows: ");
    if (!typed)
      throw Error("standard input: has no code; type the one that the other device shows");
    try {
      exec::fetch_key(endpoint, {.code = exec::parse_pairing_code(*typed), .confirm = {}}, store);
      return;
    } catch (const exec::WrongCode& wrong) {
      // The number is the peer's, who may be anybody.
      left = std::min(left - 1, wrong.tries_left);
      if (left <= 0)
        throw Error(std::string(wrong.what()) +
                    ", and is void now; start `tandem pair --listen` there again for a new one");
      std::cerr << "tandem pair: " << wrong.what() << "; " << left
                << (left == 1 ? " try is left\n" : " tries are left\n");
    }
  }
}

int get_key(const exec::Endpoint& endpoint, const std::string& file, bool by_fingerprint,
            std::ostream& out) {
  bool is_written = false;
  const auto store = [&](const exec::Key& key) {
    exec::write_key_file(file, key);
    is_written = true;
  };
  try {
    if (by_fingerprint) {
      exec::fetch_key(endpoint, {.code = "", .confirm = person_at(out)}, store);
    } else {
      join_by_code(endpoint, store);
    }
  } catch (const Error& fault) {
    if (!is_written) throw;
    throw Error(std::string(fault.what()) + "; " + file +
                " was written all the same and has the key, though the other device does not know "
                "it: keep it, or remove it and pair again");
  }
  out << file << ": the key of " << to_text(endpoint) << ", readable by its owner only\n";
  return 0;
}

}  // namespace

int pair_command(const Arguments& arguments, std::ostream& out) {
  Options options(pair_syntax(), arguments);
  const std::optional<std::string> listen = options.text("listen");
  const std::optional<std::string> join = options.text("join");
  if (listen.has_value() == join.has_value())
    throw Usage(
        "flags '--listen' and '--join': expected one of them; --listen on the device that "
        "has the key, --join on the other one");
  const std::string file = options.required("key");
  const bool by_fingerprint = options.has("fingerprint");
  const exec::Endpoint endpoint = listen ? exec::parse_endpoint(*listen, "flag '--listen'", true)
                                         : exec::parse_endpoint(*join, "flag '--join'");
  FileRoles files;
  if (join) {
    std::error_code fault;
    if (std::filesystem::exists(std::filesystem::symlink_status(file, fault)))
      throw Error("key file " + file +
                  ": exists, expected a new file; choose another name, or remove it if its key is "
                  "not needed");
    files.writes(options, "key");
  } else {
    files.reads(options, "key");
  }
  files.check();
  options.settle();
  if (!by_fingerprint && !exec::has_code_agreement())
    throw Error(
        "pairing: this tandem was built without Botan, which a code needs; install libbotan-2-dev "
        "and build it again, or pair with --fingerprint on both devices");
  return listen ? give_key(endpoint, file, by_fingerprint, out)
                : get_key(endpoint, file, by_fingerprint, out);
}

}  // namespace tandem::cli
