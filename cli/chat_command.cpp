// tandem chat: a conversation in the terminal.

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <iostream>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/sampling_flags.hpp"
#include "cli/flags/service_flags.hpp"
#include "cli/views/line_editor.hpp"
#include "cli/views/line_log.hpp"
#include "exec/serve/live_session.hpp"
#include "exec/serve/request_desk.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "model/base/error.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;

Syntax chat_syntax() {
  Syntax syntax{
      .command = "chat",
      .summary =
          "Talks with a model in the terminal, by its chat template. Without a plan this machine\n"
          "runs it alone in the memory that is available now. Lines that begin with / are\n"
          "commands: /reset begins anew, /system TEXT sets what the model is to be, /stats shows\n"
          "speed and length, /exit leaves. Ctrl-C stops an answer. Exit code 3, with the reason,\n"
          "if there is too little memory.",
      .positionals = {"[plan.json]"},
      .flags = {{"system", "TEXT", "what the model is to be [nothing]"},
                {"new-tokens", "N", "most tokens of an answer [512, or what memory allows]"},
                {"seed", "S", "of the first answer's sampling, then S + 1 ... [0]"}}};
  const std::vector<Flag> sampling = sampling_flags();
  syntax.flags.insert(syntax.flags.end() - 1, sampling.begin(), sampling.end());
  const std::vector<Flag> more = service_flags();
  syntax.flags.insert(syntax.flags.begin(), more.begin(), more.end());
  return syntax;
}

// The parts of one answer, from the session's thread to the terminal's.
class Answer {
 public:
  void add(const exec::AnswerPart& part) {
    const std::lock_guard lock(mutex_);
    parts_.push_back(part);
    changed_.notify_all();
  }
  [[nodiscard]] exec::AnswerPart next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !parts_.empty(); });
    exec::AnswerPart part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<exec::AnswerPart> parts_;
};

// Ctrl-C stops the present answer; SIGTERM and SIGHUP end the program. To be made before any other
// thread.
class ChatSignals {
 public:
  explicit ChatSignals(std::function<void()> on_end) : on_end_(std::move(on_end)), stop_(on_end_) {
    sigset_t set = watched();
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    has_terminal_ = tcgetattr(STDIN_FILENO, &terminal_) == 0;
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  ~ChatSignals() {
    thread_.request_stop();
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  ChatSignals(const ChatSignals&) = delete;
  ChatSignals& operator=(const ChatSignals&) = delete;

  // What Ctrl-C stops; null: nothing.
  void on_interrupt(std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    stop_ = std::move(stop);
  }

 private:
  static sigset_t watched() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    return set;
  }
  void watch(const std::stop_token& stop) {
    constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 50'000'000};
    const sigset_t set = watched();
    while (!stop.stop_requested()) {
      const int signal = sigtimedwait(&set, nullptr, &kTick);
      if (signal < 0) continue;
      if (signal != SIGINT) {
        on_end_();
        if (has_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &terminal_);
        _exit(1);
      }
      const std::lock_guard lock(mutex_);
      if (stop_)
        stop_();
      else
        std::cerr << "\n(/exit or Ctrl-D leaves)" << std::endl;
    }
  }
  std::function<void()> on_end_;
  std::mutex mutex_;
  std::function<void()> stop_;
  sigset_t before_{};
  termios terminal_{};
  bool has_terminal_ = false;
  std::jthread thread_;
};

// Whether a terminal's user has typed Ctrl-D as the next thing to be read.
bool input_has_ended() {
  if (isatty(STDIN_FILENO) == 0) return false;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  int bytes = 0;
  return poll(&input, 1, 0) > 0 && (input.revents & POLLIN) != 0 &&
         ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes == 0;
}

struct Statistics {
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;
  double first_s = 0.0;  // until the first token
  double rest_s = 0.0;   // from there to the last
};

class Conversation {
 public:
  Conversation(const ServiceJob& job, exec::RequestDesk& desk, ChatSignals& signals,
               planner::InferenceRequest sample, std::string system, std::ostream& out)
      : job_(job),
        desk_(desk),
        signals_(signals),
        chat_(exec::read_model_chat(job.weights)),
        sample_(std::move(sample)),
        system_(std::move(system)),
        out_(out) {
    if (chat_.chat_template.empty())
      throw Error(
          "the model has no chat template, expected one in tokenizer_config.json, "
          "chat_template.jinja or the GGUF file; take a model that has one, or let this one "
          "continue a text by 'tandem run --prompt TEXT'");
    static_cast<void>(exec::encode_chat(chat_, *job_.tokenizer, {{"user", "a"}}));
  }

  // Returns whether the conversation goes on.
  bool take(const std::string& line) {
    const std::string command = line.substr(0, line.find(' '));
    if (command == "/exit") return false;
    if (command == "/reset") {
      history_.clear();
      out_ << "(a new conversation)\n";
    } else if (command == "/system") {
      system_ = command.size() < line.size() ? line.substr(command.size() + 1) : "";
      out_ << (system_.empty() ? "(no system text)\n" : "(system text set)\n");
    } else if (command == "/stats") {
      show_statistics();
    } else if (line.starts_with('/')) {
      out_ << "(unknown command " << command
           << "; expected /reset, /system TEXT, /stats or /exit)\n";
    } else if (line.find_first_not_of(" \t") != std::string::npos) {
      answer(line);
    }
    out_ << std::flush;
    return true;
  }

 private:
  void answer(const std::string& line) {
    std::vector<exec::ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    messages.insert(messages.end(), history_.begin(), history_.end());
    messages.push_back({"user", line});
    planner::InferenceRequest request = sample_;
    try {
      request.prompt_ids = exec::encode_chat(chat_, *job_.tokenizer, messages);
      request.prompt_tokens = std::ssize(request.prompt_ids);
      const std::int64_t most = desk_.most_tokens(request.prompt_tokens);
      if (most < 1) {
        out_ << "(the conversation has " << request.prompt_tokens << " tokens, expected fewer than "
             << desk_.most_positions() << "; /reset begins a new one)\n";
        return;
      }
      request.new_tokens = std::min(request.new_tokens, most);
      const std::string text = spoken(std::move(request));
      history_.push_back({"user", line});
      history_.push_back({"assistant", text});
    } catch (const exec::DeskClosed&) {
      throw;
    } catch (const Error& error) {
      out_ << '(' << error.what() << ")\n";
    }
    if (sample_.sampling.temperature > 0.0) ++sample_.sampling.seed;
  }

  // Prints the answer as it comes, and returns it.
  std::string spoken(planner::InferenceRequest request) {
    const auto parts = std::make_shared<Answer>();
    statistics_ = {.prompt_tokens = request.prompt_tokens};
    const Clock::time_point begin = Clock::now();
    const std::size_t number =
        desk_.submit({.request = std::move(request)}, {},
                     [parts](const exec::AnswerPart& part) { parts->add(part); });
    signals_.on_interrupt([this, parts, number] {
      desk_.cancel(number);
      exec::AnswerPart end;
      end.is_last = true;
      end.tokens = -1;
      parts->add(end);
    });
    std::string text;
    exec::AnswerPart part;
    do {
      part = parts->next();
      const double passed_s = std::chrono::duration<double>(Clock::now() - begin).count();
      if (part.tokens == 1) statistics_.first_s = passed_s;
      if (part.tokens > 0) {
        statistics_.tokens = part.tokens;
        statistics_.rest_s = passed_s - statistics_.first_s;
      }
      text += part.text;
      out_ << part.text << std::flush;
    } while (!part.is_last);
    signals_.on_interrupt(nullptr);
    if (part.finish == exec::Finish::failed) throw exec::DeskClosed(part.failure);
    out_ << (part.tokens < 0                       ? "\n(stopped)\n"
             : part.finish == exec::Finish::length ? "\n(the limit of an answer's length)\n"
                                                   : "\n");
    return text;
  }

  void show_statistics() const {
    out_ << "(" << history_.size() / 2 << (history_.size() == 2 ? " turn" : " turns");
    if (statistics_.tokens > 0) {
      out_ << "; the last answer: " << statistics_.prompt_tokens << " prompt and "
           << statistics_.tokens << " new tokens, the first after "
           << model::fixed(statistics_.first_s, 2) << " s";
      if (statistics_.tokens > 1 && statistics_.rest_s > 0.0)
        out_ << ", then "
             << model::fixed(static_cast<double>(statistics_.tokens - 1) / statistics_.rest_s, 1)
             << " tokens a second";
    }
    out_ << "; at most " << desk_.most_positions() << " tokens in all)\n";
  }

  const ServiceJob& job_;
  exec::RequestDesk& desk_;
  ChatSignals& signals_;
  exec::ModelChat chat_;
  planner::InferenceRequest sample_;
  std::string system_;
  std::ostream& out_;
  std::vector<exec::ChatMessage> history_;
  Statistics statistics_;
};

planner::InferenceRequest sample_of(const Options& options) {
  constexpr std::int64_t kUsual = 512;
  planner::InferenceRequest sample{.id = "chat"};
  sample.new_tokens = options.integer_or("new-tokens", kUsual, 1, 1 << 30);
  sample.sampling = sampling_of(options);
  return sample;
}

}  // namespace

int chat_command(const Arguments& arguments, std::ostream& out) {
  constexpr std::chrono::milliseconds kTick{50};
  Options options(chat_syntax(), arguments);
  std::atomic<exec::RequestDesk*> open = nullptr;
  // First, as reading a plan begins threads.
  ChatSignals signals([&open] {
    if (open == nullptr) _exit(1);
    open.load()->close("interrupted");
  });
  auto found = service_job(options);
  if (const auto* no = std::get_if<planner::Infeasible>(&found)) {
    out << no->reason << (no->reason.ends_with('\n') ? "" : "\n");
    return 3;
  }
  const ServiceJob& job = std::get<ServiceJob>(found);
  const planner::Plan& plan = job.service.plan;
  if (!plan.model.architecture().generates())
    throw Error("model " + plan.model.name +
                ": an encoder, expected a model that continues texts; 'tandem serve' answers "
                "with its embeddings");
  exec::ExecuteOptions run = service_execution(options, job);
  LineLog log("tandem chat: ");
  if (!options.has("quiet"))
    run.on_warning = run.on_notice = [&log](const std::string& text) { log.write(text); };
  const planner::InferenceRequest sample = sample_of(options);
  const std::string system = options.text_or("system", "");
  options.settle();

  exec::RequestDesk desk(*job.tokenizer, plan.model, exec::stop_tokens(plan, *job.tokenizer),
                         desk_limits(job));
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::string failure;
  Conversation conversation(job, desk, signals, sample, system, out);
  exec::LiveSession session(plan, std::move(run), desk,
                            {.on_ready =
                                 [&] {
                                   const std::lock_guard lock(mutex);
                                   ready = true;
                                   changed.notify_all();
                                 },
                             .on_end =
                                 [&](const std::string& reason) {
                                   const std::lock_guard lock(mutex);
                                   failure = reason;
                                   ready = true;
                                   changed.notify_all();
                                 }});
  open = &desk;
  bool leaves = false;
  for (std::unique_lock lock(mutex); !changed.wait_for(lock, kTick, [&] { return ready; });) {
    leaves = leaves || input_has_ended();
    if (!leaves && !desk.is_closed()) continue;
    lock.unlock();
    session.stop("interrupted");  // does not wait for weights that are still being loaded
    lock.lock();
  }
  signals.on_interrupt(nullptr);
  if (leaves) {
    open = nullptr;
    return 0;
  }
  if (desk.is_closed()) throw Error(failure.empty() ? "interrupted" : failure);
  LineEditor editor;
  while (const auto line = editor.read("> ")) {
    if (!conversation.take(*line)) break;
  }
  open = nullptr;
  return 0;
}

}  // namespace tandem::cli
