#include "exec/transport/reception.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostWaiting = 8;  // masters
constexpr std::size_t kMostChannels = 2 * kMaxDevices;
constexpr std::chrono::milliseconds kTick{20};  // while a master waits

// "10.0.0.9", of the "client 10.0.0.9:4711" that a listener calls it.
std::string host_of(const Connection& connection) {
  std::string host = connection.peer().substr(0, connection.peer().rfind(':'));
  return host.substr(host.rfind(' ') + 1);
}

struct WaitingMaster {
  Incoming incoming;
  Clock::time_point came;
};

struct Served {
  Hello hello;
  std::string host;
  Clock::time_point since;
  std::function<bool()> over;
};

}  // namespace

struct Reception::State {
  State(Listener given, ReceptionTimes chosen)
      : listener(std::move(given)),
        times(chosen),
        arrived(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (arrived < 0) {
      throw Error("reception: no event descriptor: " +
                  model::system_fault(errno, "free some memory"));
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ::close(arrived); }

  void run() {
    while (!stop.cancelled()) {
      try {
        const Clock::time_point until =
            Clock::now() + (has_waiting() ? kTick : std::chrono::milliseconds(3'600'000));
        std::optional<Incoming> incoming =
            listener.accept({.deadline = until, .cancellation = &stop});
        const std::lock_guard lock(mutex);
        if (incoming) place(std::move(*incoming));
        settle();
      } catch (const std::exception&) {
        // Told to stop; or out of memory or descriptors, which may be over in a moment.
        if (!stop.cancelled()) std::this_thread::sleep_for(kTick);
      }
    }
  }

  [[nodiscard]] bool has_waiting() {
    const std::lock_guard lock(mutex);
    return !waiting.empty();
  }

  // The rest: under the mutex.

  void place(Incoming incoming) {
    const Hello& hello = incoming.hello;
    if (hello.purpose == Purpose::channel) return place_channel(std::move(incoming));
    if (waiting.size() >= kMostWaiting) return refuse_busy(incoming);
    waiting.push_back({.incoming = std::move(incoming), .came = Clock::now()});
    ring();
  }

  void place_channel(Incoming incoming) {
    const Hello& hello = incoming.hello;
    if (!served || hello.session != served->hello.session || hello.peer != served->hello.peer ||
        channels.size() >= kMostChannels) {
      return incoming.refuse({.kind = RefusalKind::unexpected});
    }
    try {
      incoming.welcome();
    } catch (const Error&) {
      return;  // its loss
    }
    channels.push_back(std::move(incoming));
    ring();
  }

  void refuse_busy(Incoming& incoming) const {
    Refusal refusal{.kind = RefusalKind::busy};
    if (served) {
      const auto time =
          std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - served->since);
      refusal.detail = "from " + served->host + ", for " + std::to_string(time.count()) + " s";
    }
    incoming.refuse(refusal);
  }

  // Masters that have waited long enough for the end of another's run, or wait in vain.
  void settle() {
    if (!served) return;
    const bool over = served->over && served->over();
    const auto limit = over ? times.ending : times.doubt;
    const Clock::time_point now = Clock::now();
    for (auto it = waiting.begin(); it != waiting.end();) {
      if (it->incoming.hello.session == served->hello.session) {
        // Two names of one worker: neither of them may have been served yet when both came.
        it->incoming.refuse({.kind = RefusalKind::present, .device = served->hello.peer});
      } else if (now - it->came >= limit) {
        refuse_busy(it->incoming);
      } else {
        ++it;
        continue;
      }
      it = waiting.erase(it);
    }
  }

  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(::write(arrived, &one, sizeof one) == sizeof one);
  }

  // Returns what `take` gives, once it gives something.
  template <class Take>
  std::optional<Incoming> next(const Patience& patience, const Take& take) {
    std::array<pollfd, 2> set{{
        {.fd = arrived, .events = POLLIN, .revents = 0},
        {.fd = patience.cancellation != nullptr ? patience.cancellation->descriptor() : -1,
         .events = POLLIN,
         .revents = 0},
    }};
    while (true) {
      if (patience.cancellation != nullptr) patience.cancellation->check();
      {
        const std::lock_guard lock(mutex);
        if (std::optional<Incoming> taken = take()) return taken;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          std::min<Clock::duration>(patience.deadline - Clock::now(), std::chrono::hours(1)));
      if (left.count() <= 0) return std::nullopt;
      if (::poll(set.data(), set.size(), static_cast<int>(left.count())) <= 0) continue;
      std::uint64_t count = 0;
      if (set[0].revents != 0) {
        static_cast<void>(::read(arrived, &count, sizeof count) == sizeof count);
      }
    }
  }

  Listener listener;  // the thread's
  ReceptionTimes times;
  int arrived;  // readable when something was placed
  Cancellation stop;
  std::mutex mutex;  // guards what follows
  std::optional<Served> served;
  std::list<WaitingMaster> waiting;
  std::deque<Incoming> channels;
  std::thread thread;
};

Reception::Reception(Listener listener, ReceptionTimes times)
    : state_(std::make_unique<State>(std::move(listener), times)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Reception::~Reception() {
  state_->stop.cancel("the worker ends");
  state_->thread.join();
}

std::optional<Incoming> Reception::next_master(const Patience& patience) {
  State& state = *state_;
  return state.next(patience, [&state]() -> std::optional<Incoming> {
    require(!state.served, "reception: the run before was not left");
    while (!state.waiting.empty()) {
      Incoming incoming = std::move(state.waiting.front().incoming);
      state.waiting.pop_front();
      try {
        incoming.welcome();
      } catch (const Error&) {
        continue;  // it has gone meanwhile
      }
      state.served = Served{.hello = incoming.hello,
                            .host = host_of(incoming.connection),
                            .since = Clock::now(),
                            .over = {}};
      return incoming;
    }
    return std::nullopt;
  });
}

std::optional<Incoming> Reception::next_channel(const Patience& patience) {
  State& state = *state_;
  return state.next(patience, [&state]() -> std::optional<Incoming> {
    if (state.channels.empty()) return std::nullopt;
    Incoming incoming = std::move(state.channels.front());
    state.channels.pop_front();
    return incoming;
  });
}

void Reception::watch(std::function<bool()> over) {
  const std::lock_guard lock(state_->mutex);
  if (state_->served) state_->served->over = std::move(over);
}

void Reception::leave() {
  const std::lock_guard lock(state_->mutex);
  state_->served.reset();
  state_->channels.clear();
}

}  // namespace tandem::exec
