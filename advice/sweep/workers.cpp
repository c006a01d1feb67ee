#include "advice/sweep/workers.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <vector>

#include "model/base/child_process.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::study {
namespace {

// A counter that all processes share.
class SharedCounter {
 public:
  SharedCounter() {
    void* const memory = ::mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error("sweep: no memory: " + model::system_fault(errno, "free some"));
    counter_ = new (memory) std::atomic<std::size_t>(0);
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { ::munmap(counter_, sizeof(*counter_)); }
  std::size_t next() { return counter_->fetch_add(1); }

 private:
  std::atomic<std::size_t>* counter_ = nullptr;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// One worker: takes numbers until none is left and answers "number line" on a pipe of its own, so
// that answers are never mixed.
[[noreturn]] void work_until_done(const std::vector<std::size_t>& todo, SharedCounter& counter,
                                  int answers, pid_t parent,
                                  const std::function<std::string(std::size_t)>& work) {
  model::end_with_parent(parent);
  try {
    for (std::size_t i = counter.next(); i < todo.size(); i = counter.next()) {
      if (!write_all(answers, std::to_string(todo[i]) + ' ' + work(todo[i]) + '\n')) ::_exit(1);
    }
  } catch (const std::exception& error) {
    std::cerr << model::describe(error) << std::endl;
    ::_exit(1);
  }
  ::_exit(0);
}

struct Worker {
  model::ChildProcess process;
  model::Descriptor answers;
  std::string text{};  // what has come of a line
};

Worker start(const std::vector<std::size_t>& todo, SharedCounter& counter,
             const std::function<std::string(std::size_t)>& work) {
  model::Pipe pipe = model::open_pipe("sweep");
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0)
    throw Error("sweep: no new process: " + model::system_fault(errno, "use fewer --jobs"));
  if (process == 0) {
    pipe.reading.close();
    work_until_done(todo, counter, pipe.writing.number(), parent, work);
  }
  return {.process = model::ChildProcess(process), .answers = std::move(pipe.reading)};
}

// Reads answers; false at their end.
bool take(Worker& worker, const std::function<void(std::size_t, const std::string&)>& receive) {
  std::array<char, 65536> chunk{};
  const ssize_t got = ::read(worker.answers.number(), chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  worker.text.append(chunk.data(), static_cast<std::size_t>(got));
  for (std::size_t end = worker.text.find('\n'); end != std::string::npos;
       end = worker.text.find('\n')) {
    std::size_t number = 0;
    const auto parsed = std::from_chars(worker.text.data(), worker.text.data() + end, number);
    receive(number, worker.text.substr(
                        static_cast<std::size_t>(parsed.ptr - worker.text.data()) + 1,
                        end - static_cast<std::size_t>(parsed.ptr - worker.text.data()) - 1));
    worker.text.erase(0, end + 1);
  }
  return true;
}

class Workers {
 public:
  void add(Worker worker) { workers_.push_back(std::move(worker)); }

  // Returns how many processes died.
  std::size_t drain(const std::function<void(std::size_t, const std::string&)>& receive) {
    std::size_t died = 0;
    while (!workers_.empty()) {
      std::vector<pollfd> ready;
      for (const Worker& worker : workers_) ready.push_back({worker.answers.number(), POLLIN, 0});
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR)
        throw Error("sweep: poll: " + model::system_fault(errno, "use fewer --jobs"));
      for (std::size_t i = workers_.size(); i-- > 0;) {
        if (ready[i].revents == 0 || take(workers_[i], receive)) continue;
        const int status = workers_[i].process.wait();
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++died;
        workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return died;
  }

 private:
  std::vector<Worker> workers_;
};

}  // namespace

void run_in_processes(const std::vector<std::size_t>& todo, std::size_t processes,
                      const std::function<std::string(std::size_t)>& work,
                      const std::function<void(std::size_t, const std::string&)>& receive) {
  SharedCounter counter;
  Workers workers;
  for (std::size_t i = 0; i < std::min(processes, todo.size()); ++i)
    workers.add(start(todo, counter, work));
  if (const std::size_t died = workers.drain(receive); died > 0)
    throw Error("sweep: " + std::to_string(died) +
                " processes ended before their work did, expected none to (out of memory?); start "
                "again with fewer --jobs: what is done is kept");
}

}  // namespace tandem::study
